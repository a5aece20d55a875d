// tests/power/faults.h -- disk operations that fail when a test says so.
// Shape:     one plan in shared memory, for all processes: which operation, on which file, with
//            which errno, how often.
#pragma once

#include <atomic>
#include <cstdint>

#include "platform/disk.h"

namespace tmh::test::power {

struct FaultPlan {
  std::atomic<std::uint32_t> op;        // platform::DiskOp; 0: nothing fails
  std::atomic<int> error;               // errno
  std::atomic<std::uint32_t> skip;      // so many pass before
  std::atomic<std::uint32_t> failed;    // operations that failed
  std::atomic<std::uint32_t> passed;    // operations of that kind that did not
  std::atomic<char> file_contains[32];  // part of the path; empty: any

  void arm(platform::DiskOp which, int with, const char *file = "",
           std::uint32_t after = 0) noexcept;
  void lift() noexcept { op = 0; }
};

// Installs the hook for this process and children forked later; nullptr: none.
void fail_as_planned(FaultPlan *plan) noexcept;

}  // namespace tmh::test::power
