// tools/shared_counters.h -- a domain's counters, read from its shared memory by somebody who does
// not join it.
// Invariant: as domain_files.h: nothing is written or waited for, no byte is believed unchecked.
// Sharing:   participants count on meanwhile: each number is right for some moment of the read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tmh/instance.hpp>
#include <tmh/latency.hpp>

namespace tmh::tools {

struct ParticipantCounters {
  std::uint32_t slot = 0;
  std::int32_t pid = 0;
  std::uint64_t start_time = 0, stack_start = 0;  // platform::ProcessId
  std::uint64_t incarnation = 0;
  std::string name;
  bool is_alive = false;          // false: it died without leaving; nobody has cleaned up yet
  bool is_stopped = false;        // alive, and stopped by a signal or a debugger
  std::uint64_t instance_us = 0;  // since its running instance began; 0: none runs
  bool is_query = false;
  std::uint64_t snapshot = 0;  // of that instance: what the domain's clock showed
  bool in_line_mode = false;   // its views are those of RTM
  Counters counters;
};

struct SharedCounters {
  // false: closed, or not opened since the machine started; then everything else is empty
  bool has_state = false;
  bool is_hybrid = false;
  bool is_elsewhere = false;  // see domain_files.h: pids are not those of this pid namespace
  std::uint64_t clock = 0;    // commits, as timestamps
  // Participants that there have ever been; with the clock it tells of a domain that was opened
  // anew.
  std::uint64_t attaches = 0;
  Counters total;
  // When the oldest moment was that the history holds, CLOCK_REALTIME; 0: there is no history, or
  // no time of it is noted.
  std::uint64_t past_since_ns = 0;
  std::vector<ParticipantCounters> participants;
  std::vector<LatencySeries> latencies;         // as Domain::latencies()
  std::uint64_t latency_refused = 0;            // kinds of times for which there was no page
  [[nodiscard]] bool is_open() const noexcept;  // does anybody alive have it open?
};
// Errors: as read_control(); kForeignVersion (shared memory of another version), kCorrupt,
//         kPermission, kIo.
[[nodiscard]] SharedCounters read_counters(const std::string &folder);

// "user", "conflict_other", ...
[[nodiscard]] const char *cause_name(AbortCause cause) noexcept;
// "segment_allocate": of to_string(), what a key of JSON and a column of CSV may have.
[[nodiscard]] std::string need_key(Need need);

}  // namespace tmh::tools
