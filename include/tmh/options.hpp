// include/tmh/options.hpp -- how a domain is opened: detection, tracking, conflict policy, backoff.
// Every value has one spelling that options, environment (TMH_DETECTION, TMH_TRACKING, TMH_POLICY)
// and tools share.
// Source: thesis, section 3.3 (abort policies); docs/design.md 4.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <tmh/error.hpp>

namespace tmh {

inline constexpr std::size_t kPageBytes = 4096;
// Ours: the standard's interference size varies with compiler flags.
inline constexpr std::size_t kLineBytes = 64;

// When conflicts are found. One choice per domain; the first participant decides.
enum class Detection : std::uint8_t {
  kLazy = 1,  // "lazy": validated at end (optimistic). Default.
  // "eager": incremental validation at the first access of each page (thesis, Invariant 3)
  kEager = 2,
};

// How this process learns which pages an instance touches.
enum class Tracking : std::uint8_t {
  // "auto": kernel-hot if permitted and detection is lazy, else signal-hot (lazy) or signal (eager)
  kAuto = 0,
  // "signal": SIGSEGV and mprotect at each first touch; exact sets; works everywhere
  kSignal = 1,
  // "signal-hot": the same, pages stay mapped between instances (superset read sets; lazy only)
  kSignalHot = 2,
  kKernel = 3,  // "kernel": silent first touches listed by the kernel; exact sets; lazy only
  // "kernel-hot": the same, pages stay mapped between instances (superset read sets; lazy only)
  kKernelHot = 4,
};

// Who fails when two PENDING instances conflict (thesis, section 3.3): at level 1, and in eager
// domains. A lazy domain of pages finds a conflict when the other instance has committed: the first
// committer wins, and every choice but the default is refused (kBadPolicy). TMH_POLICY, which
// speaks to all domains of the process, is no error there.
enum class ConflictPolicy : std::uint8_t {
  kSelfAbort = 1,     // "self-abort": the instance that discovers the conflict fails
  kOldestWins = 2,    // "oldest-wins": the instance with the smallest age wins. Default.
  kSelfishAbort = 3,  // "selfish-abort": the instance that discovers the conflict wins
  kYoungestWins = 4,  // "youngest-wins": the instance with the largest age wins
};

enum class Backoff : std::uint8_t {
  kNone = 1,         // "backoff=none"
  kExponential = 2,  // "backoff=exponential": random in [0, 2^attempt) us, at most backoff_us_max
  // "backoff=adaptive": none while the other core makes progress, then exponential. Default.
  kAdaptive = 3,
};

// Which levels work on the domain's memory. One choice per domain; the first participant decides.
enum class Levels : std::uint8_t {
  kPage = 1,  // "page": level 2 alone. Default.
  // "hybrid": level 1 for instrumented bodies (tmh::Site), level 2 for everything else. Lazy
  // detection
  kHybrid = 2,
};

// What the levels do about a page that both want (docs/design.md 4, cross-level conflict). All but
// the last say what an instance of level 1 does about a page that a running instance of level 2
// uses; level 2 then takes a page from level 1 at its first touch.
enum class CrossPolicy : std::uint8_t {
  // "abort-lower": it aborts at once; its site decides whether it goes on at level 2
  kAbortLower = 1,
  kAbortUpper = 2,  // "abort-upper": the other instance is FAILED; wait until it has ended
  // "recall-and-wait": look again and again until it has ended, within the budget. Default.
  kRecallAndWait = 3,
  // "wait-for-upper": sleep with growing pauses until it has ended, within the budget
  kWaitForUpper = 4,
  // "upper-yields": an update of level 2 that touches a page which level 1's software lines have
  // used takes nothing, and aborts; after four aborts in a row it takes what it touches. Level 1
  // does as under recall-and-wait.
  kUpperYields = 5,
};

// When an instance of level 1 that keeps aborting goes on at level 2. Capacity never fits the next
// time: every kind but "never" escalates.
enum class EscalationKind : std::uint8_t {
  // "never": level 1 only: waits for instances of level 2, however long; what level 1 cannot do is
  // an error.
  kNever = 1,
  kAlways = 2,         // "always": level 2 only
  kOnCapacity = 3,     // "on-capacity": only when it does not fit
  kAfterAttempts = 4,  // "after-n=8": also after so many attempts
  kAfterWasted = 5,    // "after-wasted-time=200us": also when attempts have wasted so much time
  // "adaptive": either limit; and a site that escalates begins at level 2 for a while, longer each
  // time. An update of instrumented code that exceeds `capacity` runs at level 1 without it
  // instead, as an HTM's software fallback does, and goes to level 2 where that fails, too.
  // Default.
  kAdaptive = 6,
  kAdaptivePages = 7,  // "adaptive-pages": the same, but what exceeds `capacity` goes to level 2
};

// What runs the instances of level 1.
enum class LineChoice : std::uint8_t {
  kAuto = 0,      // "auto": software for instrumented bodies; rtm for plain ones where it works
  kSoftware = 1,  // "software": software lines, on every machine
  kRtm = 2,       // "rtm": Intel RTM; an error where it does not work
};

// Where instrumented instances of level 2 run, so that several threads of one process run them at
// once (tmh/site.hpp).
enum class ThreadViewUse : std::uint8_t {
  // "auto": with tracking that keeps pages mapped (-hot), in a view of the thread's own from the
  // first time on that another thread is running in the process's; else as never, which is faster
  // there. Default.
  kAuto = 1,
  kAlways = 2,  // "always": in a view of the thread's own
  kNever = 3,   // "never": in the process's view, one after the other
};

// How long instances take (Domain::latencies()): which attempts are timed.
enum class Latency : std::uint8_t {
  kOff = 1,  // "off": none
  // "sampled": each where they begin 13 us apart or more; of more frequent ones one of up to 256,
  // which counts for so many. Default.
  kSampled = 2,
  kFull = 3,  // "full": each; 25 ns per instance
};

// What an access to a segment does that no instance covers: outside any instance, by plain code in
// an attempt of level 1, a store in a query.
enum class Stray : std::uint8_t {
  // "fault": SIGSEGV at its instruction, with one sentence on standard error. By protection keys,
  // in every tracking mode. Default where the processor has them (tmh doctor); demanded elsewhere:
  // kTrackingUnavailable.
  kFault = 1,
  // "allow": its tracking decides. A load sees some committed state. A store is lost, or belongs to
  // this process's next instance; in a query it is discarded and reported by the query's end. With
  // tracking signal it faults all the same. Default without keys.
  kAllow = 2,
};

struct Escalation {
  EscalationKind kind = EscalationKind::kAdaptive;
  std::uint32_t attempts = 8;     // as hierarchy::kTurnAttempts: no accident any more
  std::uint32_t wasted_us = 200;  // what an instance of level 2 with a dozen first touches costs
  friend constexpr bool operator==(const Escalation &, const Escalation &) noexcept = default;
};

// When a commit survives a power cut (docs/design.md D1). A property of the domain, fixed by
// whoever creates it.
enum class Durability : std::uint8_t {
  // "none": data files are written at close; commits survive processes, not power cuts. Default.
  kNone = 1,
  // "buffered": acknowledged at once, durable within flush_interval_ms or after Domain::flush()
  kBuffered = 2,
  kStrict = 3,  // "strict": acknowledged when durable
};

// Durable domains: a checksum of each page of the data files, in tmh.checksums, as of the last
// clean close; `tmh check` compares. The setting stays with the domain until somebody opens it with
// another one.
enum class PageChecksums : std::uint8_t {
  kOff = 1,  // "off": none; a backup has them all the same. A new domain's.
  kOn = 2,   // "on": the last one to close the domain writes them
};

// Group commit (LIBTP, section 4.2): whoever writes the log waits for company, until one of its
// thresholds is reached. A participant is active when a commit of its became durable in one of the
// last four writes. Specification: e.g. "active=2,waiting=100,bytes=65536,wait=60us"; "none": write
// at once. Nobody waits when alone. Who takes the writing over from another
// (Counters::log_handovers) begins to wait then; for one that may take it over the writer waits 10
// us more, within wait_us.
struct GroupCommit {
  // Group threshold: with fewer active participants nobody waits.
  std::uint32_t active_min = 2;
  std::uint32_t waiting_percent = 100;  // wait threshold: of the active ones, so many wait already
  std::uint32_t bytes = 1u << 16;       // logdelay threshold: so much is to be written
  // Never longer; half of the cheapest durable write measured here (95 to 180 us).
  std::uint32_t wait_us = 60;
  friend constexpr bool operator==(const GroupCommit &, const GroupCommit &) noexcept = default;
};

// A small pure value. Specification: comma-separated, any order, e.g.
// "oldest-wins,keep-age,backoff=adaptive".
struct Policy {
  ConflictPolicy conflict = ConflictPolicy::kOldestWins;
  Backoff backoff = Backoff::kAdaptive;
  // "keep-age" / "fresh-age": a retry keeps its first attempt's age (no starvation)
  bool keep_age = true;
  std::uint8_t reserved_zero = 0;
  // An instance here lasts 0.2 to 100 us; a longer sleep only idles a core.
  std::uint32_t backoff_us_max = 1000;

  friend constexpr bool operator==(const Policy &, const Policy &) noexcept = default;
};

// Parse one spelling. Errors: kBadPolicy, kBadTracking, kBadDetection, kBadDurability; *out is
// untouched then.
[[nodiscard]] Errc parse(std::string_view spec, Policy *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Tracking *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Detection *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Durability *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, GroupCommit *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Levels *out) noexcept;  // these five: kBadLevels
[[nodiscard]] Errc parse(std::string_view spec, LineChoice *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, CrossPolicy *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Escalation *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, ThreadViewUse *out) noexcept;
// These three: kBadArgument.
[[nodiscard]] Errc parse(std::string_view spec, Latency *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Stray *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, PageChecksums *out) noexcept;
[[nodiscard]] std::string to_string(const Policy &policy);
[[nodiscard]] const char *to_string(Tracking tracking) noexcept;
[[nodiscard]] const char *to_string(Detection detection) noexcept;
[[nodiscard]] const char *to_string(Durability durability) noexcept;
[[nodiscard]] std::string to_string(const GroupCommit &group);
[[nodiscard]] const char *to_string(Levels levels) noexcept;
[[nodiscard]] const char *to_string(LineChoice line) noexcept;
[[nodiscard]] const char *to_string(CrossPolicy policy) noexcept;
[[nodiscard]] std::string to_string(const Escalation &escalation);
[[nodiscard]] const char *to_string(ThreadViewUse use) noexcept;
[[nodiscard]] const char *to_string(Latency latency) noexcept;
[[nodiscard]] const char *to_string(Stray stray) noexcept;
[[nodiscard]] const char *to_string(PageChecksums use) noexcept;
// The right values, for a message that refuses a wrong one.
[[nodiscard]] const char *policy_values() noexcept;
[[nodiscard]] const char *tracking_values() noexcept;
[[nodiscard]] const char *detection_values() noexcept;
[[nodiscard]] const char *durability_values() noexcept;
[[nodiscard]] const char *group_commit_values() noexcept;
[[nodiscard]] const char *levels_values() noexcept;
[[nodiscard]] const char *line_values() noexcept;
[[nodiscard]] const char *cross_policy_values() noexcept;
[[nodiscard]] const char *escalation_values() noexcept;
[[nodiscard]] const char *thread_view_values() noexcept;
[[nodiscard]] const char *latency_values() noexcept;
[[nodiscard]] const char *stray_values() noexcept;
[[nodiscard]] const char *page_checksums_values() noexcept;

// An unset field (kAuto, 0, empty) takes the environment's value, then the default.
struct DomainOptions {
  Detection detection = Detection{};    // unset: TMH_DETECTION, else the domain's, else lazy
  Tracking tracking = Tracking::kAuto;  // kAuto: TMH_TRACKING, else automatic
  std::string policy;                   // empty: TMH_POLICY, else the defaults of Policy
  std::string name;                     // shown for this participant; empty: the program's name

  Levels levels = Levels{};             // unset: TMH_LEVELS, else the domain's, else page
  LineChoice line = LineChoice::kAuto;  // kAuto: TMH_LINE, else automatic; this process's own
  // Unset: TMH_CROSS, else recall-and-wait; this process's own.
  CrossPolicy cross = CrossPolicy{};
  // Empty: TMH_ESCALATION, else adaptive; this process's sites that name none themselves.
  std::string escalation;
  // What fits into an instance of level 1, as into a best-effort HTM: "unlimited", "l1d" (this
  // machine's), or bytes/ways/line bytes as "32KiB/8/64"; see levels/line/capacity.h for what may
  // follow. Empty: TMH_CAPACITY, else unlimited; this process's own
  std::string capacity;
  // Unset: TMH_THREAD_VIEWS, else auto; this process's own.
  ThreadViewUse thread_views = ThreadViewUse{};
  // Unset: TMH_LATENCY, else sampled; this process's own.
  Latency latency = Latency{};
  // Unset: TMH_STRAY, else fault where there are protection keys; this process's own.
  Stray stray = Stray{};

  Durability durability = Durability{};  // unset: TMH_DURABILITY, else the domain's, else none
  // Empty: TMH_GROUP_COMMIT, else the defaults of GroupCommit; this process's own.
  std::string group_commit;
  // Early release: may instances read what is committed and not yet durable? They are acknowledged
  // after it either way (strict). false: a begin waits until everything committed is durable, and
  // an instance whose snapshot would have to move on to what is not waits, too, or begins again.
  // But an irrevocable one reads what level 1 commits after its call.
  bool early_release = true;
  // Unset: TMH_PAGE_CHECKSUMS, else as the domain has it. Of a volatile domain kNotDurable; the
  // variable is without effect there.
  PageChecksums page_checksums = PageChecksums{};
  // Buffered: a commit is durable within twice this time.
  std::uint32_t flush_interval_ms = 50;
  // At creation only; multiple of 4096, 1 MiB to 4 GiB; 0: 16 MiB.
  std::uint64_t log_file_bytes = 0;
  std::uint64_t checkpoint_bytes = 64u << 20;     // automatic checkpoint after so much log
  std::uint32_t checkpoint_interval_ms = 60'000;  // and after so long, when there was any
  // Never recycle log files: Domain::archive() takes them.
  bool keep_log = false;
  // After 2 s; bytes of log.
  std::function<void(std::uint64_t done, std::uint64_t total)> recovery_progress;
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
