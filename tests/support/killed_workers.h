// tests/support/killed_workers.h -- workers of a domain that are killed at any time and started
// again, each with a reference model that outlives it.
// Shape:     a worker writes down what its next instance will do (begin()), runs it, and then moves
//            its model on (commit()). The number of its last instance that committed lies in the
//            domain, too: so the next worker knows whether the instance that was under way at
//            the death happened (settle()).
// Sharing:   Life and Reference lie in memory that the domain knows nothing of (Shared), and any
//            instruction of a worker may be its last: the plan comes before `begun`, the next model
//            before `done`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/children.h"

namespace tmh::test {

struct Life {
  std::atomic<std::uint64_t> steps;  // of all lives
  // count << 32 | step of the library at which it is to die; 0: nowhere
  std::atomic<std::uint64_t> armed;

  // The worker, between two of its steps.
  void die_where_asked() noexcept;
};

template <class Model, class Plan>
struct Reference {
  Model models[2];  // [n % 2]: after n instances
  Plan plan;        // of instance `begun`
  std::atomic<std::uint64_t> begun, done;
  Life life;

  [[nodiscard]] const Model &model() const noexcept { return models[done % 2]; }
  // The number of the instance that `plan` is of.
  std::uint64_t begin() noexcept { return begun = done + 1; }
  void commit(Model next) {
    models[begun % 2] = std::move(next);
    done = begun.load();
  }
  // REQUIRES: its worker does not run. `found`: its last instance by what the domain says; `next`:
  // the model behind plan.
  template <class Next>
  void settle(std::uint64_t found, const Next &next) {
    ASSERT_TRUE(found == done || (found == done + 1 && found == begun))
        << "a worker stands at " << found << ", knew of " << done << " and had begun " << begun;
    if (found != done) commit(next(model(), plan));
  }
};

class KilledWorkers {
 public:
  using Work = std::function<void(std::uint32_t number, std::uint64_t random_seed)>;
  // lives: one for each worker.
  KilledWorkers(std::vector<Life *> lives, Work work);

  struct Kills {
    std::uint64_t count = 0;          // at least
    std::uint32_t steps_between = 1;  // of the victim, at most
    // A kill falls somewhere in this time behind them: a few instances.
    long aim_ns = 0;
    std::uint32_t all_one_in = 1;  // at so many of the kills everybody dies
  };
  // Starts all; kills one after the other. `judge`: when nobody lives. Afterwards all run.
  void kill(const Kills &kills, const std::function<void()> &judge);
  // Each must end well.
  void expect_success() { children_.expect_success(); }
  [[nodiscard]] std::uint64_t random(std::uint64_t below) { return random_() % below; }

 private:
  void start(std::uint32_t number);
  void strike(std::uint32_t victim, const Kills &kills);
  void bury(std::uint32_t victim);

  const std::vector<Life *> lives_;
  const Work work_;
  Children children_;
  std::vector<std::size_t> child_of_;
  std::mt19937_64 random_;
};

}  // namespace tmh::test
