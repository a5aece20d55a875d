// tests/itm/pages/owner_deaths.cpp -- owners of pages that die at any moment, inside, too.
// Invariant: those of owners.h, for a transaction and for plain code, behind each death.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include <tmh/itm.h>

#include "tests/itm/pages/owning.h"
#include "tests/itm/pages/waiting.h"

namespace itm::pages {

namespace {

constexpr int kMade = 3, kDeathsLeast = 6;

void die(int number, std::minstd_rand *random) {
  Owners::die(number, some_work(random), below(random, 2) == 0);
  wrong("a thread lives on behind its death", number, -1);
}

void *work(void *argument) {
  const auto number = static_cast<int>(reinterpret_cast<long>(argument));
  Worker &own = told().workers[number];
  std::minstd_rand random(seed_of(number) + static_cast<std::uint32_t>(100 * own.generation));
  if (mirror(number).is_open == 0) open_blocks(number);
  own.tid = static_cast<int>(syscall(SYS_gettid));
  while (told().is_over == 0) {
    if (mirror(number).must_die != 0) die(number, &random);
    store_plainly(number, &random);
    // It dies there, too.
    if (below(&random, 4) == 0) wait(below(&random, 400'000));
    step(number, &random, false);
  }
  return nullptr;
}

void *look_at_all(void *argument) {
  std::minstd_rand random(seed_of(static_cast<int>(reinterpret_cast<long>(argument))));
  look_at(kMade, &random);
  return nullptr;
}

void make(int number) {
  told().workers[number].tid = 0;
  told().workers[number].threads[0] = start(work, number);
}

// A death comes behind a store to the mirror, or behind a commit, before the other one.
void make_even(int number) {
  Mirror &known = mirror(number);
  long behind = 0;
  for (int i = 0; i < Owners::kBlocks; ++i)
    for (int at = 0; at < Block::kPlain; ++at) {
      const long has = Owners::block(number, i).plain[at], counted = known.plain[i][at];
      expect(has == counted || has == counted - 1, "a dead thread's plain word", has, counted);
      behind += counted - has;
      known.plain[i][at] = has;
    }
  expect(behind <= 1, "plain stores that a death has undone", behind, 1);
}

void check_dead(int number, bool is_plain_first) {
  Mirror &known = mirror(number);
  const long counted = known.steps;
  Owners::Seen seen[Owners::kMost], plainly{};
  if (is_plain_first) plainly = Owners::look_plainly(number);
  Owners::look(seen, kMade, 0);
  if (!is_plain_first) plainly = Owners::look_plainly(number);
  expect(plainly.different == 0, "a dead thread's words", plainly.different, 0);
  expect(seen[number].different == 0, "a dead thread's words in a transaction",
         seen[number].different, 0);
  expect(seen[number].value == plainly.value, "a dead thread's steps", seen[number].value,
         plainly.value);
  expect(plainly.value == counted || plainly.value == counted + 1, "steps of a dead thread",
         plainly.value, counted);
  known.steps = plainly.value;
  make_even(number);
  check_own(number);
  for (int i = 0; i < Owners::kBlocks; ++i) store_as_guest(number, i);
}

// Of itself, or killed.
void end_one(int number, std::minstd_rand *random) {
  Worker &worker = told().workers[number];
  wait_until("a new thread", [&worker] { return worker.tid != 0; });
  if (below(random, 3) == 0) {
    mirror(number).must_die = 1;
  } else {
    syscall(SYS_kill, worker.tid.load(), SIGKILL);
  }
  // Others want the pages of one that is just dead.
  const bool is_early = below(random, 2) == 0;
  if (is_early) {
    look_once(kMade);
    store_as_guest(number, below(random, Owners::kBlocks));
  }
  void *const value = join(worker.threads[0], "a join of a dead thread");
  expect(value == TMH_ITM_THREAD_DIED, "a dead thread's value", reinterpret_cast<long>(value), -2);
  mirror(number).must_die = 0;
  check_dead(number, below(random, 2) == 0);
  worker.generation.fetch_add(1);
  make(number);
}

}  // namespace

void own_and_die(long ms) {
  std::minstd_rand random(seed_of(kMade + 1));
  for (int i = 0; i < kMade; ++i) make(i);
  wait_until_open(kMade);
  const pthread_t looker = start(look_at_all, kMade);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  long deaths = 0;
  for (; deaths < kDeathsLeast || std::chrono::steady_clock::now() < end; ++deaths) {
    rest(kMade, &random, 6'000'000);
    const int number = below(&random, kMade);
    end_one(number, &random);
    const int other = (number + 1) % kMade;
    const long commits = told().workers[other].commits;
    wait_until("another worker", [&] { return told().workers[other].commits > commits + 1; });
  }
  told().is_over = 1;
  for (int i = 0; i < kMade; ++i) join(told().workers[i].threads[0], "a worker's end");
  join(looker, "a looker's end");
  for (int i = 0; i < kMade; ++i) check_own(i);
  std::printf("%ld deaths\n", deaths);
}

}  // namespace itm::pages
