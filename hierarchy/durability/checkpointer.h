// hierarchy/durability/checkpointer.h -- checkpoints of a durable domain, as one participant takes
// them.
// Invariant: a checkpoint says "recovery starts at L" only after every version up to L's commit is
//            home and the data files are synced.
// Sharing:   under LogState::checkpoint_lock, of which Held is the proof, by any thread of any
//            participant. Transactions go on meanwhile.
// Contexts:  not in handlers.
// Source:    docs/design.md D6; LIBTP, section 3.2.1 (checkpoints); thesis, section 2.3
//            (xCheckpoint).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include <tmh/domain.hpp>

#include "hierarchy/durability/page_copies.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "levels/page/versions/versions.h"
#include "storage/checkpoint_file.h"

namespace tmh::detail {

class Checkpointer : private page::DomainLock::Heir {
 public:
  // The checkpoint lock; given back when it ends.
  class [[nodiscard]] Held {
   public:
    Held(Held &&other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    Held &operator=(Held &&) = delete;
    ~Held() { release(); }
    // This object proves nothing afterwards.
    void release() noexcept {
      if (state_ != nullptr) std::exchange(state_, nullptr)->checkpoint_lock.unlock();
    }
    [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr; }

   private:
    friend class Checkpointer;
    explicit Held(storage::LogState &state) noexcept : state_(&state) {}
    storage::LogState *state_;
  };

  // As participant `slot`. All outlive it. is_stopping: cuts a checkpoint in its pauses.
  Checkpointer(page::SharedFiles &memory, std::uint32_t slot, const DomainOptions &options,
               storage::CheckpointFile &file, page::DurableLog &log,
               const std::atomic<bool> &is_stopping) noexcept;
  Checkpointer(const Checkpointer &) = delete;
  Checkpointer &operator=(const Checkpointer &) = delete;

  [[nodiscard]] Held lock() noexcept;
  // Empty: another participant checkpoints, archives or copies.
  [[nodiscard]] std::optional<Held> try_lock() noexcept;
  [[nodiscard]] Errc checkpoint(const Held &held) noexcept;
  [[nodiscard]] bool is_due() const noexcept;
  // An error is kept: the kernel takes the pages for clean afterwards, so that a later success
  // would say nothing about them. REQUIRES a Held, or that no other participant has the domain
  // open.
  [[nodiscard]] Errc sync_data_files(Pace pace) noexcept;

 private:
  [[nodiscard]] bool collect_up_to(std::uint64_t fence, std::uint64_t patience_ns) noexcept;
  [[nodiscard]] std::uint64_t move_fence() noexcept;
  [[nodiscard]] Errc sync_data_file(std::uint32_t segment, Pace pace) noexcept;
  [[nodiscard]] bool may_settle_doubts() const noexcept;
  // page::DomainLock::Heir
  void mend(const page::DomainLock::Held &held, page::DomainLock::Context context,
            platform::Locked how) noexcept override;
  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }

  page::SharedFiles &memory_;
  const DomainOptions &options_;
  storage::CheckpointFile &file_;
  page::DurableLog &log_;
  const std::atomic<bool> &is_stopping_;
  // Its own: the engine's belongs to the instance's thread.
  page::ConsistencyTree tree_;
  page::DomainLock domain_lock_;
};

}  // namespace tmh::detail
