// tests/support/forker.h -- forks for a process that has threads, a housekeeper for one, from a
// process that was made before and has none.
// Why:       a child knows its parent's threads by name only. One that it starts itself may get the
//            address of one of these, and ThreadSanitizer, for which both live, ends the child.
// Invariant: what an errand expects fails expect_success().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/shared.h"

namespace tmh::test {

class Forker {
 public:
  // REQUIRES: no threads yet. Errands see this process as it is now, and memory that is shared with
  // it.
  explicit Forker(std::vector<std::function<void()>> errands) : errands_(std::move(errands)) {
    forker_.spawn("forker", role(*turn_, [&] {
                    for (std::uint32_t turn = 1;; turn += 2) {
                      turn_->await(turn);
                      if (*errand_ == errands_.size()) return;
                      errands_[*errand_]();
                      turn_->reach(turn + 1);
                    }
                  }));
  }
  // Returns when it is done.
  void run(std::size_t errand) {
    *errand_ = errand;
    turn_->reach(++last_turn_);
    turn_->await(++last_turn_);
  }
  // The last call.
  void expect_success() {
    *errand_ = errands_.size();
    turn_->reach(++last_turn_);
    forker_.expect_success();
  }

 private:
  std::vector<std::function<void()>> errands_;
  Shared<Turn> turn_;
  Shared<std::size_t> errand_;
  std::uint32_t last_turn_ = 0;
  Children forker_;
};

}  // namespace tmh::test
