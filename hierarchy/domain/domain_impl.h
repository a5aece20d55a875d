// hierarchy/domain/domain_impl.h -- one domain in one process: what it consists of, and whether it
// may be used.
// Shape:     one DomainImpl per folder and process (a registry finds it, opening.cpp); Domain and
//            Segment handles share it. Opening makes and closes its parts.
// Sharing:   threads: all may call.
//            Lock order: LineUsers::Barred -> the mutex of the process's PageRunner -> those of
//            ThreadViews -> that of Segments -> use_mutex_ -> LogState::checkpoint_lock -> folder
//            lock (flock) -> log lock; domain lock last. The registry's mutex is taken alone or
//            first.
// Contexts:  NOT async-signal-safe.
// Source:    docs/design.md 2, 4, 8.
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>

#include <tmh/domain.hpp>

#include "hierarchy/domain/durable_domain.h"
#include "hierarchy/domain/line_domain.h"
#include "hierarchy/domain/line_mode.h"
#include "hierarchy/domain/line_users.h"
#include "hierarchy/domain/page_runners.h"
#include "hierarchy/domain/segments.h"
#include "hierarchy/domain/settings.h"
#include "hierarchy/domain/slow_readers.h"
#include "levels/page/page.h"
#include "levels/page/shared/shared.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/latency_table.h"

namespace tmh::detail {

class DomainImpl : public std::enable_shared_from_this<DomainImpl> {
 public:
  DomainImpl(std::string folder, DomainOptions options);
  ~DomainImpl();
  DomainImpl(const DomainImpl &) = delete;
  DomainImpl &operator=(const DomainImpl &) = delete;

  [[nodiscard]] Errc close() noexcept;
  // kDetached after fork, kNotInitialized after close
  [[nodiscard]] Errc usable() const noexcept {
    const bool is_usable =
        platform::fork_generation() == fork_generation_ && open_.load(std::memory_order_acquire);
    return is_usable ? Errc::kOk : why_unusable();
  }
  // A close() by another thread waits until the lock is gone.
  [[nodiscard]] std::shared_lock<std::shared_mutex> keep_open() const {
    return std::shared_lock(use_mutex_);
  }

  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }
  [[nodiscard]] std::string lock_path() const { return folder_ + "/tmh.lock"; }
  // As they are since the open; but for the policy, which is that of runners().
  [[nodiscard]] const hierarchy::Settings &settings() const noexcept { return settings_; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] page::SharedFiles &memory() const noexcept { return *memory_; }
  [[nodiscard]] page::Engine &engine() const noexcept { return *engine_; }
  [[nodiscard]] Segments &segments() noexcept { return segments_; }
  [[nodiscard]] const Segments &segments() const noexcept { return segments_; }
  [[nodiscard]] PageRunners &runners() noexcept { return runners_; }
  [[nodiscard]] const PageRunners &runners() const noexcept { return runners_; }
  [[nodiscard]] SlowReaders &slow_readers() noexcept { return slow_readers_; }
  [[nodiscard]] LineMode &line_mode() noexcept { return line_mode_; }
  // Null: a volatile domain. Outside an instance: while keep_open()'s lock is held.
  [[nodiscard]] DurableDomain *durable() const noexcept { return durable_.get(); }
  // Null: level 2 alone. REQUIRES that the domain stays open: enter_lines(), an instance, or
  //       keep_open().
  [[nodiscard]] LineDomain *lines() const noexcept { return lines_.get(); }
  [[nodiscard]] LineUsers &line_users() noexcept { return line_users_; }
  // Of instances at level 1. Null: unlimited.
  [[nodiscard]] const line::CapacityModel *capacity() const noexcept {
    return is_limited_ ? &settings_.capacity : nullptr;
  }
  [[nodiscard]] storage::LatencyTable &latency_table() noexcept { return *latency_table_; }
  [[nodiscard]] storage::LatencySite &latency_of_no_site() noexcept { return no_site_; }

  // Does this thread run an instance at level 1 of this domain? RTM cannot tell: it aborts, for
  // `asks`.
  [[nodiscard]] bool runs_at_lines(Need asks) const noexcept;
  [[nodiscard]] bool runs_at_any_level(Need asks) const noexcept;
  // Until LineUsers::leave() the domain stays open and its segments mapped. Waits for who is about
  // to change that. What usable() says: not entered.
  [[nodiscard]] Errc enter_lines() {
    if (!line_users_.try_enter()) [[unlikely]] {
      // The thread that bars is not there in a forked child.
      TMH_TRY(usable());
      line_users_.enter();
    }
    const Errc error = usable();
    if (error != Errc::kOk) [[unlikely]]
      LineUsers::leave();
    return error;
  }

  // Does such an end of an update return only when the commit is durable? durability: of this
  // commit's acknowledgement; unset: the domain's.
  [[nodiscard]] bool must_wait(Status status, Durability durability) const noexcept;
  // Durable domains: when it returns, what an instance at level 1 that has committed read and wrote
  // is durable, if `durability`, or the domain's where that is unset, is strict. line:
  // SoftwareThread::durable_at().
  [[nodiscard]] Errc acknowledge_lines(std::uint64_t line, Durability durability) noexcept;
  // kLogFailed: no instance commits. REQUIRES that the domain stays open.
  [[nodiscard]] Errc check_commits() const noexcept;
  // Those in retry(), to look again. REQUIRES that the domain's memory is mapped.
  void wake_sleepers() noexcept;

 private:
  friend class Opening;

  // But for a forked child's parent's.
  static void destroy(DomainImpl *domain) noexcept;
  [[nodiscard]] Errc why_unusable() const noexcept;

  const std::string folder_;
  const DomainOptions options_;
  hierarchy::Settings settings_;
  // The capacity model says something.
  bool is_limited_ = false;
  const std::uint32_t fork_generation_ = platform::fork_generation();
  // In a forked child, which destroys none: reachable, for tools that look for leaks.
  DomainImpl *left_before_ = nullptr;
  std::uint32_t slot_ = 0;
  std::atomic<bool> open_{false};
  // Mapped until the object goes: what a thread still records while another one closes is lost, and
  // harms no other.
  std::unique_ptr<storage::LatencyTable> latency_table_ = std::make_unique<storage::LatencyTable>();
  storage::LatencySite no_site_;
  std::unique_ptr<page::SharedFiles> memory_;
  std::unique_ptr<DurableDomain> durable_;
  std::unique_ptr<LineDomain> lines_;
  std::unique_ptr<page::Engine> engine_;
  Segments segments_{*this};
  // Shared: uses durable_, or a thread's log, without a runner's mutex.
  mutable std::shared_mutex use_mutex_;
  LineUsers line_users_;
  LineMode line_mode_{*this};
  PageRunners runners_{*this};
  SlowReaders slow_readers_{*this};
};

}  // namespace tmh::detail
