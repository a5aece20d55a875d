// tests/itm/pages/kills.cpp -- threads that are killed at any moment leave whole transactions.
// Invariant: (1) those of bank.h, in each snapshot.
//            (2) no commit is lost: a worker that is gone has committed what it has counted, or one
//            more.
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include <tmh/itm.h>

#include "tests/itm/pages/bank_work.h"
#include "tests/itm/pages/told.h"

namespace itm::pages {

namespace {

// The last one looks instead; so does one more thread, which lives to the end.
constexpr int kMade = 4, kLooker = kMade - 1;
std::uint32_t seed;

// Plain memory of the heap; the thread may be killed between any two of these.
void use_heap(std::minstd_rand *random) {
  const auto bytes = static_cast<std::size_t>(16 + below(random, 3000));
  auto *const block = static_cast<unsigned char *>(std::malloc(bytes));
  if (block == nullptr) return wrong("malloc", 0, 1);
  std::memset(block, static_cast<int>(bytes & 0xff), bytes);
  for (std::size_t i = 0; i < bytes; i += 15)
    expect(block[i] == (bytes & 0xff), "a byte of an own block", block[i], bytes & 0xff);
  std::free(block);
}

void *work(void *argument) {
  const auto number = static_cast<int>(reinterpret_cast<long>(argument));
  Worker &own = told().workers[number];
  std::minstd_rand random(seed + static_cast<std::uint32_t>(number * 1000 + own.generation));
  own.tid = static_cast<int>(syscall(SYS_gettid));
  while (told().is_over == 0) {
    if (number == kLooker) {
      check(Bank::look());
      own.commits.fetch_add(1);
    } else if (below(&random, 8) == 0) {
      use_heap(&random);
    } else {
      act(number, &random);
    }
  }
  return nullptr;
}

void make_worker(int number) {
  Worker &worker = told().workers[number];
  worker.tid = 0;
  worker.threads[0] = start(work, number);
}

// The moment is what the test varies.
void wait_for_moment(std::minstd_rand *random) {
  const timespec moment{0, below(random, 3000) * 1000l};
  nanosleep(&moment, nullptr);
}

void kill_one(std::minstd_rand *random) {
  const int number = below(random, kMade);
  Worker &worker = told().workers[number];
  wait_until("a new thread", [&worker] { return worker.tid != 0; });
  syscall(SYS_kill, worker.tid.load(), SIGKILL);
  void *const value = join(worker.threads[0], "a join of a killed thread");
  expect(value == TMH_ITM_THREAD_DIED, "a killed thread's value", reinterpret_cast<long>(value),
         -2);
  if (number != kLooker) {
    const long done = Bank::done_by(number), counted = worker.commits;
    expect(done == counted || done == counted + 1, "commits of a killed thread", done, counted);
    worker.commits = done;
  }
  worker.generation.fetch_add(1);
  make_worker(number);
}

}  // namespace

void kills(const Options &options) {
  seed = options.seed;
  std::minstd_rand random(seed);
  Bank::open();
  const pthread_t looker = start(look_on, 0);
  for (int i = 0; i < kMade; ++i) make_worker(i);
  for (int i = 0; i < options.deaths; ++i) {
    wait_for_moment(&random);
    kill_one(&random);
    if (i % 25 == 0) check(Bank::look());
  }
  wait_for_a_look();
  for (Worker *each = told().workers; each != told().workers + kMade; ++each) {
    const long commits = each->commits;
    wait_until("a worker", [&] { return each->commits > commits + 1; });
  }
  told().is_over = 1;
  long commits = 0;
  for (int i = 0; i < kMade; ++i) {
    const Worker &each = told().workers[i];
    expect(join(each.threads[0], "a worker's end") == nullptr, "a worker's value", 1, 0);
    if (i == kLooker) continue;
    expect(Bank::done_by(i) == each.commits, "commits", Bank::done_by(i), each.commits);
    commits += each.commits;
  }
  join(looker, "a looker's end");
  check(Bank::look());
  check(Bank::look_plainly());
  std::printf("%d kills, %ld commits, %ld looks\n", options.deaths, commits, told().looks.load());
}

}  // namespace itm::pages
