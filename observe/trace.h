// observe/trace.h -- the last events of this process, in a file that others read while it runs,
// and after its death.
// Shape:     one ring per participant, <domain>/tmh.trace.<slot>: TraceHeaderV1, then kTraceEvents
//            of 64 bytes. Rebuildable, of no other use.
// Invariant: an event whose `number` is its position + 1, before and after it was read, is whole.
// Ordering:  number 0, fence, fields, number (release); a reader: number (acquire), fields, fence,
//            number.
// Sharing:   a process records into one ring: the one opened last. All of its threads do, signal
//            handlers too.
// Contexts:  record(): async-signal-safe. Between XBEGIN and XEND it is undone with everything else
//            when the transaction aborts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tmh/error.hpp>

namespace tmh::observe {

enum class TraceKind : std::uint32_t {  // DO NOT CHANGE THESE VALUES: they are in files
  kBegin = 1,
  kFirstTouch = 2,
  kConflict = 3,
  kCommit = 4,
  kAbort = 5,
  kEscalate = 6,
  kRecall = 7,
  kModeSwitch = 8,
  kFsync = 9,
  kFsyncDone = 10,
  kHardwareAbort = 11,
  kLockWait = 12,
  kLockWaitDone = 13,
  kDeadlock = 14,
  kRollback = 15
};

inline constexpr std::uint64_t kTraceMagic = 0x3130'4352'5448'4d54ull;  // "TMHTRC01"
inline constexpr std::uint32_t kTraceVersion = 1;
// 1 MiB: 10 ms of the smallest instances, seconds of larger ones.
inline constexpr std::uint32_t kTraceEvents = 1u << 14;

struct alignas(64) TraceEventV1 {     // a line each: threads do not share them
  std::atomic<std::uint64_t> number;  //  0  position + 1; 0: being written
  std::atomic<std::uint64_t> ns;      //  8  CLOCK_MONOTONIC
  std::atomic<std::uint64_t> who;     // 16  thread id << 32 | level << 16 | TraceKind
  std::atomic<std::uint64_t> first;   // 24  arguments of the probe, as tmh-probes(7) has them
  std::atomic<std::uint64_t> second;  // 32
  std::atomic<std::uint64_t> third;   // 40  0 where the probe has no more
  std::uint64_t reserved_zero[2];     // 48
};
static_assert(sizeof(TraceEventV1) == 64 && offsetof(TraceEventV1, second) == 32 &&
              offsetof(TraceEventV1, third) == 40);

struct alignas(4096) TraceHeaderV1 {
  std::uint64_t magic;                          //   0
  std::uint32_t version;                        //   8
  std::uint32_t event_count;                    //  12  kTraceEvents
  std::int32_t pid;                             //  16
  std::uint32_t slot;                           //  20
  char name[40];                                //  24
  alignas(64) std::atomic<std::uint64_t> head;  //  64  events ever recorded
};
static_assert(sizeof(TraceHeaderV1) == 4096 && offsetof(TraceHeaderV1, head) == 64);
static_assert(std::is_standard_layout_v<TraceHeaderV1> && std::is_standard_layout_v<TraceEventV1>);

inline constexpr std::size_t kTraceBytes =
    sizeof(TraceHeaderV1) + sizeof(TraceEventV1) * kTraceEvents;

[[nodiscard]] inline std::string trace_path(const std::string &folder, std::uint32_t slot) {
  return folder + "/tmh.trace." + std::to_string(slot);
}

// When TMH_TRACE is `on`: makes this participant's ring, and records from here on. kBadArgument:
// another value; kDiskFull, kIo.
[[nodiscard]] Errc open_trace(const std::string &folder, std::uint32_t slot,
                              const std::string &name) noexcept;

namespace detail {
// Null: off. relaxed is enough: set before the first instance of the domain; the mapping stays
//       until the process ends.
extern constinit std::atomic<TraceHeaderV1 *> trace;
void record(TraceHeaderV1 &header, TraceKind kind, std::uint32_t level, std::uint64_t first,
            std::uint64_t second, std::uint64_t third) noexcept;
}  // namespace detail

inline void record(TraceKind kind, std::uint32_t level, std::uint64_t first, std::uint64_t second,
                   std::uint64_t third = 0) noexcept {
  if (TraceHeaderV1 *const header = detail::trace.load(std::memory_order_relaxed);
      header != nullptr) [[unlikely]]
    detail::record(*header, kind, level, first, second, third);
}

}  // namespace tmh::observe
