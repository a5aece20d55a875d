// tests/itm/meeting.cpp -- words by which threads meet, and the thread that makes a conflict.
#include "tests/itm/meeting.h"

#include <sched.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace itm {
namespace {

// Enough for another thread to run a short transaction. Not counted in turns: on a busy machine a
// yield takes as long as another program's time slice.
constexpr auto kALittle = std::chrono::milliseconds(20);
constexpr int kReached = kMeetingWords - 1;
constexpr int kActed = kMeetingWords - 2;
constexpr int kThere = kMeetingWords - 3;

// A library may count the threads by their first transactions, and run a single one without others
// in mind.
long first_transactions;
void run_a_transaction() {
  __transaction_atomic { first_transactions = first_transactions + 1; }
}

std::atomic<int> *mapped_words() {
  constexpr std::size_t kBytes = kMeetingWords * sizeof(std::atomic<int>);
  void *const place =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) {
    std::perror("mmap of the meeting's words");
    std::exit(2);
  }
  return new (place) std::atomic<int>[kMeetingWords];
}

std::atomic<int> *const words = mapped_words();

}  // namespace

void tell(int index) { words[index].fetch_add(1); }

void write_down(int index, int value) { words[index].store(value); }

int told(int index) { return words[index].load(); }

void wait_a_little(int index, int value) {
  const auto end = std::chrono::steady_clock::now() + kALittle;
  while (words[index].load() < value && std::chrono::steady_clock::now() < end) sched_yield();
}

void wait_for(int index, int value) {
  while (words[index].load() < value) sched_yield();
}

void look_away() { asm volatile("" ::: "memory"); }

Conflict::Conflict(void (*act)())
    : other_([act] {
        run_a_transaction();
        tell(kThere);
        wait_for(kReached, 1);
        act();
        tell(kActed);
      }) {
  run_a_transaction();
  wait_for(kThere, 1);
}

void Conflict::join() {
  tell(kReached);
  if (other_.joinable()) other_.join();
}

void Conflict::provoke() {
  if (words[kReached].exchange(1) == 0) wait_a_little(kActed, 1);
}

}  // namespace itm
