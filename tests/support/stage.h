// tests/support/stage.h -- a mode's domain with two raw segments, played on by one process or by
// two in a fixed order.
// Shape:     Actor: what one process holds of the domain. run_pair(): two processes, each an Actor,
//            that hand the turn to each other: the order of events is part of the test, never a
//            matter of luck.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <tmh/tmh.hpp>

#include "tests/support/access.h"
#include "tests/support/children.h"
#include "tests/support/modes.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

inline constexpr std::uint64_t kStagePages = 64;

struct Actor {
  Domain domain;
  Segment first, second;

  Actor(const std::string &folder, const DomainOptions &options);

  // The first word of a page.
  [[nodiscard]] std::uint64_t &word(std::uint64_t page = 0) const;
  [[nodiscard]] std::uint64_t &second_word(std::uint64_t page = 0) const;
  [[nodiscard]] std::uint64_t get(std::uint64_t page = 0) const { return load(word(page)); }
  void set(std::uint64_t page, std::uint64_t value) const { store(word(page), value); }
  // In an instance of its own.
  void commit(std::uint64_t page, std::uint64_t value) const;
  [[nodiscard]] std::uint64_t committed(std::uint64_t page = 0) const;
};

// A raw segment of kStagePages pages.
[[nodiscard]] SegmentOptions raw_segment(std::uint64_t size_bytes = kStagePages * kPageBytes);

// Fixture: skips what this machine cannot run, and says why.
class ModeTest : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  [[nodiscard]] DomainOptions options(const std::string &policy = "") const {
    return options_for(GetParam(), policy);
  }
  [[nodiscard]] bool eager() const { return GetParam().detection == Detection::kEager; }
  [[nodiscard]] Actor actor(const std::string &policy = "") const {
    return {folder_.path(), options(policy)};
  }

  using Role = std::function<void(Actor &, Turn &)>;
  void run_pair(const std::string &policy, const Role &one, const Role &two) const;

  TempFolder folder_{place_for(GetParam())};
};

// Expects `call` to throw Error(code) whose text contains `part`.
void expect_error(Errc code, const std::function<void()> &call, const std::string &part = "");

}  // namespace tmh::test
