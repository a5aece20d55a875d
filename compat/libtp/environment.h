// compat/libtp/environment.h -- one domain with transactions, in one process: the lock table, the
// chains, the types of records, and what the dead have left.
// Shape:     the owner of a transaction's locker owns the transaction. A dead owner's lockers pass
//            to one heir (levels/lock): take() undoes the transaction there and then, or notes it
//            where it cannot: in a step, or when this process does not know a record's type.
// Sharing:   threads: all may call.
// Contexts:  NOT async-signal-safe. Throws tmh::Error.
// Source:    LIBTP 3.2.5; docs/tp.md.
#pragma once

#include <tp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tmh/domain.hpp>

#include "compat/libtp/managers.h"
#include "compat/libtp/transaction.h"
#include "hierarchy/domain/domain.h"
#include "levels/lock/lock.h"

namespace tmh::tp {

class Environment final : public lock::Heir {
 public:
  Environment(const std::string &home, const tp_options &options);
  ~Environment();
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

  // Throws Error(kInstanceRunning): transactions of this process have not ended. Also errors of the
  // log that the domain meets when it closes: then it is closed.
  void close();
  [[nodiscard]] bool is_closed() const noexcept { return managers_ == nullptr; }

  // Throws Error(kDetached): a forked child; kNotInitialized: closed.
  void check_usable() const;
  [[nodiscard]] const std::string &home() const noexcept { return domain_.folder(); }
  [[nodiscard]] Managers &managers() noexcept { return *managers_; }

  // It stays mapped while the domain is open. The domain's segments of a fixed address are mapped
  // from the beginning: what the dead have done may have to be undone there.
  // *number: the domain's of it, the same in every process; may be null.
  [[nodiscard]] Segment map(const std::string &file, const SegmentOptions &options,
                            int *number = nullptr);

  // Throws Error(kBadArgument): none has that number.
  [[nodiscard]] Segment segment_at(int number) const;

  [[nodiscard]] std::unique_ptr<Transaction> begin();
  // It has ended: its slot is the next one's.
  void recycle(const Transaction &ended) noexcept;
  // One that has committed, but is not durable, ends.
  void detach(Transaction &transaction);
  // Throws Error(kBadArgument): no such transaction waits.
  [[nodiscard]] std::unique_ptr<Transaction> attach(std::uint64_t id);

  // Undoes what the dead have left and what could not be undone before.
  void settle();
  // Heir
  [[nodiscard]] bool take(lock::LockerId locker, std::uint64_t name) noexcept override;

 private:
  void begin(lock::LockTable &table, const tp_options &options);
  [[nodiscard]] const ChainFile &chains() const noexcept { return managers_->chains(); }
  [[nodiscard]] lock::LockTable &locks() const noexcept { return managers_->locks(); }
  [[nodiscard]] Slot take_slot(std::uint64_t id);
  void give_slot(const Slot &slot) noexcept;
  [[nodiscard]] Errc begin_life();
  [[nodiscard]] std::vector<BlockIndex> blocks_of(BlockIndex head, std::uint32_t count);
  void adopt(BlockIndex head);
  void free_others(const std::vector<bool> &is_used);
  // False: it waits, detached or among the orphans.
  [[nodiscard]] bool resolve(const Slot &slot, std::uint64_t id);
  [[nodiscard]] bool has_passed_on(const Slot &slot, std::uint64_t id);
  void resolve_orphans();
  void resolve_stranded();
  void look_after_the_dead();
  struct Mapped {
    Segment segment;
    std::uint32_t number = 0;
  };
  void map_all();
  [[nodiscard]] Mapped add_segment(const Segment &segment);
  [[nodiscard]] Mapped find_segment(const std::string &file) const;

  struct Orphan {
    Slot slot;
    std::uint64_t id;
  };

  Domain domain_;
  std::shared_ptr<detail::DomainImpl> impl_;
  // Null: closed.
  std::unique_ptr<Managers> managers_;
  // A file is mapped by one thread. Not taken in a step: mapping may wait for one.
  std::mutex mapping_mutex_;
  mutable std::mutex segments_mutex_;
  std::vector<Mapped> segments_;
  std::mutex mutex_;
  std::vector<Slot> idle_;
  std::vector<Orphan> orphans_;
  std::size_t running_ = 0;
  std::atomic<std::uint64_t> next_look_ns_{0};
};

}  // namespace tmh::tp
