// bench/support/primitives.h -- what the operations below a page mechanism cost on this machine
// (thesis, section 4.2.3).
#pragma once

#include <string>
#include <vector>

#include "bench/support/stats.h"

namespace tmh::bench {

struct Primitive {
  std::string name;
  std::string thesis;       // table of the thesis that measures the same; empty: none
  Summary us;               // microseconds per operation
  std::string unavailable;  // reason; empty when measured
};

// Names that predictions look up (equations 4.1 and 4.2).
inline constexpr const char *kHandlerEnter = "SIGSEGV handler: enter";
inline constexpr const char *kMmapInHandler = "SIGSEGV handler: mmap of the page";
inline constexpr const char *kHandlerExit = "SIGSEGV handler: exit, with the fault";
inline constexpr const char *kMinorFault = "minor fault, load";
inline constexpr const char *kFirstStore = "first store, shared file mapping";
inline constexpr const char *kCopyCached = "memcpy 4 KiB, cached";

// Each is measured `run_count` times, a run being the mean of `repeat_count` operations. Files are
// made in `folder`.
[[nodiscard]] std::vector<Primitive> measure_primitives(const std::string &folder,
                                                        std::size_t run_count,
                                                        std::size_t repeat_count);

}  // namespace tmh::bench
