// tests/itm/pages/faults.cpp -- threads that die of a signal inside of transactions leave nothing
// of these; the next thread of each is made by the callback.
// Invariant: those of bank.h in each snapshot; exactly what was counted is committed.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <tmh/itm.h>

#include "tests/itm/pages/bank_work.h"
#include "tests/itm/pages/told.h"

namespace itm::pages {

namespace {

constexpr int kMade = 3;
std::uint32_t seed;
long deaths_each;
thread_local int own_number = -1;

void die(int number, std::minstd_rand *random) {
  const auto death = static_cast<Bank::Death>(below(random, Bank::kDeaths));
  const int from = below(random, Bank::kAccounts), to = below(random, Bank::kAccounts);
  Bank::die_half_done(number, from, to, 1 + below(random, 9), below(random, Bank::kLists),
                      1 + below(random, 1'000'000), death);
  wrong("a thread lives on behind its death", number, -1);
}

void *work(void *argument) {
  own_number = static_cast<int>(reinterpret_cast<long>(argument));
  Worker &own = told().workers[own_number];
  const long generation = own.generation;
  std::minstd_rand random(seed + static_cast<std::uint32_t>(own_number * 1000 + generation));
  for (int i = below(&random, 40); i >= 0; --i) act(own_number, &random);
  if (generation < deaths_each) die(own_number, &random);
  return nullptr;
}

void on_death(pthread_t thread, int, void *) {
  Worker &own = told().workers[own_number];
  const long generation = own.generation;
  // Its maker may still be behind the call that made it.
  wait_until("a thread's maker", [&] { return own.threads[generation] != 0; });
  expect(pthread_equal(thread, own.threads[generation]) != 0, "the dead thread's name", 0, 1);
  own.generation = generation + 1;
  // The one that joins the dead comes behind: until then there may be no slot.
  pthread_t next{};
  int error = EAGAIN;
  while (error == EAGAIN) {
    error = pthread_create(&next, nullptr, work, reinterpret_cast<void *>(long{own_number}));
    if (error == EAGAIN) yield();
  }
  expect(error == 0, "pthread_create in the callback", error, 0);
  own.threads[generation + 1] = next;
}

}  // namespace

void faults(const Options &options) {
  seed = options.seed;
  deaths_each = (options.deaths + kMade - 1) / kMade;
  if (deaths_each >= kGenerations) deaths_each = kGenerations - 1;
  Bank::open();
  if (tmh_itm_on_thread_death == nullptr) return wrong("tmh_itm_on_thread_death", 0, 1);
  expect(tmh_itm_on_thread_death(on_death, nullptr) == 0, "tmh_itm_on_thread_death", 1, 0);
  const pthread_t looker = start(look_on, 0);
  for (int i = 0; i < kMade; ++i) told().workers[i].threads[0] = start(work, i);
  for (long generation = 0; generation <= deaths_each; ++generation)
    for (int i = 0; i < kMade; ++i) {
      Worker &each = told().workers[i];
      wait_until("a next thread", [&] { return each.threads[generation] != 0; });
      void *const value = join(each.threads[generation], "a join of a dead thread");
      void *const expected = generation < deaths_each ? TMH_ITM_THREAD_DIED : nullptr;
      expect(value == expected, "a thread's value", reinterpret_cast<long>(value),
             reinterpret_cast<long>(expected));
    }
  wait_for_a_look();
  told().is_over = 1;
  join(looker, "a looker's end");
  for (int i = 0; i < kMade; ++i) {
    const long commits = told().workers[i].commits;
    expect(Bank::done_by(i) == commits, "commits", Bank::done_by(i), commits);
  }
  check(Bank::look());
  check(Bank::look_plainly());
  std::printf("%ld deaths, %ld looks\n", deaths_each * kMade, told().looks.load());
}

}  // namespace itm::pages
