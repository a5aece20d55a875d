// levels/lock/lock_file.cpp -- opening, making and growing the shared lock table.
#include "levels/lock/lock_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::lock {

using platform::fail;

namespace {
constexpr std::uint64_t kGrowBytes = 1u << 18;
}  // namespace

Errc LockFile::open(const platform::FolderLock::Held &lock, const std::string &path,
                    std::uint64_t life, const ModeSet &modes, const Self &self) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(self.participants != nullptr && self.slot < storage::kParticipantsMax);
  if (!modes.is_valid()) return fail(Errc::kBadArgument, "a matrix of lock modes");
  self_ = self;
  owner_ = owner_of(self.slot, self.incarnation);
  tag_ = platform::lock_tag(self.slot, self.incarnation);
  const auto open_file = [&] {
    return file_.open(path, kLockFileBytesMin, kLockFileBytesMax,
                      platform::GrowingFile::Blocks::kAllocated);
  };
  TMH_TRY(open_file());
  if (header().magic.load(std::memory_order_acquire) != kLockMagic || header().life != life) {
    // What is there is of an earlier life, or of a maker that died. No participant uses it.
    file_.close();
    unlink(path.c_str());
    TMH_TRY(open_file());
    TMH_TRY(make(life, modes));
  }
  if (!(header().modes == modes))
    return fail(Errc::kBadArgument, path + " has another matrix of lock modes");
  learn_modes();
  return Errc::kOk;
}

Errc LockFile::make(std::uint64_t life, const ModeSet &modes) noexcept {
  LockHeader &made = header();
  made.life = life;
  made.modes = modes;
  made.capacity.store(1, std::memory_order_relaxed);
  made.backed = 1;
  made.next_age.store(1, std::memory_order_relaxed);
  made.magic.store(kLockMagic, std::memory_order_release);
  return Errc::kOk;
}

void LockFile::learn_modes() noexcept {
  modes_ = header().modes;
  for (std::uint32_t mode = 0; mode < modes_.count; ++mode)
    excluders_[mode] = modes_.excluders(Mode{mode});
}

Errc LockFile::back(std::uint32_t cells) noexcept {
  TMH_ASSERT(cells <= kCellsMax);
  const std::uint64_t wanted = kCellsAt + std::uint64_t{cells} * sizeof(RequestCell);
  const std::uint64_t bytes = (wanted + kGrowBytes - 1) / kGrowBytes * kGrowBytes;
  return file_.grow(std::min(bytes, file_.bytes_max()));
}

std::uint32_t LockFile::capacity() const noexcept {
  // acquire: pairs with Cells::grow()
  const std::uint32_t said = header().capacity.load(std::memory_order_acquire);
  const std::uint32_t known = known_cells_.load(std::memory_order_relaxed);
  if (said <= known) return said;
  struct stat info {};
  if (fstat(file_.fd(), &info) != 0) return known;
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t held = (std::max(bytes, kCellsAt) - kCellsAt) / sizeof(RequestCell);
  const auto cells = static_cast<std::uint32_t>(std::min<std::uint64_t>(said, held));
  known_cells_.store(std::max(known, cells), std::memory_order_relaxed);
  return cells;
}

std::uint32_t LockFile::known_or_none(std::uint32_t cell) const noexcept {
  return cell < capacity() ? cell : 0;
}

void LockFile::pass_number(std::uint64_t number) const noexcept {
  std::atomic<std::uint64_t> &next = header().next_number;
  std::uint64_t seen = next.load(std::memory_order_relaxed);
  while (seen < number && !next.compare_exchange_weak(seen, number, std::memory_order_relaxed)) {
  }
}

bool LockFile::is_alive(Owner owner) const noexcept {
  const auto slot = static_cast<std::uint32_t>(static_cast<std::uint64_t>(owner) & 0x1ffffu) - 1;
  if (slot >= storage::kParticipantsMax) return false;
  return storage::is_alive_as(self_.participants[slot], [&](std::uint64_t incarnation) {
    return owner_of(slot, incarnation) == owner;
  });
}

bool LockFile::holder_alive(void *context, platform::LockTag holder) noexcept {
  const std::uint32_t slot = platform::slot_of(holder);
  if (slot >= storage::kParticipantsMax) return false;
  return storage::is_alive_as(
      static_cast<const LockFile *>(context)->self_.participants[slot],
      [&](std::uint64_t incarnation) { return platform::lock_tag(slot, incarnation) == holder; });
}

}  // namespace tmh::lock
