// hierarchy/threads/current.h -- what the calling thread runs, and what it remembers from one
// instance to the next.
// Shape:     one Current per thread, constant-initialised, found in one step (initial-exec). It
//            holds words and pointers alone; each part names the file that gives it its meaning.
//            The words that RTM stores to lie on a line of their own, as a line that a transaction
//            has written costs it less when no other store has made it dirty before.
// Sharing:   the thread's own. A child that fork() makes inherits the copy of the forking thread;
//            `pages` says by its fork generation that its instance is the parent's.
// Contexts:  async-signal-safe to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <tmh/error.hpp>
#include <tmh/instance.hpp>

#include "levels/page/page.h"
#include "observe/latency_sampler.h"
#include "platform/process.h"

namespace tmh {
namespace line {
class SoftwareThread;
struct LineContextV1;
}  // namespace line
namespace storage {
class LatencySite;
}

namespace detail {

// Of a room above: this one compares pointers to them, and follows none.
class DomainImpl;
class LineDomain;
struct LineUser;
struct PageRunner;
class PageRunners;

// The instance of a site in RTM (hardware_attempts.cpp, lines_in_rtm.cpp). Set inside the
// transaction, so an abort takes it back; but for `context`, which counts its commits.
struct HardwareRun {
  LineDomain *domain = nullptr;
  std::uint32_t depth = 0;
  line::LineContextV1 *context = nullptr;
  // Beside software lines: the thread's there. Null: plain code.
  line::SoftwareThread *on_lines = nullptr;
};

// The instance of a site on software lines (line_attempts.cpp).
struct LineRun {
  LineDomain *domain = nullptr;
  line::SoftwareThread *thread = nullptr;
  std::uint32_t depth = 0;
  Errc no_room = Errc::kOk;  // why its last attempt failed, where that was AbortCause::kNoSpace
};
// What follows the LineAbort on its way.
enum class Unwinds : std::uint8_t {
  kFailed,
  kToWait,  // retry()
  kToBeginAgain,
};

// The instance of level 2 (instances.cpp). A child forked inside an instance inherits it, but runs
// nothing.
struct PageRun {
  DomainImpl *domain = nullptr;
  // Those of the domain.
  const PageRunners *runners = nullptr;
  PageRunner *runner = nullptr;
  std::uint32_t fork_generation = 0;
  storage::LatencySite *site = nullptr;
  observe::Timed timed;
  bool by_retry = false;  // it is about to end, see LastInstance
};

// The instance of level 2 that ended last, for backoff() and await_change() (retry.cpp). Another
// thread may have used its runner since.
struct LastInstance {
  const DomainImpl *domain = nullptr;
  std::uint64_t snapshot = 0;
  std::uint32_t attempts = 0;
  std::uint64_t clock_at_abort = 0;
  bool by_retry = false;         // then Current::last_reads says what it has read
  std::int64_t deadline_ns = 0;  // and this until when it waits, as retry.h says
  bool has_read_behind = false;  // what it waits for has come
};

// What a thread has in the LineThreads of that serial. 0: in none.
struct ThreadOf {
  std::uint64_t serial = 0;
  line::SoftwareThread *thread = nullptr;
};
// A thread that found all contexts taken does not look again before `retry_ns`.
struct RefusedContext {
  std::uint64_t serial = 0, retry_ns = 0;
  Errc why = Errc::kOk;
};

// Where a thread takes memory from pools (pool.cpp).
struct PoolLane {
  std::uint32_t number = 0, fork_generation = 0;
  bool is_known = false;
  // Where a block of another lane was found last, counted from this one; a hint.
  std::uint32_t fed_by = 0;
};

// On std::chrono::steady_clock.
inline constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();
// The calling thread's shard of every site's totals: a number below kOwnShards is its own;
// kOwnShards is shared by threads that come too late for one; kNoShardYet: it has not counted.
inline constexpr std::size_t kOwnShards = 32, kNoShardYet = ~std::size_t{0};

// What a thread with a shard of its own keeps there, so that its next instance of that site begins
// in one step: its thread at level 1 of the site's domain. Of use while `sitter` is
// Current::sitter. Once the domain is closed, LineUsers lets nobody in.
struct Seat {
  std::uint64_t sitter = ~std::uint64_t{0};
  line::SoftwareThread *thread = nullptr;
};
// Of a thread that has no seat anywhere: it has taken none, or what its seats mean is going.
inline constexpr std::uint64_t kSitsNowhere = 0;

enum class Where : std::uint8_t { kOutside, kHardware, kLines, kPages };

struct Current {
  // Does the thread run an instance, and at which level? Of any domain.
  [[nodiscard]] bool at_level_1() const noexcept { return (hardware.depth | lines.depth) != 0; }
  [[nodiscard]] bool at_level_2() const noexcept {
    return pages.domain != nullptr && pages.fork_generation == platform::fork_generation();
  }
  [[nodiscard]] Where where() const noexcept {
    if (hardware.depth != 0) return Where::kHardware;
    if (lines.depth != 0) return Where::kLines;
    return at_level_2() ? Where::kPages : Where::kOutside;
  }

  alignas(64) HardwareRun hardware;
  alignas(64) LineRun lines;
  Unwinds unwinds = Unwinds::kFailed;
  Need need = Need::kUnknown;           // of its last attempt on lines that leave_level.h has ended
  bool has_actions = false;             // actions.h
  std::size_t shard = kNoShardYet;      // site_impl.cpp
  std::uint64_t sitter = kSitsNowhere;  // unlike that of every other thread of this process
  ThreadOf line_thread;                 // used last, for LineThreads::here()
  LineUser *line_user = nullptr;        // its word in line_users.cpp; null: it has been nowhere yet
  const char *last_site = nullptr;      // whose instance it has begun last, for messages
  observe::Sampler samplers[3];         // by SampledKind
  PageRun pages;
  LastInstance last;
  page::ReadSet last_reads;  // of `last`, where that ended by retry()
  // Whose next instance in this thread is to know what it reads.
  const DomainImpl *exact_reads_of = nullptr;
  // What the last retry() was told; taken when its instance ends.
  std::int64_t retry_deadline_ns = kNoDeadline;
  RefusedContext refused;
  PoolLane lane;
};

extern constinit thread_local Current current_of_thread __attribute__((tls_model("initial-exec")));
// What RTM stores to lies on no line of the rest: who changes that ends no transaction.
static_assert(sizeof(HardwareRun) <= 64 && alignof(Current) == 64);
static_assert(kNoShardYet > kOwnShards);
[[nodiscard]] inline Current &current() noexcept { return current_of_thread; }
// At the end of an instance on software lines: this process is a child that was forked in its body.
// It runs nothing there, whatever it has run since.
[[nodiscard]] inline bool was_forked_in_body() noexcept { return current().lines.depth == 0; }
// Before the thread's word in LineUsers, or one of its threads at level 1, goes.
inline void forget_seats() noexcept { current().sitter = kSitsNowhere; }

}  // namespace detail
}  // namespace tmh
