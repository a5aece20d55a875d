// include/tmh/options.hpp -- how a domain is opened: what an application chooses. What a researcher
// compares stands in policies.hpp.
// Shape:     each value has one row, as in policies.hpp.
// Source:    docs/design.md 4.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <tmh/error.hpp>
#include <tmh/past.hpp>
#include <tmh/policies.hpp>

namespace tmh {

inline constexpr std::size_t kPageBytes = 4096;
// Ours: the standard's interference size varies with compiler flags.
inline constexpr std::size_t kLineBytes = 64;

// How this process learns which pages an instance touches. Kernel tracking and pages that stay
// mapped are of lazy detection.
enum class Tracking : std::uint8_t {
  kAuto = 0,
  kSignal = 1,
  kSignalHot = 2,
  kKernel = 3,
  kKernelHot = 4,
};
inline constexpr Spelling<Tracking> kTrackings[] = {
    {"auto", Tracking::kAuto,
     "the best that this machine permits: kernel-hot, else signal-hot; signal with eager detection",
     true},
    {"signal", Tracking::kSignal, "a first touch raises SIGSEGV; exact sets; works everywhere"},
    {"signal-hot", Tracking::kSignalHot,
     "the same, but pages stay mapped between instances: cheaper, read sets are supersets"},
    {"kernel", Tracking::kKernel,
     "the kernel lists first touches, nothing runs at them; exact sets"},
    {"kernel-hot", Tracking::kKernelHot,
     "the same, but pages stay mapped between instances: cheapest, read sets are supersets"},
};

// Which levels work on the domain's memory. One choice per domain; the first participant decides.
// Hybrid levels want lazy detection.
enum class Levels : std::uint8_t { kPage = 1, kHybrid = 2 };
inline constexpr Spelling<Levels> kLevels[] = {
    {"page", Levels::kPage, "level 2 alone: instances track pages", true},
    {"hybrid", Levels::kHybrid,
     "sites run at cache lines while they are small, at pages when they are not"},
};

// What runs the instances of level 1.
enum class LineChoice : std::uint8_t { kAuto = 0, kSoftware = 1, kRtm = 2 };
inline constexpr Spelling<LineChoice> kLineChoices[] = {
    {"auto", LineChoice::kAuto,
     "software lines for instrumented bodies, RTM for plain ones where it works", true},
    {"software", LineChoice::kSoftware, "software lines, on every machine"},
    {"rtm", LineChoice::kRtm,
     "RTM for both, beside software lines: an error where it does not work (see tmh doctor)"},
};

// What an access to a segment does that no instance covers: outside any instance, by plain code in
// an attempt of level 1, a store in a query. The default is fault where the processor has
// protection keys (tmh doctor), allow elsewhere; fault demanded elsewhere: kTrackingUnavailable.
// With allow a load sees some committed state, and a query's end reports a store that it made; with
// tracking signal the access faults all the same.
enum class Stray : std::uint8_t { kFault = 1, kAllow = 2 };
inline constexpr Spelling<Stray> kStrays[] = {
    {"fault", Stray::kFault,
     "the access raises SIGSEGV, and one sentence names it; needs protection keys (tmh doctor)"},
    {"allow", Stray::kAllow,
     "the tracking decides: a store may be lost, or be committed by the process's next instance"},
};

// When a commit survives a power cut (docs/design.md D1). A property of the domain, fixed by the
// participant that creates it.
enum class Durability : std::uint8_t { kNone = 1, kBuffered = 2, kStrict = 3 };
inline constexpr Spelling<Durability> kDurabilities[] = {
    {"none", Durability::kNone, "a commit survives the death of processes, not a power cut", true},
    {"buffered", Durability::kBuffered,
     "a commit returns at once and is durable within 100 ms, or after flush()"},
    {"strict", Durability::kStrict, "a commit returns when it is durable"},
};

// Durable domains: a checksum of each page of the data files, in tmh.checksums, as of the last
// clean close. The setting stays with the domain until an open chooses another one.
enum class PageChecksums : std::uint8_t { kOff = 1, kOn = 2 };
inline constexpr Spelling<PageChecksums> kPageChecksums[] = {
    {"off", PageChecksums::kOff, "only backups have checksums", true},
    {"on", PageChecksums::kOn,
     "a clean close writes tmh.checksums; tmh check compares every page with it"},
};

// What a process wants done about a slow reader: a participant whose running instance, an update or
// a query, keeps versions from going home, because its snapshot may read what they replace.
enum class SlowReader : std::uint8_t {
  // Nothing more.
  kReport = 1,
  // An update can only abort from now on, and its body runs again; a query goes on, and its body
  // learns by tmh::should_end() that it should end. The versions stay until either has ended. An
  // irrevocable instance is left alone.
  kAskToEnd = 2,
  // SIGKILL, as from a kill that others survive anyway: its snapshot goes with it, within a second
  // of further commits. Only that process, while that instance runs; where it is this process, or
  // may not be killed, it is asked to end.
  kEndProcess = 3,
};

struct ParticipantInfo;  // tmh/domain.hpp

// Parse one spelling; *out is untouched after an error. Errors: kBadTracking, kBadDurability,
// kBadLevels, kBadArgument (stray, page checksums).
[[nodiscard]] Errc parse(std::string_view spec, Tracking *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Durability *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Levels *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, LineChoice *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Stray *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, PageChecksums *out) noexcept;
[[nodiscard]] const char *to_string(Tracking tracking) noexcept;
[[nodiscard]] const char *to_string(Durability durability) noexcept;
[[nodiscard]] const char *to_string(Levels levels) noexcept;
[[nodiscard]] const char *to_string(LineChoice line) noexcept;
[[nodiscard]] const char *to_string(Stray stray) noexcept;
[[nodiscard]] const char *to_string(PageChecksums use) noexcept;
// The right values, for a message that refuses a wrong one.
[[nodiscard]] const char *tracking_values() noexcept;
[[nodiscard]] const char *durability_values() noexcept;
[[nodiscard]] const char *levels_values() noexcept;
[[nodiscard]] const char *line_values() noexcept;
[[nodiscard]] const char *stray_values() noexcept;
[[nodiscard]] const char *page_checksums_values() noexcept;

// An unset field (kAuto, {}, 0, empty) takes the environment's value, then the default.
struct DomainOptions {
  // Shown for this participant; empty: the program's name.
  std::string name;

  // Unset: TMH_LEVELS, else the domain's, else page.
  Levels levels{};
  // TMH_LINE; this process's own.
  LineChoice line = LineChoice::kAuto;
  // TMH_TRACKING; this process's own.
  Tracking tracking = Tracking::kAuto;
  // TMH_STRAY; this process's own.
  Stray stray{};

  // Unset: TMH_DURABILITY, else the domain's, else none.
  Durability durability{};
  // Unset: TMH_PAGE_CHECKSUMS, else as the domain has it. Of a volatile domain kNotDurable; the
  // variable is without effect there.
  PageChecksums page_checksums{};
  // Buffered: a commit is durable within twice this time.
  std::uint32_t flush_interval_ms = 50;
  // At creation only; multiple of 4096, 1 MiB to 4 GiB; 0: 16 MiB.
  std::uint64_t log_file_bytes = 0;
  // Automatic checkpoint after so much log,
  std::uint64_t checkpoint_bytes = 64u << 20;
  // and after so long, when there was any.
  std::uint32_t checkpoint_interval_ms = 60'000;
  // Never recycle log files: Domain::archive() takes them.
  bool keep_log = false;
  // After 2 s; bytes of log.
  std::function<void(std::uint64_t done, std::uint64_t total)> recovery_progress;

  // Is called about a slow reader: one whose instance has run for slow_reader_ms or holds
  // slow_reader_bytes, and holds anything at all; again each slow_reader_ms while it runs. What it
  // returns is done. held_bytes: versions in the whole domain, younger than the reader's snapshot;
  // others may hold them as well. seconds: since its instance began. reader: as it was then; of its
  // counters none.
  //   Runs in a thread of this process that has committed an update at level 2, behind the
  //   instance's end and its actions, or has called Domain::collect(); outside every instance and
  //   without a lock of the library's, so it may begin instances, and close the domain. One at a
  //   time: what another thread finds meanwhile, it leaves to its next commit. It is not called in
  //   a handler. What it throws is dropped, and counts as kReport, as does what is no SlowReader.
  //   It must not end its thread (pthread_exit(), pthread_cancel()): that ends the program.
  //   Of a second open() in the process the first one's stays. Unset: TMH_SLOW_READER, else
  //   no process of the domain is watched.
  std::function<SlowReader(std::uint64_t held_bytes, double seconds, const ParticipantInfo &reader)>
      on_slow_reader;
  // 0: at once, and after each commit.
  std::uint32_t slow_reader_ms = 10'000;
  // Of readers that have run for 100 ms, or slow_reader_ms where that is less.
  std::uint64_t slow_reader_bytes = 1u << 30;
  // What of its past the domain holds, for query_at(): the most that any participant has asked for,
  // until the last one leaves. Unset: as the domain has it. Level 2 alone (kLevelsMismatch).
  // kBadArgument: a negative time, or less than kHistoryBytesMin.
  History history;

  Policies policies;
};

// What recovery at open found and did.
struct RecoveryInfo {
  bool ran = false;  // this open recovered the domain
  // The last participant had closed it; false where recover() or backup() came after that.
  bool was_clean = false;
  std::uint64_t transactions = 0;  // replayed
  // Committed, not yet in the log when the last process died; written to it first.
  std::uint64_t salvaged = 0;
  std::uint64_t log_bytes = 0;
  std::uint64_t pages = 0;     // page differences applied
  bool tail_was_torn = false;  // what followed the last valid record was none
  std::uint64_t torn_at = 0;   // its LSN
  std::uint64_t end_lsn = 0;
  std::uint64_t last_stamp = 0;
  std::uint64_t total_us = 0;
};

enum class Layout : std::uint8_t {
  // Allocator, roots; a new or empty file is formatted, anything else must carry our header.
  kHeap = 1,
  kRaw = 2,  // the file's own bytes, nothing of ours in them
};

struct SegmentOptions {
  // Initial size, multiple of 4096; 0: the file's size (at least 1 MiB for a heap).
  std::uint64_t size_bytes = 0;
  // Address space reserved for growth, up to 1 TiB, not below the size; 0: max(64 GiB, size).
  std::uint64_t max_bytes = 0;
  std::uint64_t offset_bytes = 0;  // where in the file the segment begins, multiple of 4096
  Layout layout = Layout::kHeap;
  // True: any address will do in this process (use tmh::offset_ptr inside).
  bool relocatable = false;
};

// Which tracking is in use, and why not a better one.
struct TrackingReport {
  Tracking tracking = Tracking::kSignal;
  std::string reason;  // one sentence
};

}  // namespace tmh
