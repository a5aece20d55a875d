#include "tests/itm/pages/owning.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace itm::pages {

namespace {

std::uint32_t given_seed = 1;

Mirror *mapped() {
  void *const place = mmap(nullptr, Owners::kMost * sizeof(Mirror), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) {
    std::perror("mmap of mirrors");
    std::exit(2);
  }
  return static_cast<Mirror *>(place);  // zeros
}

Mirror *const mirrors = mapped();

int number_of(void *argument) { return static_cast<int>(reinterpret_cast<long>(argument)); }

void note_step(int worker, long value) {
  Mirror &own = mirror(worker);
  expect(value == own.steps + 1, "a step", value, own.steps + 1);
  own.steps.fetch_add(1);
  told().workers[worker].commits.fetch_add(1);
}

void step_nested(int worker, std::minstd_rand *random) {
  const auto kept = static_cast<unsigned>((*random)() & 0xffff);
  const long value = Owners::step_nested(worker, some_work(random), kept);
  for (int i = 0; i < Block::kNested; ++i)
    if ((kept >> i & 1) != 0) mirror(worker).nested[i].fetch_add(1);
  note_step(worker, value);
}

// In so many steps and looks, pages of each worker become its own again and again.
constexpr long kStepsLeast = 4 * kTurns, kLooksLeast = 6;

// Runs the threads until the time is over and all have come far enough; all go on to the end.
template <std::size_t kThreads>
void run(void *(*const (&routines)[kThreads])(void *), int workers, long looks_least, long ms) {
  pthread_t threads[kThreads];
  for (std::size_t i = 0; i < kThreads; ++i) threads[i] = start(routines[i], static_cast<long>(i));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < end) sleep_ns(10'000'000);
  for (int i = 0; i < workers; ++i) {
    const long commits = std::max(told().workers[i].commits.load(), kStepsLeast);
    wait_until("a worker's next step", [&] { return told().workers[i].commits > commits + 1; });
  }
  wait_until("looks", [&] { return told().looks >= looks_least; });
  told().is_over = 1;
  for (const pthread_t each : threads) join(each, "a thread's end");
  for (int i = 0; i < workers; ++i) check_own(i);
}

void *work_and_look_back(void *argument) {
  const int own = number_of(argument);
  std::minstd_rand random(seed_of(own));
  open_blocks(own);
  while (told().is_over == 0) {
    store_plainly(own, &random);
    step(own, &random, false);
    if (below(&random, 16) == 0) check_own(own);
  }
  return nullptr;
}

void *look_at_two(void *argument) {
  std::minstd_rand random(seed_of(number_of(argument)));
  look_at(2, &random);
  return nullptr;
}

void *work_and_abort(void *argument) {
  const int own = number_of(argument);
  std::minstd_rand random(seed_of(own));
  open_blocks(own);
  while (told().is_over == 0) {
    store_plainly(own, &random);
    switch (below(&random, 4)) {
      case 0:
        Owners::cancel(own, some_work(&random));
        break;
      case 1:
        step_nested(own, &random);
        break;
      default:
        step(own, &random, below(&random, 2) == 0);
    }
    check_own(own);
  }
  return nullptr;
}

// No page of a worker's is this thread's.
void *be_a_guest(void *argument) {
  std::minstd_rand random(seed_of(number_of(argument)));
  wait_until_open(2);
  while (told().is_over == 0) {
    const int worker = below(&random, 2), index = below(&random, Owners::kBlocks);
    for (int i = below(&random, 4); i >= 0; --i) {
      check_constants(worker, index);
      if (below(&random, 2) == 0) store_as_guest(worker, index);
    }
    look_once(2);
    told().looks.fetch_add(1);
    rest(2, &random, 12'000'000);
  }
  return nullptr;
}

int null_file() {
  static const int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
  return file;
}

// Two workers; each is the guest of the other.
void *work_and_cross(void *argument) {
  const int own = number_of(argument), other = 1 - own;
  std::minstd_rand random(seed_of(own));
  open_blocks(own);
  wait_until_open(2);
  while (told().is_over == 0) {
    // For a while its pages are its own.
    for (int i = below(&random, 200); i >= 0 && told().is_over == 0; --i) {
      store_plainly(own, &random);
      step(own, &random, false);
    }
    for (int i = below(&random, 20); i >= 0; --i) {
      check_constants(other, below(&random, Owners::kBlocks));
      store_as_guest(other, below(&random, Owners::kBlocks));
      store_plainly(own, &random);
      if (below(&random, 16) != 0) {
        step(own, &random, false);
      } else {
        note_step(own, Owners::step_irrevocably(own, some_work(&random), null_file()));
      }
    }
    look_once(2);
  }
  return nullptr;
}

void *be_irrevocable(void *argument) {
  const int own = number_of(argument);
  std::minstd_rand random(seed_of(own));
  open_blocks(own);
  while (told().is_over == 0) {
    for (int i = below(&random, 100); i >= 0 && told().is_over == 0; --i) {
      store_plainly(own, &random);
      step(own, &random, false);
    }
    note_step(own, Owners::step_irrevocably(own, some_work(&random), null_file()));
  }
  return nullptr;
}

}  // namespace

Mirror &mirror(int worker) { return mirrors[worker]; }

void set_seed(std::uint32_t seed) { given_seed = seed; }
std::uint32_t seed_of(int thread) { return given_seed * 64 + static_cast<std::uint32_t>(thread); }

void sleep_ns(long ns) {
  const timespec pause{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&pause, nullptr);
}

void open_blocks(int worker) {
  Owners::open(worker);
  mirror(worker).is_open = 1;
}

void wait_until_open(int workers) {
  for (int i = 0; i < workers; ++i)
    wait_until("a worker's blocks", [i] { return mirror(i).is_open != 0; });
}

void store_plainly(int worker, std::minstd_rand *random) {
  for (int i = 0; i < Owners::kBlocks; ++i) {
    const int at = below(random, Block::kPlain);
    Block &block = Owners::block(worker, i);
    std::atomic<long> &known = mirror(worker).plain[i][at];
    expect(block.plain[at] == known, "a plain word", block.plain[at], known);
    const long value = ++known;
    block.plain[at] = value;
  }
}

long some_work(std::minstd_rand *random) {
  const int kind = below(random, 100);
  if (kind == 0) return 1'000'000 + below(random, 4'000'000);
  return kind < 20 ? below(random, 100'000) : 0;
}

void step(int worker, std::minstd_rand *random, bool is_common) {
  const long value = Owners::step(worker, some_work(random), is_common);
  if (is_common) mirror(worker).common.fetch_add(1);
  note_step(worker, value);
}

void check_own(int worker) {
  const Mirror &known = mirror(worker);
  const Owners::Seen seen = Owners::look_plainly(worker);
  expect(seen.different == 0, "own words that differ", seen.different, 0);
  expect(seen.value == known.steps, "own steps", seen.value, known.steps);
  for (int i = 0; i < Owners::kBlocks; ++i) {
    const Block &block = Owners::block(worker, i);
    for (int at = 0; at < Block::kPlain; ++at)
      expect(block.plain[at] == known.plain[i][at], "an own plain word", block.plain[at],
             known.plain[i][at]);
    for (int at = 0; at < Block::kNested; ++at)
      expect(block.nested[at] == known.nested[at], "nested additions", block.nested[at],
             known.nested[at]);
    check_constants(worker, i);
  }
}

void check_constants(int worker, int index) {
  const Block &block = Owners::block(worker, index);
  for (int at = 0; at < Block::kConstants; ++at)
    expect(block.constant[at] == worker * 1000 + index * 10 + at, "a constant", block.constant[at],
           worker * 1000 + index * 10 + at);
}

void store_as_guest(int worker, int index) {
  Block &block = Owners::block(worker, index);
  std::atomic<long> &known = mirror(worker).guest[index];
  expect(block.guest == known, "a guest's word", block.guest, known);
  block.guest = ++known;
}

void look_once(int workers) {
  Owners::Seen seen[Owners::kMost];
  Owners::look(seen, workers, 0);
  for (int i = 0; i < workers; ++i)
    expect(seen[i].different == 0, "words that differ in one look", seen[i].different, 0);
}

void rest(int workers, std::minstd_rand *random, long ns_max) {
  long wanted[Owners::kMost];
  static std::atomic<int> rests{0};
  const int steps = below(random, kTurns) + (rests++ % 2 == 0 ? kTurns : 0);
  for (int i = 0; i < workers; ++i) wanted[i] = told().workers[i].commits + steps;
  sleep_ns(below(random, static_cast<int>(ns_max)));
  for (int i = 0; i < workers; ++i)
    wait_until("a worker's steps",
               [&] { return told().workers[i].commits >= wanted[i] || told().is_over != 0; });
}

void look_at(int workers, std::minstd_rand *random) {
  long last[Owners::kMost] = {}, least[Owners::kMost] = {};
  while (told().is_over == 0) {
    for (int i = 0; i < workers; ++i) least[i] = mirror(i).steps;
    Owners::Seen seen[Owners::kMost];
    Owners::look(seen, workers, below(random, 4) == 0 ? below(random, 2'000'000) : 0);
    for (int i = 0; i < workers; ++i) {
      expect(seen[i].different == 0, "words that differ", seen[i].different, 0);
      expect(seen[i].value >= least[i], "a snapshot older than its begin", seen[i].value, least[i]);
      expect(seen[i].value >= last[i], "a snapshot older than the last", seen[i].value, last[i]);
      last[i] = seen[i].value;
    }
    told().looks.fetch_add(1);
    rest(workers, random, 12'000'000);
  }
}

void own_and_look(long ms) {
  run({work_and_look_back, work_and_look_back, look_at_two}, 2, kLooksLeast, ms);
}

void own_and_abort(long ms) {
  run({work_and_abort, work_and_abort, look_at_two}, 2, kLooksLeast, ms);
  const long common = mirror(0).common + mirror(1).common;
  expect(Owners::common() == common, "common steps", Owners::common(), common);
}

void own_with_guests(long ms) {
  run({work_and_abort, work_and_abort, be_a_guest}, 2, kLooksLeast, ms);
  for (int worker = 0; worker < 2; ++worker)
    for (int i = 0; i < Owners::kBlocks; ++i)
      expect(Owners::block(worker, i).guest == mirror(worker).guest[i], "a guest's word at the end",
             Owners::block(worker, i).guest, mirror(worker).guest[i]);
}

void own_and_cross(long ms) { run({work_and_cross, work_and_cross, be_irrevocable}, 3, 0, ms); }

}  // namespace itm::pages
