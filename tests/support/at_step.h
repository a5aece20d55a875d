// tests/support/at_step.h -- an action in the middle of a protocol.
// Shape:     one at a time. The action runs at the next passage of a step, in whichever thread.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "observe/steps.h"

namespace tmh::test {

// At the next passage of `step`, once.
class AtStep {
 public:
  AtStep(observe::Step step, std::function<void()> action) {
    wanted = {step, std::move(action)};
    observe::set_step_hook([](observe::Step passed) {
      if (passed != wanted.step || wanted.action == nullptr) return;
      std::exchange(wanted.action, nullptr)();
    });
  }
  ~AtStep() {
    observe::set_step_hook(nullptr);
    EXPECT_EQ(std::exchange(wanted.action, nullptr), nullptr) << "it was not passed";
  }
  AtStep(const AtStep &) = delete;
  AtStep &operator=(const AtStep &) = delete;

 private:
  struct Wanted {
    observe::Step step;
    std::function<void()> action;
  };
  static inline Wanted wanted;
};

}  // namespace tmh::test
