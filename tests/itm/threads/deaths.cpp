// tests/itm/threads/deaths.cpp -- threads that die alone, as of a signal inside of a transaction.
// tmh_itm_test_die() is the flat engine's; there are no transactions here.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include <tmh/itm.h>

#include "tests/itm/program.h"
#include "tests/itm/threads/create.h"

extern "C" [[gnu::weak]] void tmh_itm_test_die(int signal);

namespace {

void *die_of(int signal) {
  if (tmh_itm_test_die != nullptr) tmh_itm_test_die(signal);
  return nullptr;
}

std::atomic<int> deaths{0}, last_signal{0}, replaced{0};
std::atomic<pthread_t> dead{0}, replacement{0};

}  // namespace

ITM_PROGRAM(deaths_joiners_learn_of_a_death, "died others 3") {
  std::atomic<int> others{0}, go{0};
  std::thread other([&] {
    while (go.load() == 0) sched_yield();
    others = 3;
  });
  itm::Thread dying([] { return die_of(SIGSEGV); });
  const bool is_dead = dying.join() == TMH_ITM_THREAD_DIED;
  go = 1;
  other.join();
  return itm::say(is_dead ? "died" : "?", "others", others.load());
}

ITM_PROGRAM(deaths_the_callback_makes_another, "0 deaths 20 of 8 same 20 replaced 20") {
  static const auto replace = [](pthread_t thread, int signal, void *argument) {
    dead = thread;
    last_signal = signal;
    pthread_t next;
    const auto run = [](void *word) -> void * {
      static_cast<std::atomic<int> *>(word)->fetch_add(1);
      return nullptr;
    };
    if (pthread_create(&next, nullptr, run, argument) == 0) replacement = next;
    deaths.fetch_add(1);
  };
  const int error =
      tmh_itm_on_thread_death == nullptr ? -1 : tmh_itm_on_thread_death(replace, &replaced);
  int same = 0;
  for (int i = 1; i <= 20; ++i) {
    itm::Thread dying([] { return die_of(SIGFPE); });
    const pthread_t thread = dying.id();
    if (dying.join() != TMH_ITM_THREAD_DIED) return "?";
    while (deaths.load() != i) sched_yield();
    if (dead.load() == thread) ++same;
    pthread_join(replacement.load(), nullptr);
  }
  return itm::say(error, "deaths", deaths.load(), "of", last_signal.load(), "same", same,
                  "replaced", replaced.load());
}

ITM_PROGRAM(deaths_a_detached_thread_dies, "1 5") {
  const auto note = [](pthread_t, int, void *) { deaths.fetch_add(1); };
  if (tmh_itm_on_thread_death == nullptr) return "?";
  tmh_itm_on_thread_death(note, nullptr);
  pthread_t thread;
  pthread_create(
      &thread, nullptr, [](void *) { return die_of(SIGSEGV); }, nullptr);
  pthread_detach(thread);
  while (deaths.load() == 0) sched_yield();
  itm::Thread next([] { return itm::as_result(5); });
  const long result = itm::as_number(next.join());
  return itm::say(deaths.load(), result);
}

ITM_PROGRAM(deaths_main_dies_and_all_with_it, "dies of 11") {
  std::atomic<int> never{0};
  itm::Thread other([&never]() -> void * {
    while (never.load() == 0) sched_yield();
    return nullptr;
  });
  die_of(SIGSEGV);
  return "?";
}
