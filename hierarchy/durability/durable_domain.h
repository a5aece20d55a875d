// hierarchy/durability/durable_domain.h -- what a durable domain has beyond a volatile one, as one
// participant sees it: recovery at open, the log, and a housekeeper thread.
// Invariant: before any participant runs, the data files hold exactly the log's valid prefix and a
//            new generation of the log is open.
// Sharing:   what takes FolderLock::Held runs under the folder lock; checkpoint(), archive() and
//            backup() by any thread of any participant, see checkpointer.h and archiver.h.
// Contexts:  not in handlers.
// Source:    docs/design.md 7; thesis, sections 2.3 (xCheckpoint, xArchive), 3.2 and appendix B;
//            LIBTP, section 3.2.1.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <tmh/domain.hpp>

#include "hierarchy/durability/archiver.h"
#include "hierarchy/durability/checkpointer.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/doorbell.h"
#include "storage/checkpoint_file.h"
#include "storage/log/recovery.h"

namespace tmh::detail {

[[nodiscard]] RecoveryInfo to_info(const storage::RecoveryReport &report) noexcept;

class DurableDomain {
 public:
  DurableDomain(page::SharedFiles &memory, const DomainOptions &options, const GroupCommit &group,
                EarlyRelease early_release) noexcept;
  ~DurableDomain() { stop(); }
  DurableDomain(const DurableDomain &) = delete;
  DurableDomain &operator=(const DurableDomain &) = delete;

  // Removes what recover() has made for a new domain. After an error its control file has to stay.
  [[nodiscard]] Errc remove_new(const platform::FolderLock::Held &lock) noexcept;
  // REQUIRES that no participant is alive: salvages what the dead had committed, replays the log,
  // starts over.
  [[nodiscard]] Errc recover(const platform::FolderLock::Held &lock,
                             const RecoverOptions &options) noexcept;
  // Joins a domain that others have open.
  [[nodiscard]] Errc join() noexcept;
  // From here on this participant commits, as `slot`.
  void attach(std::uint32_t slot) noexcept;
  // Starts and stops the housekeeper: buffered commits become durable, log files are made ahead,
  // checkpoints are taken in time. May start again.
  [[nodiscard]] Errc start() noexcept;
  void stop() noexcept;
  // Rung: the housekeeper writes what has been committed to the log.
  [[nodiscard]] platform::Doorbell &doorbell() noexcept { return doorbell_; }
  // The last participant has left, everything is home: the next open has nothing to replay.
  // *table_error: of the page checksums, which the domain then has none of.
  [[nodiscard]] Errc close_clean(const platform::FolderLock::Held &lock,
                                 Errc *table_error) noexcept;
  // Makes the setting the domain's; unset: leaves it. REQUIRES recover() or join() before.
  [[nodiscard]] Errc use_page_checksums(const platform::FolderLock::Held &lock,
                                        PageChecksums wanted) noexcept;

  // REQUIRES attach().
  [[nodiscard]] page::DurableLog &log() const noexcept {
    TMH_ASSERT(log_ != nullptr);
    return *log_;
  }
  [[nodiscard]] const GroupCommit &group() const noexcept { return group_; }
  [[nodiscard]] bool is_strict() const noexcept { return is_strict_; }
  [[nodiscard]] bool early_release() const noexcept { return early_release_ == EarlyRelease::kOn; }
  [[nodiscard]] const RecoveryInfo &recovery() const noexcept { return recovery_; }

  // Waits until everything committed so far is durable.
  [[nodiscard]] Errc flush() noexcept;
  [[nodiscard]] Errc checkpoint() noexcept;
  // Moves the log files that recovery does not need to `folder`; names them.
  [[nodiscard]] Errc archive(const std::string &folder, std::vector<std::string> *moved) noexcept;
  // A consistent copy of the domain, as of its end, in a new folder.
  [[nodiscard]] Errc backup(const std::string &folder) noexcept;

 private:
  [[nodiscard]] Errc create_files() noexcept;
  [[nodiscard]] Errc grow(const platform::FolderLock::Held &lock, std::uint32_t segment,
                          std::uint64_t size_bytes) noexcept;
  [[nodiscard]] Errc open_checkpoint_file() noexcept;
  [[nodiscard]] Errc enter_checkpoint_file() noexcept;
  [[nodiscard]] Errc salvage() noexcept;
  [[nodiscard]] Errc salvage_log() noexcept;
  [[nodiscard]] Errc init_log_state(const storage::RecoveryReport &report) noexcept;
  [[nodiscard]] Errc promise_log_file() noexcept;
  [[nodiscard]] std::uint64_t log_file_bytes() const noexcept;
  void keep_house() noexcept;
  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }

  page::SharedFiles &memory_;
  const DomainOptions options_;
  const GroupCommit group_;
  const EarlyRelease early_release_;
  const bool is_strict_;
  // Under checkpoint_lock, or the folder lock when alone.
  storage::CheckpointFile checkpoint_file_;
  std::unique_ptr<page::DurableLog> log_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::unique_ptr<Archiver> archiver_;
  RecoveryInfo recovery_;

  std::thread housekeeper_;
  // Wakes the housekeeper.
  platform::Doorbell doorbell_;
  // A checkpoint in its pauses looks at it, too.
  std::atomic<bool> stopping_{false};
};

}  // namespace tmh::detail
