// tests/itm/meeting.h -- words by which threads meet, also from inside a transaction.
// Shape:     a shared mapping of its own: no method of a library versions it, and a thread with
//            page tables of its own sees it.
// Contexts:  tell(), write_down() and wait_a_little() inside and outside of transactions; a library
//            that runs them in a hardware transaction aborts there and takes another way.
// Invariant: a wait in a transaction has an end: under a serial method the other thread cannot
//            come before the waiting transaction ends. No verdict depends on which thread came.
#pragma once

#include <atomic>
#include <thread>

namespace itm {

inline constexpr int kMeetingWords = 64;

[[gnu::transaction_pure]] void tell(int index);
[[gnu::transaction_pure]] int told(int index);
[[gnu::transaction_pure]] void write_down(int index, int value);
// Waits until the word is at least `value`; it gives up after 20 ms, since a library may let no
// other thread come.
[[gnu::transaction_pure]] void wait_a_little(int index, int value);
// Outside of transactions only: waits without an end; the runner has the deadline.
void wait_for(int index, int value);
// A place where the compiler knows nothing of memory.
[[gnu::transaction_pure]] void look_away();

// A second thread that runs `act`, a transaction of its own, while the first one is inside its
// transaction, if the library can. The first one calls provoke() in there: only the first attempt
// waits.
class Conflict {
 public:
  explicit Conflict(void (*act)());
  ~Conflict() { join(); }
  Conflict(const Conflict &) = delete;
  Conflict &operator=(const Conflict &) = delete;
  void join();
  [[gnu::transaction_pure]] static void provoke();

 private:
  std::thread other_;
};

}  // namespace itm
