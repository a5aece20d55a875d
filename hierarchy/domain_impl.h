// hierarchy/domain_impl.h -- one domain in one process: its memory, its level-2 engine, its
// segments, and the running instance.
// Shape:     one DomainImpl per folder and process (a registry finds it); Domain and Segment
//            handles share it.
// Sharing:   threads: an instance belongs to the thread that began it. On the process's views
//            `process_.mutex` keeps others waiting at begin; on a thread's own (thread_views.h)
//            instances run beside them.
//            Lock order: LineUsers::Barred -> process_.mutex -> those of ThreadViews -> use_mutex_
//            -> LogState::checkpoint_lock -> folder lock (flock) -> log lock; domain lock last. The
//            registry's mutex is taken alone or first.
// Contexts:  NOT async-signal-safe.
// Source:    thesis, section 2.1 (nesting by subsumption); docs/design.md 2, 4, 8.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include <tmh/domain.hpp>

#include "hierarchy/current.h"
#include "hierarchy/durable_domain.h"
#include "hierarchy/latency_sampler.h"
#include "hierarchy/line_domain.h"
#include "hierarchy/line_users.h"
#include "hierarchy/page_runner.h"
#include "hierarchy/settings.h"
#include "hierarchy/thread_views.h"
#include "levels/page/domain_memory.h"
#include "levels/page/engine.h"
#include "levels/storage/heap.h"
#include "levels/storage/latency_table.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::detail {

class SegmentImpl {
 public:
  std::weak_ptr<DomainImpl> domain;
  std::uint32_t number = 0;
  std::atomic<std::byte *> base{nullptr};  // null: not mapped, or no more
  std::uint64_t max_bytes = 0;
  Layout layout = Layout::kHeap;
  bool relocatable = false;
  // a map() in a running instance was refused after it was mapped. Under segments_mutex_
  bool is_unprepared = false;
  bool has_lines = false;  // level 1 knows it. Under segments_mutex_
  std::string name;
};

enum class BodyKind : std::uint8_t;  // tmh/site.hpp
struct Slept;                        // retry.h

// A segment as threads' views need to know it.
struct MappedSegment {
  std::uint32_t number = 0;
  std::byte *base = nullptr;
  std::uint64_t max_bytes = 0;
};

// Where an instance of level 2 wants to run.
enum class RunsIn : std::uint8_t {
  kProcessView,
  kThreadView,          // where the domain's options and what is free allow
  kProcessViewInstead,  // a thread's view has turned out not to do
};

// Why it runs there: see hierarchy::Learned.
enum class Presence : std::uint8_t { kHost, kGuest };

class DomainImpl : public std::enable_shared_from_this<DomainImpl> {
 public:
  DomainImpl(std::string folder, DomainOptions options)
      : folder_(std::move(folder)), options_(std::move(options)) {}
  ~DomainImpl();
  DomainImpl(const DomainImpl &) = delete;
  DomainImpl &operator=(const DomainImpl &) = delete;

  // opening.cpp
  [[nodiscard]] Errc close() noexcept;

  // domain_segments.cpp
  [[nodiscard]] Errc map(const std::string &file, const SegmentOptions &options,
                         std::shared_ptr<SegmentImpl> *out);
  // all parts of the file that are mapped
  [[nodiscard]] Errc unmap(const std::string &file) noexcept;
  [[nodiscard]] Errc unmap(const SegmentImpl &wanted) noexcept;
  [[nodiscard]] Errc grow(std::uint32_t segment, std::uint64_t size_bytes) noexcept;
  // REQUIRES that the domain stays open: an instance, keep_open(), or process_.mutex.
  [[nodiscard]] std::uint64_t size_of(std::uint32_t segment) const noexcept;
  [[nodiscard]] std::shared_ptr<SegmentImpl> segment_at(const void *address) noexcept;
  [[nodiscard]] Errc heap_context(const SegmentImpl &segment, storage::HeapContext *out) noexcept;

  // instances.cpp
  // site: whose times the instance's are; null: of no site.
  [[nodiscard]] Errc begin(bool is_query, RunsIn where = RunsIn::kProcessView,
                           storage::LatencySite *site = nullptr,
                           Presence presence = Presence::kHost) noexcept;
  // durability: of this commit's acknowledgement; unset: the domain's.
  [[nodiscard]] Errc end(bool is_query, Status *status,
                         Durability durability = Durability{}) noexcept;
  [[nodiscard]] Errc abort(AbortCause cause = AbortCause::kUser) noexcept;
  [[nodiscard]] Errc validate(Status *status) noexcept;
  [[nodiscard]] std::uint32_t depth() const noexcept;
  [[nodiscard]] Errc advise(const void *address, Access access, std::size_t bytes) noexcept;
  void backoff() noexcept;
  // retry.cpp. Also returns when another thread closes the domain. kNotMapped: it has unmapped what
  // retry() waits for.
  [[nodiscard]] Errc await_change() noexcept;
  void count_sleep(const Slept &slept) noexcept;
  // kLogFailed: nobody commits any more.
  [[nodiscard]] Errc check_commits() const noexcept;
  // Those in retry(), to look again. REQUIRES that the domain's memory is mapped.
  void wake_sleepers() noexcept;
  [[nodiscard]] std::uint64_t collect() noexcept;

  // modes.cpp; REQUIRE that this process runs RTM, and that this thread runs no instance
  [[nodiscard]] Errc enter_line_mode() noexcept;
  // After an instance at level 2 whose site goes on in RTM; as LineDomain's.
  [[nodiscard]] LineDomain::Given give_to_hardware() noexcept;

  // is_pending: false: the instance has FAILED. See page::Engine.
  [[nodiscard]] Errc become_irrevocable(bool *is_pending) noexcept;
  [[nodiscard]] Errc set_policy(std::string_view spec) noexcept;

  // kDetached after fork, kNotInitialized after close
  [[nodiscard]] Errc usable() const noexcept {
    const bool is_usable =
        platform::fork_generation() == fork_generation_ && open_.load(std::memory_order_acquire);
    return is_usable ? Errc::kOk : why_unusable();
  }
  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }
  // relaxed: a policy stands for itself.
  [[nodiscard]] Policy policy() const noexcept { return policy_.load(std::memory_order_relaxed); }
  [[nodiscard]] Detection detection() const noexcept { return settings_.detection; }
  [[nodiscard]] page::Engine &engine() const noexcept { return *engine_; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] Tracking wanted_tracking() const noexcept { return settings_.tracking; }
  [[nodiscard]] std::string lock_path() const { return folder_ + "/tmh.lock"; }
  // Changes with what is mapped.
  [[nodiscard]] std::uint64_t segments_epoch() const noexcept {
    return segments_epoch_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::vector<MappedSegment> mapped_segments() const;
  [[nodiscard]] page::DomainMemory &memory() const noexcept { return *memory_; }
  [[nodiscard]] Durability durability() const noexcept { return settings_.durability; }
  [[nodiscard]] Levels levels() const noexcept { return settings_.levels; }
  // Does this thread run an instance at level 1 of this domain?
  [[nodiscard]] bool runs_at_lines() const noexcept;
  // Null: level 2 alone. REQUIRES that the domain stays open: enter_lines(), an instance, or
  //       keep_open().
  [[nodiscard]] LineDomain *lines() const noexcept { return lines_.get(); }
  // Until LineUsers::leave() the domain stays open and its segments mapped. Waits for who is about
  // to change that. What usable() says: not entered.
  [[nodiscard]] Errc enter_lines() {
    if (!line_users_.try_enter()) [[unlikely]] {
      // Who bars is not there in a forked child.
      TMH_TRY(usable());
      line_users_.enter();
    }
    const Errc error = usable();
    if (error != Errc::kOk) [[unlikely]]
      LineUsers::leave();
    return error;
  }
  // What runs instances with such a body at level 1.
  enum class LineKind : std::uint8_t { kNone, kSoftware, kHardware };
  [[nodiscard]] LineKind line_kind(BodyKind body) const noexcept;
  [[nodiscard]] const Escalation &escalation() const noexcept { return settings_.escalation; }
  // Durable domains: when it returns, what an instance at level 1 that has committed read and wrote
  // is durable, if `durability`, or the domain's where that is unset, is strict. line:
  // SoftwareThread::durable_at().
  [[nodiscard]] Errc acknowledge_lines(std::uint64_t line, Durability durability) noexcept;
  // Of instances at level 1. Null: unlimited.
  [[nodiscard]] const line::CapacityModel *capacity() const noexcept {
    return is_limited_ ? &settings_.capacity : nullptr;
  }
  // Null: a volatile domain. Outside an instance: while keep_open()'s lock is held.
  [[nodiscard]] DurableDomain *durable() const noexcept { return durable_.get(); }
  // A close() by another thread waits until the lock is gone.
  [[nodiscard]] std::shared_lock<std::shared_mutex> keep_open() const {
    return std::shared_lock(use_mutex_);
  }
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] std::vector<ParticipantInfo> participants() const;
  [[nodiscard]] std::vector<LatencySeries> latencies() const;
  [[nodiscard]] Latency latency() const noexcept { return settings_.latency; }
  [[nodiscard]] storage::LatencyTable &latency_table() noexcept { return *latency_table_; }
  [[nodiscard]] storage::LatencySite &latency_of_no_site() noexcept { return no_site_; }

 private:
  friend class Opening;

  // But for a forked child's parent's.
  static void destroy(DomainImpl *domain) noexcept;
  [[nodiscard]] Errc why_unusable() const noexcept;
  [[nodiscard]] bool must_wait(Status status, Durability durability) const noexcept;
  [[nodiscard]] Errc check_not_own(const std::string &name) const;
  [[nodiscard]] Errc check_overlap(const std::string &name, std::uint64_t offset,
                                   std::uint64_t size) const;
  [[nodiscard]] Errc find_or_add(const std::string &name, const SegmentOptions &options,
                                 std::uint32_t *number);
  [[nodiscard]] Errc add_record(const std::string &name, const SegmentOptions &options,
                                std::uint32_t number);
  [[nodiscard]] Errc map_view(const std::string &name, const SegmentOptions &options,
                              std::shared_ptr<SegmentImpl> &segment);
  [[nodiscard]] Errc add_lines(SegmentImpl &segment) noexcept;
  [[nodiscard]] Errc settle_heap_file(const std::string &path,
                                      const storage::SegmentRecordV1 &record) const;
  [[nodiscard]] static Errc make_heap_file(const std::string &path, std::uint64_t size_bytes,
                                           const struct stat *empty);
  [[nodiscard]] Errc unmap(const std::string &name,
                           const std::function<bool(const SegmentImpl &)> &is_wanted) noexcept;
  [[nodiscard]] Errc extend(std::uint32_t segment, std::uint64_t size_bytes) noexcept;
  [[nodiscard]] Errc prepare_heap(SegmentImpl &segment) noexcept;
  [[nodiscard]] bool runs_here() const noexcept;
  [[nodiscard]] bool runs_at_any_level() const noexcept;
  [[nodiscard]] bool has_moved_at_lines(const page::Engine::ReadSet &reads) const noexcept;
  [[nodiscard]] bool has_moved_at_pages(const page::Engine::ReadSet &reads,
                                        std::uint64_t snapshot) const noexcept;
  [[nodiscard]] bool are_mapped(const page::Engine::SegmentSet &wanted) const noexcept;
  // REQUIRES process_.mutex. Before level 2 touches, maps or unmaps the process's views.
  [[nodiscard]] Errc leave_line_mode() noexcept;
  void tell_mode() noexcept;
  [[nodiscard]] PageRunner &lock_runner(RunsIn where, bool *fell_back) noexcept;
  [[nodiscard]] Errc begin_on(PageRunner &runner, bool is_query, Presence presence) noexcept;
  [[nodiscard]] Errc begin_exact_reads(page::Engine &engine) noexcept;
  void count_thread_view_fallback() noexcept;
  static void leave_turn(PageRunner &runner) noexcept;
  void finish(PageRunner &runner) noexcept;

  const std::string folder_;
  const DomainOptions options_;
  // For atomics of a struct that is aligned to less than its size clang calls a library.
  struct alignas(8) PolicyWord : Policy {};
  // set_policy() changes it while other threads begin and back off
  std::atomic<PolicyWord> policy_{};
  static_assert(sizeof(PolicyWord) == 8 && std::atomic<PolicyWord>::is_always_lock_free);
  // Settled at the open; but for `policy`, which is policy_.
  hierarchy::Settings settings_;
  // The capacity model says something.
  bool is_limited_ = false;
  const std::uint32_t fork_generation_ = platform::fork_generation();
  // in a forked child, which destroys none: reachable, for whoever looks for leaks
  DomainImpl *left_before_ = nullptr;
  std::uint32_t slot_ = 0;
  std::atomic<bool> open_{false};
  // Mapped until the object goes: what a thread still records while another one closes is lost, and
  // harms nobody.
  std::unique_ptr<storage::LatencyTable> latency_table_ = std::make_unique<storage::LatencyTable>();
  storage::LatencySite no_site_;
  std::unique_ptr<page::DomainMemory> memory_;
  std::unique_ptr<DurableDomain> durable_;
  std::unique_ptr<LineDomain> lines_;
  std::unique_ptr<page::Engine> engine_;
  mutable std::mutex segments_mutex_;
  std::vector<std::shared_ptr<SegmentImpl>> segments_;
  page::Engine::SegmentSet ever_mapped_;          // by this process
  std::atomic<std::uint64_t> segments_epoch_{0};  // release after a change of segments_

  // shared: uses durable_, or a thread's log, without a runner's mutex
  mutable std::shared_mutex use_mutex_;
  PageRunner process_;  // on the process's views
  LineUsers line_users_;
  std::unique_ptr<ThreadViews> views_ = std::make_unique<ThreadViews>(*this);
};

// Of this thread's instance of level 2. REQUIRES there is one. Throws Error, and RetryNow when it
// has FAILED.
void become_irrevocable_here();
[[nodiscard]] bool irrevocable_here() noexcept;
[[nodiscard]] std::shared_ptr<DomainImpl> impl_of(const Domain &domain) noexcept;

// Does this thread run a query of level 2?
[[nodiscard]] bool is_page_query_here() noexcept;
// Throws Error(kQueryWrote). what: the library's call that stores, as "allocation".
[[noreturn]] void raise_query_wrote(const std::string &segment, const char *what);

// Throws Error(code) with this thread's failure detail.
[[noreturn]] void raise(Errc code);
inline void check(Errc code) {
  if (code != Errc::kOk) raise(code);
}

}  // namespace tmh::detail
