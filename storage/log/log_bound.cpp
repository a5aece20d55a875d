// storage/log/log_bound.cpp -- see log_bound.h.
#include "storage/log/log_bound.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/futex.h"
#include "platform/try.h"
#include "storage/control.h"
#include "storage/file_table.h"

namespace tmh::storage {

using platform::fail;
using Source = DurableBound::Source;

namespace {
// Looks at a point that the writer stores meanwhile.
constexpr int kTries = 4;
static_assert(LogBound::kLookNs < 1'000'000'000, "a wait is less than a second: tv_nsec holds it");
}  // namespace

Errc LogBound::read_life(Life *life) noexcept try {
  platform::FileDescriptor file;
  const std::string path = folder_ + "/tmh.control";
  TMH_TRY(platform::open_regular(path, O_RDONLY, platform::FileRole::kOwn, &file));
  ControlHeaderV1 header{};
  if (::pread(file.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    return fail(Errc::kShortFile, path);
  if (header.magic != kControlMagic || header.domain_id[0] != log_.domain_id[0] ||
      header.domain_id[1] != log_.domain_id[1])
    return fail(Errc::kNotADomain, path + ": another domain's");
  if (header.format_version != kControlVersion) return fail(Errc::kForeignVersion, path);
  life->life = header.life;
  life->is_open = header.open_mark != 0 && header.open_mark == open_mark(file.get());
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("a file's name");
}

bool LogBound::is_still_closed() noexcept {
  Life life;
  return read_life(&life) == Errc::kOk && !life.is_open;
}

Errc LogBound::look(DurableBound *bound) noexcept {
  TMH_ASSERT(bound != nullptr);
  *bound = {};
  Life life;
  TMH_TRY(read_life(&life));
  if (!life.is_open)
    forget_state();
  else if (read_shared(life.life, bound))
    return Errc::kOk;
  CheckpointV1 slots[2];
  std::size_t count = 0;
  *bound = {};
  TMH_TRY(read_checkpoints(slots, &count));
  bound->source = life.is_open ? Source::kCheckpoint : Source::kClosed;
  bound->generation = slots[0].generation;
  bound->lsn = life.is_open ? slots[0].durable_lsn : ~Lsn{0};
  bound->sequence = slots[0].sequence;
  return Errc::kOk;
}

template <class T>
bool LogBound::read_field(std::size_t offset, T *value) const noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  TMH_ASSERT(static_cast<bool>(state_) && offset + sizeof *value <= sizeof(LogState));
  return ::pread(state_.get(), value, sizeof *value, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(sizeof *value);
}

// The domain's tmh.log.state, which may be another file than at the last look.
bool LogBound::find_state() noexcept try {
  const std::string path = folder_ + "/tmh.log.state";
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    forget_state();
    return false;
  }
  if (state_ && info.st_dev == state_device_ && info.st_ino == state_inode_) return true;
  forget_state();
  const bool may_write =
      platform::open_regular(path, O_RDWR, platform::FileRole::kOwn, &state_) == Errc::kOk;
  if (!may_write &&
      platform::open_regular(path, O_RDONLY, platform::FileRole::kOwn, &state_) != Errc::kOk)
    return false;
  if (::fstat(state_.get(), &info) != 0) return false;
  state_device_ = info.st_dev;
  state_inode_ = info.st_ino;
  if (!may_write) return true;
  void *const at =
      ::mmap(nullptr, kLogTailsAt, PROT_READ | PROT_WRITE, MAP_SHARED, state_.get(), 0);
  if (at != MAP_FAILED) mapped_ = static_cast<LogState *>(at);
  return true;
} catch (const std::bad_alloc &) {
  return false;
}

void LogBound::forget_state() noexcept {
  if (mapped_ != nullptr) (void)::munmap(mapped_, kLogTailsAt);
  mapped_ = nullptr;
  state_.reset();
}

// False: it is not there, or is being made, or damaged.
bool LogBound::read_shared(std::uint64_t life, DurableBound *bound) noexcept {
  if (!find_state()) return false;
  std::uint64_t magic = 0;
  if (!read_field(offsetof(LogState, magic), &magic) || magic != kLogStateMagic) return false;
  std::uint32_t version = 0;
  std::uint64_t file_bytes = 0, of_life = 0, domain_id[2] = {};
  if (!read_field(offsetof(LogState, version), &version) || version != kLogStateVersion ||
      !read_field(offsetof(LogState, generation), &bound->generation) ||
      !read_field(offsetof(LogState, file_bytes), &file_bytes) || file_bytes != log_.file_bytes ||
      !read_field(offsetof(LogState, domain_id), &domain_id) || domain_id[0] != log_.domain_id[0] ||
      domain_id[1] != log_.domain_id[1] || !read_field(offsetof(LogState, life), &of_life) ||
      of_life != life)
    return false;
  // Before what it announces: a flush that comes later ends the wait.
  if (!read_field(offsetof(LogState, event), &event_)) return false;
  bound->source = Source::kShared;
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t before = 0, after = 0;
    FlushPoint point[2];
    Lsn durable = 0;
    if (!read_field(offsetof(LogState, flushes), &before) ||
        !read_field(offsetof(LogState, point), &point) ||
        !read_field(offsetof(LogState, durable_lsn), &durable) ||
        !read_field(offsetof(LogState, flushes), &after))
      return false;
    // Of a busy writer's two one is durable: the smaller one is no later.
    bound->lsn = std::min(
        durable, before == after ? point[before & 1].lsn : std::min(point[0].lsn, point[1].lsn));
    if (before == after) break;
  }
  return is_believed(bound->generation);
}

// A recoverer stores a checkpoint of its generation before it makes shared memory.
bool LogBound::is_believed(std::uint32_t generation) noexcept {
  if (generation == believed_generation_) return true;
  CheckpointV1 slots[2];
  std::size_t count = 0;
  if (read_checkpoints(slots, &count) != Errc::kOk) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (slots[i].generation == generation) believed_generation_ = generation;
  return generation == believed_generation_;
}

Errc LogBound::read_checkpoints(CheckpointV1 (&slots)[2], std::size_t *count) const noexcept try {
  TMH_ASSERT(count != nullptr);
  *count = 0;
  const std::string path = checkpoint_path(folder_);
  platform::DiskFile file;
  if (!platform::has_entry(path)) return fail(Errc::kLogMissing, path);
  TMH_TRY(file.open(path, platform::DiskFile::Mode::kRead));
  std::string why = "cut short";
  Errc found = Errc::kCorrupt;
  for (std::size_t i = 0; i < 2; ++i) {
    CheckpointV1 slot;
    std::size_t got = 0;
    TMH_TRY(file.read(i * sizeof slot, &slot, sizeof slot, &got));
    if (got < sizeof slot) continue;
    if (const Errc error = verify_checkpoint(slot, i, &why); error != Errc::kOk) {
      if (error == Errc::kForeignVersion) found = error;
      continue;
    }
    if (slot.domain_id[0] != log_.domain_id[0] || slot.domain_id[1] != log_.domain_id[1]) {
      found = Errc::kNotADomain;
      continue;
    }
    slots[(*count)++] = slot;
  }
  if (*count == 0) return fail(found, path + ": " + why);
  if (*count == 2 && slots[1].sequence > slots[0].sequence) std::swap(slots[0], slots[1]);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("a file's name");
}

void LogBound::wait(std::uint64_t timeout_ns) noexcept {
  const auto slice = static_cast<long>(std::min(timeout_ns, kLookNs));
  if (mapped_ != nullptr && platform::futex_add(mapped_->sleepers, 1)) {
    (void)platform::futex_wait(mapped_->event, event_, slice);
    (void)platform::futex_add(mapped_->sleepers, -1);
    return;
  }
  const timespec pause{0, slice};
  (void)::nanosleep(&pause, nullptr);
}

}  // namespace tmh::storage
