// include/tmh/policies.hpp -- what a researcher compares: who wins a conflict, when an instance
// changes its level, what a commit waits for. What an application chooses stands in options.hpp.
// Shape:     each value has one row: its spelling, the value, what it means. Options, environment,
//            error texts, `tmh policies` and docs/options.md all come from these rows, so a new
//            value is its enumerator and its row here, and the decision where it is taken.
// Source:    thesis, sections 3.3 (abort policies) and 6.2 (moving between levels);
//            docs/design.md 4.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include <tmh/error.hpp>

namespace tmh {

// One row of a choice.
template <class Value>
struct Spelling {
  const char *text;
  Value value;
  const char *meaning;
  bool is_default = false;
};

// When conflicts are found. One choice per domain; the first participant decides.
enum class Detection : std::uint8_t { kLazy = 1, kEager = 2, kLocking = 3 };
inline constexpr Spelling<Detection> kDetections[] = {
    {"lazy", Detection::kLazy, "conflicts are found at the end: the first committer wins", true},
    {"eager", Detection::kEager,
     "conflicts are found at the first access of each page, and resolved by the conflict policy"},
    {"locking", Detection::kLocking,
     "the first access of each page locks it, to the end; who must wait waits, and of a deadlock "
     "one fails"},
};

// Which of two PENDING instances fails when they conflict (thesis, section 3.3): at level 1, and in
// eager domains. A lazy domain of pages finds a conflict when the other instance has committed: the
// first committer wins, and every choice but the default is refused (kBadPolicy). TMH_POLICY and
// TMH_POLICIES, which speak to all domains of the process, are no error there.
enum class ConflictPolicy : std::uint8_t {
  kSelfAbort = 1,
  kOldestWins = 2,
  kSelfishAbort = 3,
  kYoungestWins = 4,
};
inline constexpr Spelling<ConflictPolicy> kConflictPolicies[] = {
    {"self-abort", ConflictPolicy::kSelfAbort, "the instance that discovers a conflict fails"},
    {"oldest-wins", ConflictPolicy::kOldestWins, "the instance with the smallest age wins", true},
    {"selfish-abort", ConflictPolicy::kSelfishAbort, "the instance that discovers a conflict wins"},
    {"youngest-wins", ConflictPolicy::kYoungestWins, "the instance with the largest age wins"},
};

// What an update promises about what it has read. A query reads one snapshot either way.
// Snapshot isolation (EXCITE-VM, sections 3.3 and 5.3): the update reads one snapshot, too, and the
// first committer wins by lines of 64 bytes: it commits unless another instance has committed a
// line that it has written since its snapshot. No update is lost, but two instances that read what
// the other one writes may both commit (write skew). Serializable instances of the same domain keep
// their promise: what they have read has not changed when they commit. Level 1, eager detection and
// irrevocable instances are serializable whatever is asked for.
enum class Isolation : std::uint8_t { kSerializable = 1, kSnapshot = 2 };
inline constexpr Spelling<Isolation> kIsolations[] = {
    {"serializable", Isolation::kSerializable,
     "an update commits when nothing that it has read was changed since its snapshot", true},
    {"snapshot", Isolation::kSnapshot,
     "an update commits when no line that it has written was changed since its snapshot; write "
     "skew is possible; at level 1 and with eager detection it is serializable"},
};

// Level 2, under snapshot isolation (EXCITE-VM, sections 3.2 and 4.2): which of its own copies of
// pages a participant keeps between instances. A copy costs a page of memory, and so does the clean
// twin of one that is written often; a page that was only read is mapped from the domain's files
// and costs none. A copy that goes comes back with its next store.
enum class PageCacheKind : std::uint8_t { kAdaptive = 1, kScan = 2, kAll = 3, kBytes = 4 };
inline constexpr Spelling<PageCacheKind> kPageCaches[] = {
    {"adaptive", PageCacheKind::kAdaptive,
     "a copy goes when what others have committed was copied into it 8 times since its last own "
     "store; beyond 256 MiB as 256MiB",
     true},
    {"scan", PageCacheKind::kScan,
     "each so many instances, copies go that were not stored to since the last scan"},
    {"all", PageCacheKind::kAll, "every copy stays"},
    {"64MiB", PageCacheKind::kBytes,
     "at most so much memory; beyond it copies go that were not stored to for longest"},
};

// Specification: "adaptive", "all", "scan=10000", "64MiB".
struct PageCache {
  PageCacheKind kind = PageCacheKind::kAdaptive;
  // Of kScan: instances from one scan to the next. Of kBytes: MiB. Else 0.
  std::uint32_t limit = 0;

  // As in EXCITE-VM, section 6.2.2.
  static constexpr std::uint32_t kScanInstances = 10'000;
  friend constexpr bool operator==(const PageCache &, const PageCache &) noexcept = default;
};

// Policy::keep_age.
inline constexpr Spelling<bool> kAges[] = {
    {"keep-age", true,
     "a retry keeps the age of its first attempt, and gets the domain's turn after 8 aborts: no "
     "instance starves",
     true},
    {"fresh-age", false, "the age of each attempt begins anew"},
};

// hierarchy/transaction/policies.h says when each helps.
enum class Backoff : std::uint8_t { kNone = 1, kExponential = 2, kAdaptive = 3 };
inline constexpr Spelling<Backoff> kBackoffs[] = {
    {"backoff=none", Backoff::kNone, "an aborted instance begins again at once"},
    {"backoff=exponential", Backoff::kExponential,
     "it waits a random time, whose bound doubles with each abort"},
    {"backoff=adaptive", Backoff::kAdaptive,
     "it waits as exponential, but only while others make no progress", true},
};

// A small pure value. Specification: comma-separated, any order, e.g.
// "oldest-wins,keep-age,backoff=adaptive"; also "backoff-us-max=1000", "isolation=snapshot",
// "page-cache=64MiB".
struct Policy {
  ConflictPolicy conflict = ConflictPolicy::kOldestWins;
  Backoff backoff = Backoff::kAdaptive;
  bool keep_age = true;
  // Of updates that ask for none themselves.
  Isolation isolation = Isolation::kSerializable;
  // An instance here lasts 0.2 to 100 us; a longer sleep only idles a core.
  std::uint32_t backoff_us_max = 1000;
  PageCache page_cache;

  friend constexpr bool operator==(const Policy &, const Policy &) noexcept = default;
};

// What the levels do about a page that both want (docs/design.md 4, cross-level conflict). All but
// the last say what an instance of level 1 does about a page that a running instance of level 2
// uses; level 2 then takes a page from level 1 at its first touch.
enum class CrossPolicy : std::uint8_t {
  kAbortLower = 1,
  kAbortUpper = 2,
  kRecallAndWait = 3,
  // 4, 5: tmh/lab.hpp
};
inline constexpr Spelling<CrossPolicy> kCrossPolicies[] = {
    {"abort-lower", CrossPolicy::kAbortLower,
     "the instance of level 1 aborts at once; the escalation policy decides what follows"},
    {"abort-upper", CrossPolicy::kAbortUpper,
     "the instance of level 2 fails; the instance of level 1 waits for its end"},
    {"recall-and-wait", CrossPolicy::kRecallAndWait,
     "the instance of level 1 looks again and again until level 2 has ended, within a time budget",
     true},
};

// When an instance of level 1 that keeps aborting goes on at level 2. Capacity never fits the next
// time: every kind but "never" escalates. With "never" it waits for instances of level 2, however
// long.
enum class EscalationKind : std::uint8_t {
  kNever = 1,
  kAlways = 2,
  kOnCapacity = 3,
  kAfterAttempts = 4,
  kAfterWasted = 5,
  kAdaptive = 6,
  // 7: tmh/lab.hpp
  // A function of the program decides (tmh/site.hpp, EscalationRule). Of a site alone: it has no
  // row.
  kOwn = 8,
};
inline constexpr Spelling<EscalationKind> kEscalations[] = {
    {"never", EscalationKind::kNever, "level 1 only; what level 1 cannot do is an error"},
    {"always", EscalationKind::kAlways, "level 2 only"},
    {"on-capacity", EscalationKind::kOnCapacity,
     "to level 2 when an instance does not fit level 1"},
    {"after-n", EscalationKind::kAfterAttempts, "as on-capacity, and after so many attempts"},
    {"after-wasted-time", EscalationKind::kAfterWasted,
     "as on-capacity, and when attempts have wasted so much time"},
    {"adaptive", EscalationKind::kAdaptive,
     "after so many attempts or so much wasted time, where the others cannot wait for it at level "
     "1, as they do for an instrumented update; a site that escalates begins at level 2 for a "
     "while, longer each time; an instrumented update that exceeds the capacity runs at level 1 "
     "without the limit, while that succeeds",
     true},
};

// Specification: a kind, and behind '=' its limit: "after-n=8", "after-wasted-time=200us".
struct Escalation {
  EscalationKind kind = EscalationKind::kAdaptive;
  // As hierarchy::kTurnAttempts: so many are no accident.
  std::uint32_t attempts = 8;
  // What an instance of level 2 with a dozen first touches costs.
  std::uint32_t wasted_us = 200;
  friend constexpr bool operator==(const Escalation &, const Escalation &) noexcept = default;
};

// Where instrumented instances of level 2 run, so that several threads of one process run them at
// once (tmh/site.hpp). With tracking that unmaps pages, never is faster.
enum class ThreadViewUse : std::uint8_t { kAuto = 1, kNever = 3 };  // 2: tmh/lab.hpp
inline constexpr Spelling<ThreadViewUse> kThreadViewUses[] = {
    {"auto", ThreadViewUse::kAuto,
     "each thread in a view of its own, all at once, from the first time that two threads meet, "
     "where tracking keeps pages mapped; else as never",
     true},
    {"never", ThreadViewUse::kNever, "all threads in the process's view, one after the other"},
};

// How long instances take (Domain::latencies()): which attempts are timed.
enum class Latency : std::uint8_t { kOff = 1, kSampled = 2 };  // 3: tmh/lab.hpp
inline constexpr Spelling<Latency> kLatencies[] = {
    {"off", Latency::kOff, "no attempt"},
    {"sampled", Latency::kSampled,
     "each attempt that begins at least 13 us after the one before; of denser ones one of up to "
     "256, which counts for as many",
     true},
};

// Durable domains: may instances read what is committed and not yet durable? They are acknowledged
// after it either way (strict). Off: a snapshot that would have to move on to what is not durable
// waits, too, or its instance begins again. But an irrevocable one reads what level 1 commits after
// its call.
enum class EarlyRelease : std::uint8_t { kOn = 1, kOff = 2 };
inline constexpr Spelling<EarlyRelease> kEarlyReleases[] = {
    {"on", EarlyRelease::kOn,
     "instances read commits that are not durable yet, and are acknowledged after them", true},
    {"off", EarlyRelease::kOff, "a begin waits until all commits are durable"},
};

// Group commit (LIBTP, section 4.2): the writer of the log waits for company, until one of its
// thresholds is reached. A participant is active when a commit of its became durable in one of the
// last four writes. Specification: e.g. "active=2,waiting=100,bytes=65536,wait=60us"; "none": write
// at once. A writer that is alone does not wait. One that takes the writing over from another
// (Counters::log_handovers) begins to wait then; for one that may take it over the writer waits 10
// us more, within wait_us.
struct GroupCommit {
  // Group threshold: with fewer active participants the writer does not wait.
  std::uint32_t active_min = 2;
  // Wait threshold: of the active ones, so many wait already.
  std::uint32_t waiting_percent = 100;
  // Logdelay threshold: so much is to be written.
  std::uint32_t bytes = 1u << 16;
  // Never longer; half of the cheapest durable write measured here (95 to 180 us).
  std::uint32_t wait_us = 60;
  friend constexpr bool operator==(const GroupCommit &, const GroupCommit &) noexcept = default;
};

// An unset field ({} or empty) takes the value of TMH_POLICIES, then of its own variable, then the
// default; docs/options.md has both. All but detection are this process's own.
struct Policies {
  // Else the domain's.
  Detection detection{};
  // Conflict, age and back-off: a specification of Policy.
  std::string conflict;
  // Of updates whose begin and site say nothing.
  Isolation isolation{};
  // A specification of PageCache.
  std::string page_cache;
  CrossPolicy cross{};
  // A specification of Escalation, for sites that name none themselves.
  std::string escalation;
  // What fits into an instance of level 1, as into a best-effort HTM: "unlimited", "l1d" (this
  // machine's), or bytes/ways/line bytes as "32KiB/8/64"; see levels/line/capacity.h for what may
  // follow.
  std::string capacity;
  ThreadViewUse thread_views{};
  // A specification of GroupCommit.
  std::string group_commit;
  EarlyRelease early_release{};
  Latency latency{};

  friend bool operator==(const Policies &, const Policies &) = default;
};

// Several policies in one specification, as TMH_POLICIES holds it: comma-separated `name=value`,
// each name once, e.g. "conflict=oldest-wins,escalation=adaptive". A name is that of the field,
// with '-' for '_'. What has no name of its own belongs to the value before it, as in
// "group-commit=active=2,wait=30us,latency=off". Fields that are not named stay unset.
// Errors: kBadPolicy: no such name, or twice; a wrong value: that of its own parse(). *out is
//         untouched then, and *why says where and what is right.
[[nodiscard]] Errc parse(std::string_view spec, Policies *out, std::string *why = nullptr);
[[nodiscard]] std::string to_string(const Policies &policies);

// Parse one spelling; *out is untouched after an error. Errors: kBadPolicy, kBadDetection,
// kBadDurability (group commit, early release), kBadLevels, kBadArgument (latency).
[[nodiscard]] Errc parse(std::string_view spec, Policy *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Isolation *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, PageCache *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Detection *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, GroupCommit *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, CrossPolicy *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Escalation *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, ThreadViewUse *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, EarlyRelease *out) noexcept;
[[nodiscard]] Errc parse(std::string_view spec, Latency *out) noexcept;
[[nodiscard]] std::string to_string(const Policy &policy);
[[nodiscard]] const char *to_string(Isolation isolation) noexcept;
[[nodiscard]] std::string to_string(const PageCache &cache);
[[nodiscard]] const char *to_string(Detection detection) noexcept;
[[nodiscard]] std::string to_string(const GroupCommit &group);
[[nodiscard]] const char *to_string(CrossPolicy policy) noexcept;
[[nodiscard]] std::string to_string(const Escalation &escalation);
[[nodiscard]] const char *to_string(ThreadViewUse use) noexcept;
[[nodiscard]] const char *to_string(EarlyRelease use) noexcept;
[[nodiscard]] const char *to_string(Latency latency) noexcept;
// The right values, for a message that refuses a wrong one.
[[nodiscard]] const char *policy_values() noexcept;
[[nodiscard]] const char *isolation_values() noexcept;
[[nodiscard]] const char *page_cache_values() noexcept;
[[nodiscard]] const char *detection_values() noexcept;
[[nodiscard]] const char *group_commit_values() noexcept;
[[nodiscard]] const char *cross_policy_values() noexcept;
[[nodiscard]] const char *escalation_values() noexcept;
[[nodiscard]] const char *thread_view_values() noexcept;
[[nodiscard]] const char *early_release_values() noexcept;
[[nodiscard]] const char *latency_values() noexcept;

}  // namespace tmh
