// tests/itm/pages/owning.h -- what a worker does with its blocks, in turns plainly and in
// transactions, so that they become its own; the tests of it.
#pragma once

#include <atomic>
#include <random>

#include "tests/itm/pages/owners.h"
#include "tests/itm/pages/told.h"

namespace itm::pages {

// What a worker knows of its blocks; shared, it outlives the thread.
struct Mirror {
  // Each is stored to before the word is: a word is equal or, of a thread that died, one behind.
  std::atomic<long> plain[Owners::kBlocks][Block::kPlain];
  std::atomic<long> guest[Owners::kBlocks];
  std::atomic<long> nested[Block::kNested];
  std::atomic<long> steps, common;
  std::atomic<int> is_open, must_die, phase;
};
Mirror &mirror(int worker);

// By the worker, first.
void open_blocks(int worker);
// Stores to some of its plain words, each of which it checks.
void store_plainly(int worker, std::minstd_rand *random);
// Long ones are rare.
long some_work(std::minstd_rand *random);
// A step, counted behind its commit.
void step(int worker, std::minstd_rand *random, bool is_common);
// Plainly, by the worker, or when it is gone.
void check_own(int worker);
void check_constants(int worker, int index);
// Another thread's.
void store_as_guest(int worker, int index);
// In a transaction: what plain code of this thread has shared is its owner's again.
void look_once(int workers);
// For so long at most in time, and until each of the workers has made some steps: in every second
// rest enough for its pages to become its own again.
void rest(int workers, std::minstd_rand *random, long ns_max);
// Looks at these workers, until the test is over.
void look_at(int workers, std::minstd_rand *random);
void wait_until_open(int workers);
inline constexpr int kTurns = 72;  // until a page that was given away is owned again
void sleep_ns(long ns);
std::uint32_t seed_of(int thread);

// Each runs for as long, and until enough has happened; what was wrong is counted.
void own_and_look(long ms);
void own_and_abort(long ms);
void own_with_guests(long ms);
void own_and_cross(long ms);
void own_and_wait(long ms);
void own_and_die(long ms);

// What all of them were given.
void set_seed(std::uint32_t seed);

}  // namespace itm::pages
