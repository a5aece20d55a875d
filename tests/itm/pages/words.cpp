// tests/itm/pages/words.cpp -- what readers, writers and plain code of the same lines see.
// Invariant: (1) a snapshot shows each transaction whole or not at all, shows what was committed
//            before its begin, and does not change.
//            (2) no store is lost: of transactions, of plain code, of atomic operations.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <random>

#include "tests/itm/pages/cells.h"
#include "tests/itm/pages/told.h"

namespace itm::pages {

namespace {

constexpr int kWriters = 2, kPlain = 2;  // the third thread has no transactions
constexpr long kLongNs = 200'000'000;
std::uint32_t seed;
// Of all threads, on the pages of static data.
std::atomic<long> together;

// What a thread has stored plainly, in a second place.
struct Mirror {
  long words[Cells::kLines];
  unsigned char bytes[Cells::kLines];
};

void check_line(const Mirror &mirror, int thread, int index) {
  const Line &line = Cells::line(index);
  expect(line.plain[thread] == mirror.words[index], "a plain word", line.plain[thread],
         mirror.words[index]);
  expect(line.bytes[2 * thread] == mirror.bytes[index], "a plain byte", line.bytes[2 * thread],
         mirror.bytes[index]);
  expect(line.constant == index, "a constant", line.constant, index);
}

void store_plainly(Mirror *mirror, int thread, int index) {
  check_line(*mirror, thread, index);
  Line &line = Cells::line(index);
  line.plain[thread] = ++mirror->words[index];
  line.bytes[2 * thread] = ++mirror->bytes[index];
  together.fetch_add(1);
  told().workers[thread].generation.fetch_add(1);
}

void raise(std::atomic<long> *value, long to) {
  long seen = *value;
  while (seen < to && !value->compare_exchange_weak(seen, to)) {
  }
}

void *store(void *argument) {
  const auto thread = static_cast<int>(reinterpret_cast<long>(argument));
  std::minstd_rand random(seed + static_cast<std::uint32_t>(thread));
  Mirror mirror{};
  while (told().is_over == 0) {
    for (int i = below(&random, 6); i >= 0; --i)
      store_plainly(&mirror, thread, below(&random, Cells::kLines));
    if (thread == kPlain) continue;
    for (int i = below(&random, 6); i >= 0; --i) {
      const int line = below(&random, Cells::kLines), other = below(&random, Cells::kLines);
      raise(&told().newest, Cells::step(thread, line, other));
      told().workers[thread].commits.fetch_add(1);
    }
  }
  for (int i = 0; i < Cells::kLines; ++i) check_line(mirror, thread, i);
  return nullptr;
}

void look(long wait_ns) {
  static thread_local long last = 0;
  const long newest = told().newest;
  const Cells::Seen seen = Cells::look(wait_ns);
  expect(seen.different == 0, "words that differ", seen.different, 0);
  expect(seen.later_value == seen.value, "a word read again", seen.later_value, seen.value);
  expect(seen.calm_value == seen.value, "a word read later", seen.calm_value, seen.value);
  expect(seen.value >= newest, "a snapshot older than its begin", seen.value, newest);
  expect(seen.value >= last, "a snapshot older than the last", seen.value, last);
  last = seen.value;
  told().looks.fetch_add(1);
}

void *look_long(void *) {
  look(kLongNs);
  return nullptr;
}

bool all_have_committed() {
  return std::all_of(told().workers, told().workers + kWriters,
                     [](const Worker &each) { return each.commits != 0; });
}

void check_end() {
  long commits = 0, plain = 0;
  for (int i = 0; i <= kPlain; ++i) plain += told().workers[i].generation;
  expect(together == plain, "atomic additions", together, plain);
  for (int writer = 0; writer < kWriters; ++writer) {
    const long own = told().workers[writer].commits;
    commits += own;
    long counted = 0, in_bytes = 0;
    for (int i = 0; i < Cells::kLines; ++i) {
      counted += Cells::line(i).counted[writer];
      in_bytes += Cells::line(i).bytes[1 + 2 * writer];
    }
    expect(counted == 2 * own, "a writer's words", counted, 2 * own);
    expect((own - in_bytes) % 256 == 0, "a writer's bytes", in_bytes % 256, own % 256);
    expect(own > 0, "a writer's commits", own, 1);
  }
  expect(Cells::line(0).equal == commits, "commits", Cells::line(0).equal, commits);
  look(0);
  std::printf("%ld commits, %ld plain stores, %ld looks\n", commits, plain, told().looks.load());
}

}  // namespace

void words(const Options &options) {
  seed = options.seed;
  Cells::open();
  pthread_t threads[kPlain + 1];
  for (int i = 0; i <= kPlain; ++i) threads[i] = start(store, i);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  while (std::chrono::steady_clock::now() < end || !all_have_committed()) {
    // A new thread has no copies yet.
    join(start(look_long, 0), "a long look");
    for (int i = 0; i < 50; ++i) look(i % 10 == 0 ? 1'000'000 : 0);
  }
  told().is_over = 1;
  for (const pthread_t each : threads) join(each, "a thread's end");
  check_end();
}

}  // namespace itm::pages
