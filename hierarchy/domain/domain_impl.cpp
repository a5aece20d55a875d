// hierarchy/domain/domain_impl.cpp -- when a commit is acknowledged, and whether one may be made.
#include "hierarchy/domain/domain_impl.h"

#include <utility>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"

namespace tmh::detail {

DomainImpl::DomainImpl(std::string folder, DomainOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

Errc DomainImpl::acknowledge_lines(std::uint64_t line, Durability durability) noexcept {
  if (!must_wait(Status::kCommitted, durability)) return Errc::kOk;
  TMH_ASSERT(parts_.durable != nullptr);
  const auto open = keep_open();
  TMH_TRY(usable());
  return parts_.durable->log().group().wait_lower(line);
}

// When a strict commit returns, everything that it read and wrote is durable (docs/design.md D1).
bool DomainImpl::must_wait(Status status, Durability durability) const noexcept {
  if (parts_.durable == nullptr || status != Status::kCommitted) return false;
  const bool waits =
      durability == Durability{} ? parts_.durable->is_strict() : durability == Durability::kStrict;
  if (!waits) storage::note_early_acknowledgement(&parts_.memory->control().header);
  return waits;
}

Errc DomainImpl::open_locks(const lock::ModeSet &modes, lock::LockTable **out) {
  TMH_ASSERT(out != nullptr);
  const auto guard = segments_.lock();
  const auto open = keep_open();
  TMH_TRY(usable());
  if (parts_.locks == nullptr) {
    platform::FolderLock folder_lock;
    TMH_TRY(folder_lock.acquire(storage::lock_path(folder_)));
    TMH_TRY(open_locks(folder_lock.held(), modes));
  } else if (!(parts_.locks->file().modes() == modes)) {
    return platform::fail(Errc::kBadArgument, folder_ + ": its locks have other modes");
  }
  *out = parts_.locks.get();
  return Errc::kOk;
}

Errc DomainImpl::open_locks(const platform::FolderLock::Held &lock, const lock::ModeSet &modes) {
  TMH_ASSERT(lock.is_valid() && parts_.locks == nullptr);
  page::SharedFiles &memory = *parts_.memory;
  auto table = std::make_unique<lock::LockTable>();
  const std::uint64_t incarnation =
      memory.participant(slot_).incarnation.load(std::memory_order_relaxed);
  TMH_TRY(table->open(lock, folder_ + "/" + storage::name_of(storage::DomainFile::kLocks),
                      memory.state().life, modes, {&memory.participant(0), slot_, incarnation}));
  TMH_TRY(memory.in_place().enter(storage::DomainFile::kLocks, table->file().fd(),
                                  lock::kLockFileBytesMin));
  parts_.locks = std::move(table);
  return Errc::kOk;
}

// REQUIRES that the domain stays open.
Errc DomainImpl::check_commits() const noexcept {
  return parts_.durable == nullptr ? Errc::kOk : parts_.durable->log().group().check_writable();
}

}  // namespace tmh::detail
