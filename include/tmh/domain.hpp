// include/tmh/domain.hpp -- domains, segments and instances (the C++ interface's core).
// Shape:     Domain and Segment are small handles; copies refer to the same object; the last one
//            closes it.
// Sharing:   any number of processes open one domain folder; each is a participant with at most one
//            instance at a time. Threads of one process may all call: an instance belongs to its
//            thread, others wait at begin; but for sites (tmh/site.hpp).
// Contexts:  nothing here may be called in a signal handler, or in a child after fork (kDetached)
//            before it opens itself.
// Source:    thesis, sections 2.1 to 2.3; docs/design.md 2, 6 and 8.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include <tmh/error.hpp>
#include <tmh/instance.hpp>
#include <tmh/latency.hpp>
#include <tmh/options.hpp>
#include <tmh/past.hpp>

namespace tmh {

// One participant as others see it; a stuck reader is the one with the oldest snapshot.
struct ParticipantInfo {
  std::uint32_t slot = 0;
  std::int32_t pid = 0;
  std::string name;
  bool active = false;  // an instance is running
  bool query = false;
  std::uint64_t snapshot = 0;  // commit clock its instance reads at
  std::uint64_t age_us = 0;    // since that instance began
  // Versions that no other participant keeps from being collected (upper bound).
  std::uint64_t versions_held = 0;
  Counters counters;
};

namespace detail {
class DomainImpl;
// What retry() throws at level 2. Not is_wanted: become_irrevocable() found that the instance has
// FAILED; it aborts and begins again at once.
struct RetryNow {
  bool is_wanted = true;
};
class SegmentImpl;
struct Handles;  // makes handles of implementations
// On while this thread runs an instance and the process's last instances touched no page for the
// first time: advice cannot help then. Plain and of the thread, which alone stores it, so that a
// loop that advises page by page asks once: what no other thread can change, and the loop's body
// does not, the compiler takes out of it. initial-exec: no call to find it.
extern constinit thread_local bool advice_idle __attribute__((tls_model("initial-exec")));
}  // namespace detail

class Domain;

namespace detail {
// Another number whenever a thread of any process has made a segment. REQUIRES a running
// instance.
[[nodiscard]] std::uint32_t segments_made(const Domain &domain) noexcept;
}  // namespace detail

// A mapped segment. Valid until unmapped or the domain closes.
class Segment {
 public:
  Segment() = default;
  [[nodiscard]] explicit operator bool() const noexcept { return impl_ != nullptr; }
  // Base of the view. A touch behind size_bytes() is SIGBUS; where the file goes on there it is
  // not, and a store keeps the instance from committing (not so at level 1 of volatile domains: as
  // in any mapped file, it is stored).
  [[nodiscard]] std::byte *data() const noexcept;
  // Now; grows with grow() of any process. 0: not mapped, the domain is closed, or this process is
  // a forked child. Takes a lock, as close() does: a body that may run in RTM better asks before it
  // begins.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;
  [[nodiscard]] std::uint64_t max_bytes() const noexcept;
  [[nodiscard]] bool is_relocatable() const noexcept;
  [[nodiscard]] const std::string &name() const noexcept;
  // Extends the file and the usable range; returns when it is usable by every participant. Others
  // keep running.
  // A size that is not larger changes nothing. May be called inside an instance; the new size stays
  // even when the instance aborts. Errors: kMisalignedLength, kSegmentFull (beyond max_bytes),
  // kSegmentOverlap (into another part of the file), kDiskFull, kIo, kNotMapped, kNotADomain (the
  // domain's files are others than when this process came).
  void grow(std::uint64_t new_size_bytes) const;
  [[nodiscard]] std::error_code grow(std::uint64_t new_size_bytes,
                                     std::error_code &ec) const noexcept;

  // Transactional allocation from a heap segment: rolled back with the instance. REQUIRES: inside
  // an instance.
  // Not initialised; 0 bytes count as 1. alignment: a power of two, at most 4096. deallocate(): a
  // null pointer is nothing; bytes: as they were asked for, which is checked, or 0. Errors:
  // kSegmentFull, kDiskFull, kBadArgument (alignment), kBadFree, kNotAHeap, kEndWithoutBegin,
  // kQueryWrote, kNotMapped, kCorrupt; and grow()'s.
  [[nodiscard]] void *allocate(std::size_t bytes,
                               std::size_t alignment = alignof(std::max_align_t)) const;
  void deallocate(void *pointer, std::size_t bytes = 0) const;

  // The object named `name`, constructed on first use (value-initialised, or with its allocator
  // where that can be made from a segment; of pairs and container adaptors what they hold).
  // Runs in an instance of its own unless one is running. Of T its size alone is kept: the same
  // name with another type of that size is not noticed.
  // Errors: kNotAHeap, kRootMismatch (size), kSegmentFull, kDiskFull, kBadArgument (name);
  //         kNestedMisuse:
  // in a query, also of a root that there is; ask before it.
  template <class T>
  [[nodiscard]] T *root(std::string_view name = "root") const;
  // What may not lie in a segment is refused when it is compiled: tmh/may_lie_in_segment.hpp.
  template <class T>
  requires std::is_reference_v<T>
  void root(std::string_view name = "root") const {
    static_assert(!std::is_reference_v<T>,
                  "tmh: a reference is the address of another object: a root is an object.");
    (void)name;
  }
  // The 8-byte cell behind a root; zero on first use. REQUIRES: inside an instance. name: 1 to 47
  // bytes.
  [[nodiscard]] void **root_cell(std::string_view name, std::uint64_t type_bytes = 0) const;

 private:
  friend class Domain;
  friend struct detail::Handles;
  // For root(): a name claims the size of its object, not of one that could not be made.
  [[nodiscard]] void **unclaimed_root_cell(std::string_view name, std::uint64_t type_bytes) const;
  static void claim_root(void **cell, std::uint64_t type_bytes) noexcept;
  explicit Segment(std::shared_ptr<detail::SegmentImpl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<detail::SegmentImpl> impl_;
};

class Domain {
 public:
  Domain() = default;
  // Opens or creates the domain in `folder` (created if missing) and attaches this process. Opening
  // it again in the same process returns the same domain, with the options that it has. Those that
  // it cannot have are refused as another process's would be (kDurabilityMismatch,
  // kDetectionMismatch, kLevelsMismatch), and the process's own when they contradict those that it
  // has (kAlreadyInitialized); options that are unset or equal are not, nor are `name` and
  // log_file_bytes.
  // Errors: see Errc 2 to 10, 18, 20, 21, 27 to 31, 36, 38 to 41, 44 to 48, 50, 56.
  // kFileReplaced, and where all of the domain was replaced kDomainInUse: the folder holds other
  // files than those that the participants have open, or had when they died.
  [[nodiscard]] static Domain open(const std::string &folder, const DomainOptions &options = {});
  [[nodiscard]] static Domain open(const std::string &folder, const DomainOptions &options,
                                   std::error_code &ec) noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return impl_ != nullptr; }

  // Maps a segment; a relative `file` lies in the domain's folder. At the same address in every
  // process unless relocatable. An existing segment grows to size_bytes when it is smaller. May be
  // called inside an instance, but for a heap in a file of zeros (kInstanceRunning: the format
  // could be rolled back). One process maps a segment once, through whatever handle
  // (kSegmentInUse). A file that is refused for what it holds becomes no segment. Errors: see Errc
  // 3, 4, 6 to 9, 11, 12, 15 to 17, 20, 21, 32, 33, 35, 36, 38, 39.
  [[nodiscard]] Segment map(const std::string &file, const SegmentOptions &options = {}) const;
  [[nodiscard]] Segment map(const std::string &file, const SegmentOptions &options,
                            std::error_code &ec) const noexcept;
  // unmap() and close() wait until no other thread runs an instance of this domain, at whatever
  // level; those that are about to begin wait for them. A sleeping retry() is no running instance,
  // nor is an action of on_commit() or on_abort(): it may call both. So who clears a flag that
  // bodies look at before they touch the segment, and then unmaps, needs no more. An attempt that
  // begins later and touches the segment meets unmapped memory, as after munmap(); so does the next
  // attempt of an instance that has aborted. Errors: kInstanceRunning: this thread runs an
  // instance; kNotMapped. By its handle: that segment; by its file: all parts of the file that this
  // process has mapped.
  void unmap(const Segment &segment) const;
  [[nodiscard]] std::error_code unmap(const std::string &file, std::error_code &ec) const noexcept;

  // Detaches this process: versions go home, data files are written to disk, a durable domain's by
  // the last one out, or by checkpoint(). Waits as unmap() does. What begins later, in whatever
  // thread, gets kNotInitialized. Errors: kInstanceRunning: this thread runs an instance; kIo;
  // kFileReplaced: closed all the same, unless the folder was moved or removed.
  void close();
  [[nodiscard]] std::error_code close(std::error_code &ec) noexcept;

  // An instance. Nested begins are subsumed. end() returns kCommitted or kAborted at the outermost
  // end, else kPending or kFailed. A query may stand inside an update, not the other way round
  // (kNestedMisuse). One that is still open when its thread ends aborts behind the destructors of
  // the thread's thread_local objects; its on_abort() actions do not run. Errors: kEndWithoutBegin;
  // kNestedMisuse: also of an end that is not its begin's, or another domain's instance;
  // kNotInitialized; kDetached. end(), which then has ended the instance: kDiskFull, kNotMapped (it
  // has stored behind a segment's end, where its file goes on), it has aborted; of durable domains
  // kLogFailed, kLogMissing, kIo: perhaps committed, and perhaps not durable.
  void begin() const;
  // The same with an isolation of its own (tmh/policies.hpp). Inside another instance: kSnapshot
  // says nothing, kSerializable makes the outermost instance serializable from here on; what it has
  // read before counts, too.
  void begin(Isolation isolation) const;
  [[nodiscard]] Status end() const;
  // The same, acknowledged as `durability` says and not as the domain does: kStrict returns when
  // everything that the instance read and wrote is durable, kBuffered at once. Volatile domains
  // take any. At an inner end it says nothing.
  [[nodiscard]] Status end(Durability durability) const;
  void begin_query() const;
  // A query that reads the domain as it was at `moment`: see query_at(). Ends by end_query().
  void begin_query_at(const Moment &moment) const;
  void end_query() const;  // Error(kQueryWrote) names the first byte stored to
  // Rolls back and ends the outermost instance, whatever its depth.
  void abort() const;
  [[nodiscard]] Status validate() const;  // kFailed is certain; kPending may still fail at the end
  // Nesting depth of this thread's instance of level 2; 0: none, or a site's instance that runs at
  // level 1.
  [[nodiscard]] std::uint32_t depth() const noexcept;
  // Advice that the pages of [address, address + bytes) will be accessed; never changes a result.
  // Inline up to here, because a hot page's advice costs more to pass on than the page costs to
  // read. While it is idle a wrong argument is not diagnosed either. Errors: kEndWithoutBegin,
  // kNotMapped, kBadArgument.
  void advise(const void *address, Access access, std::size_t bytes = 1) const {
    if (!detail::advice_idle) advise_now(address, access, bytes);
  }

  // In a query: bytes of one segment as its snapshot has them. Loads take the pages that they touch
  // from level 1, which waits for the query's end there; a copy takes none, so that a long scan
  // leaves small updates at level 1. It costs the copying of each page, each time. In an update:
  // loads. Errors: kEndWithoutBegin: this thread runs no instance of level 2; kNotMapped.
  void copy(const void *from, void *to, std::size_t bytes) const;

  // The present gets a name, and is held until forget(), or until the last participant leaves, with
  // a history or without. Returns its clock. Takes the room of the pages that change after it, one
  // copy each. Durable domains: both the moment and its name are durable when it returns; the name
  // stays when the last participant leaves, and open_image() shows it. Errors: kBadArgument: not 1
  // to kMomentNameMax bytes, or there is such a name; kTooManyMoments; kInstanceRunning;
  // kLevelsMismatch. Durable: kCorrupt and others: the file of names is damaged; kLogFailed, kIo.
  std::uint64_t keep(std::string_view name) const;
  // Errors: kNotHeld: no moment has that name; kInstanceRunning; kLevelsMismatch; those of keep()'s
  // file.
  void forget(std::string_view name) const;
  [[nodiscard]] PastInfo past() const;

  // Durable domains; the others throw Error(kNotDurable). None stops transactions of others.
  // Errors: kLogFailed, kFileReplaced, kDiskFull, kIo, kReadOnly.
  void flush() const;  // returns when all that any process has committed is durable
  // Data files catch up with the log, so that recovery starts here; not beyond what a slow reader
  // holds.
  void checkpoint() const;
  // Checkpoint, then moves the log files that recovery does not need into `folder` (made when
  // missing) and names them. With keep_log all since the domain's creation end there: recover()
  // goes back to any moment. kBadArgument, kNotADomain: it would replace others there.
  std::vector<std::string> archive(const std::string &folder) const;
  // A consistent copy of the whole domain in a new `folder`; opening it there recovers it. Until it
  // is whole and on disk it is called `folder`.incomplete; an error removes that, a death leaves
  // it. kBadArgument: one of them exists, `folder` lies in the domain's, or a segment lies outside
  // that.
  void backup(const std::string &folder) const;
  [[nodiscard]] Durability durability() const noexcept;
  // What this process's open() found; ran is false when it joined others.
  [[nodiscard]] RecoveryInfo recovery() const;

  // This process, from the next instance on; kBadPolicy, kInstanceRunning.
  void set_policy(std::string_view spec) const;
  [[nodiscard]] Policy policy() const noexcept;
  [[nodiscard]] Detection detection() const noexcept;
  [[nodiscard]] TrackingReport tracking() const;
  [[nodiscard]] Counters counters() const;  // the whole domain
  [[nodiscard]] std::vector<ParticipantInfo> participants() const;
  // How long attempts have taken, since the domain was opened by the first of the present
  // participants; of whom Policies::latency says. Empty where this process has it off.
  [[nodiscard]] std::vector<LatencySeries> latencies() const;
  [[nodiscard]] const std::string &folder() const noexcept;
  // Detail of this thread's last failure.
  [[nodiscard]] const std::string &last_error() const noexcept;
  // Between attempts: waits as the policy says. Used by atomically(); call it in hand-written retry
  // loops.
  void backoff() const;
  // Sleeps until something that this thread's last instance has read may have changed, in any
  // process (retry()), or a segment has been mapped or unmapped, or the domain closed, by another
  // thread.
  void await_change() const;
  // Collects versions that no snapshot can read; returns how many are left. Reaps dead
  // participants. Outside an instance it then looks for slow readers
  // (DomainOptions::on_slow_reader).
  std::uint64_t collect() const;

 private:
  void advise_now(const void *address, Access access, std::size_t bytes) const;
  friend struct detail::Handles;
  explicit Domain(std::shared_ptr<detail::DomainImpl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<detail::DomainImpl> impl_;
};

// What recovery without opening may do: see recover().
struct RecoverOptions {
  std::uint64_t until_lsn = ~0ull;      // point in time: no transaction whose record ends beyond it
  std::uint64_t until_time_ns = ~0ull;  // nor a later one (CLOCK_REALTIME)
  std::string log_folder;               // where archive() put earlier log files
  unsigned threads = 0;                 // 0: one per core
  // After kFileReplaced: takes the folder's files as they are, a volatile domain's too. What was
  // committed and is neither in them nor in shared memory that is whole is lost.
  bool accept_files = false;
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};
// Recovers a durable domain that no process has open, as the next open would; with `until` only up
// to there: what came later is gone for good in this folder, so work on a backup. Errors:
// kDomainInUse, kNotDurable, kLogDamaged, kLogMissing, kIo, kDiskFull; kBadArgument: its data files
// hold what is later, or may (it was not closed), or with log_folder: it is a backup from before a
// segment was made that the log names.
RecoveryInfo recover(const std::string &folder, const RecoverOptions &options = {});

// Runs `action` once the thread's running instance, the outermost one, has committed, or when its
// attempt has aborted. Outside the instance: it may begin another. Actions of nested instances wait
// for the outermost. An action must not throw. Error: kEndWithoutBegin.
void on_commit(std::function<void()> action);
void on_abort(std::function<void()> action);
// In the body of atomically() or query(): undoes it, sleeps until something that it has read has
// changed (by any process), and runs it again. Ends the body by an exception that is no
// std::exception. Where it cannot be woken, atomically() throws: Error(kNotInitialized)
// when another thread closes the domain, kNotMapped when it unmaps a segment that the instance has
// read, kLogFailed when the log could not be written, so that no instance commits. An instance that
// has read nothing could sleep only for ever: Error(kNothingRead). Level 2 with pages that stay
// mapped (-hot) runs the body once more at once, to learn what it reads.
// Errors: kEndWithoutBegin; kNestedMisuse: irrevocable. A sleeper is woken by the commit, and
// looks by itself, in the end ten times per second: a committer that is killed may wake none. At
// level 2 the body also runs, to see, at any commit when it has read more than 16 pages, and in a
// hybrid domain when pages go back to level 1.
[[noreturn]] void retry();
// The same, but at `deadline` the body runs again though nothing has changed; at once when that is
// past. So the body looks at the clock before it retries, and says itself what comes of a wait that
// was in vain: if (queue.empty()) { if (now >= deadline) return false; retry_until(deadline); }
[[noreturn]] void retry_until(std::chrono::steady_clock::time_point deadline);

// Segment that holds `address` in this process; empty handle when none does.
[[nodiscard]] Segment segment_of(const void *address) noexcept;

}  // namespace tmh
