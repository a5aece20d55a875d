// bench/support/cross_level.h -- what it costs when a page changes its level: one page recalled
// from a holder, one page released.
// Shape:     a process of its own uses pages at level 1 and is then running (on other pages),
//            asleep, stopped or dead; the measuring process touches these pages in instances of
//            level 2: the first load's time is the recall's. Then it stores to them at level 1: the
//            instance's time is the release's. The pages are spread evenly over the segment, all of
//            whose pages are in L. The page behind each of them is touched first, and its time
//            taken apart: the first touch of a process in 2 MiB opens the view there, once.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace tmh::bench {

enum class HolderState : std::uint8_t { kRunning, kSleeping, kStopped, kDead };
inline constexpr HolderState kHolderStates[] = {HolderState::kRunning, HolderState::kSleeping,
                                                HolderState::kStopped, HolderState::kDead};
static_assert(std::size(kHolderStates) == static_cast<std::size_t>(HolderState::kDead) + 1);
[[nodiscard]] const char *to_string(HolderState state) noexcept;

// Of each state: 4 x 100 pairs fit into the smallest segment, 1 Ki pages.
inline constexpr std::uint64_t kRecallsMax = 100;

struct CrossLevelCosts {          // microseconds of single pages
  std::vector<double> recall[4];  // by HolderState
  // First touch of pages that level 1 has not used; the first ones of their 2 MiB too.
  std::vector<double> neighbours;
  std::vector<double> release;
};

// Where a running holder goes on, at the segment's end.
inline constexpr std::uint64_t kHolderPages = 16;
static_assert(2 * std::size(kHolderStates) * kRecallsMax + kHolderPages <= 1024);
// REQUIRES: recalls <= kRecallsMax, 8 * recalls + kHolderPages <= pages. `folder`: new and empty.
// is_hardware: holders run in RTM (REQUIRES that it works); then nothing is released.
[[nodiscard]] CrossLevelCosts measure_cross_level(std::uint64_t pages, std::uint64_t recalls,
                                                  const std::string &folder, bool is_hardware);

// Empty: RTM works here; else the library's sentence.
[[nodiscard]] std::string why_no_rtm();

struct ModeSwitchCosts {         // microseconds
  std::vector<double> to_lines;  // an instance in RTM of a process in page mode
  std::vector<double> to_pages;  // a begin at level 2 of a process in line mode
};
// REQUIRES: RTM works. `folder`: new and empty.
[[nodiscard]] ModeSwitchCosts measure_mode_switch(std::uint64_t pages, std::uint64_t switches,
                                                  const std::string &folder);

}  // namespace tmh::bench
