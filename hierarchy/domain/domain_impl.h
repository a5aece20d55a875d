// hierarchy/domain/domain_impl.h -- one domain in one process: what it consists of, and whether it
// may be used.
// Shape:     one DomainImpl per folder and process (a registry finds it, opening.cpp); Domain and
//            Segment handles share it. Opening makes and closes its parts.
// Sharing:   threads: all may call.
//            Lock order: LineUsers::Barred -> the mutex of the process's PageRunner -> those of
//            ThreadViews -> that of Segments -> OpenState's -> LogState::checkpoint_lock -> folder
//            lock (flock) -> log lock; domain lock last. The registry's mutex is taken alone or
//            first.
// Contexts:  NOT async-signal-safe.
// Source:    docs/design.md 2, 4, 8.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>

#include <tmh/domain.hpp>

#include "hierarchy/domain/domain_parts.h"
#include "hierarchy/domain/line_mode.h"
#include "hierarchy/domain/segments.h"
#include "hierarchy/threads/threads.h"
#include "hierarchy/watch/watch.h"
#include "storage/latency_table.h"

namespace tmh::detail {

class DomainImpl : public std::enable_shared_from_this<DomainImpl> {
 public:
  DomainImpl(std::string folder, DomainOptions options);
  DomainImpl(const DomainImpl &) = delete;
  DomainImpl &operator=(const DomainImpl &) = delete;

  // See OpenState.
  [[nodiscard]] Errc usable() const noexcept { return threads_.open.usable(); }
  [[nodiscard]] std::shared_lock<std::shared_mutex> keep_open() const {
    return threads_.open.keep_open();
  }

  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }
  // As they are since the open; but for the policy, which is that of runners().
  [[nodiscard]] const hierarchy::Settings &settings() const noexcept { return parts_.settings; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] page::SharedFiles &memory() const noexcept { return *parts_.memory; }
  [[nodiscard]] page::Engine &engine() const noexcept { return *parts_.engine; }
  [[nodiscard]] Segments &segments() noexcept { return segments_; }
  [[nodiscard]] const Segments &segments() const noexcept { return segments_; }
  [[nodiscard]] PageRunners &runners() noexcept { return threads_.runners; }
  [[nodiscard]] const PageRunners &runners() const noexcept { return threads_.runners; }
  [[nodiscard]] SlowReaders &slow_readers() noexcept { return slow_readers_; }
  [[nodiscard]] LineMode &line_mode() noexcept { return line_mode_; }
  // Null: a volatile domain. Outside an instance: while keep_open()'s lock is held.
  [[nodiscard]] DurableDomain *durable() const noexcept { return parts_.durable.get(); }
  // Null: level 2 alone. REQUIRES that the domain stays open: enter_lines(), an instance, or
  //       keep_open().
  [[nodiscard]] LineDomain *lines() const noexcept { return parts_.lines.get(); }
  [[nodiscard]] LineUsers &line_users() noexcept { return threads_.line_users; }
  // Of instances at level 1. Null: unlimited.
  [[nodiscard]] const line::CapacityModel *capacity() const noexcept {
    return is_limited_ ? &parts_.settings.capacity : nullptr;
  }
  [[nodiscard]] storage::LatencyTable &latency_table() noexcept { return *latency_table_; }
  [[nodiscard]] storage::LatencySite &latency_of_no_site() noexcept { return no_site_; }

  // See DomainThreads.
  [[nodiscard]] bool runs_at_lines(Need asks) const noexcept { return threads_.run_at_lines(asks); }
  [[nodiscard]] bool runs_at_any_level(Need asks) const noexcept {
    return threads_.run_at_any_level(asks);
  }
  [[nodiscard]] Errc enter_lines() { return threads_.enter_lines(); }

  // Does such an end of an update return only when the commit is durable? durability: of this
  // commit's acknowledgement; unset: the domain's.
  [[nodiscard]] bool must_wait(Status status, Durability durability) const noexcept;
  // Durable domains: when it returns, what an instance at level 1 that has committed read and wrote
  // is durable, if `durability`, or the domain's where that is unset, is strict. line:
  // SoftwareThread::durable_at().
  [[nodiscard]] Errc acknowledge_lines(std::uint64_t line, Durability durability) noexcept;
  // kLogFailed: no instance commits. REQUIRES that the domain stays open.
  [[nodiscard]] Errc check_commits() const noexcept;
  // The domain's lock table, for as long as the domain is open. Errors: those of
  // LockTable::open(); kBadArgument: other modes; kFileReplaced.
  [[nodiscard]] Errc open_locks(const lock::ModeSet &modes, lock::LockTable **out);

  // See DomainParts.
  void wake_sleepers() const noexcept { parts_.wake_sleepers(); }

 private:
  friend class Opening;

  ~DomainImpl() = default;
  [[nodiscard]] Errc open_locks(const platform::FolderLock::Held &lock, const lock::ModeSet &modes);

  const std::string folder_;
  const DomainOptions options_;
  // The capacity model says something.
  bool is_limited_ = false;
  // In a forked child, which destroys none: reachable, for tools that look for leaks.
  DomainImpl *left_before_ = nullptr;
  std::uint32_t slot_ = 0;
  // Mapped until the object goes: what a thread still records while another one closes is lost, and
  // harms no other.
  std::unique_ptr<storage::LatencyTable> latency_table_ = std::make_unique<storage::LatencyTable>();
  storage::LatencySite no_site_;
  DomainParts parts_;
  DomainThreads threads_;
  LineMode line_mode_{parts_, threads_};
  Segments segments_{parts_, threads_, line_mode_};
  SlowReaders slow_readers_{threads_};
};

}  // namespace tmh::detail
