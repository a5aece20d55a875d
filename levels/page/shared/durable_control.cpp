// levels/page/shared/durable_control.cpp -- see durable_control.h.
#include "levels/page/shared/durable_control.h"

#include <sys/stat.h>

#include <new>
#include <string>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::page {

using platform::fail;

Errc DurableControl::tell_life(bool is_lived_in) noexcept {
  TMH_ASSERT(memory_.is_durable());
  storage::store_life(&memory_.control().header, is_lived_in ? memory_.state().life : 0);
  return sync(&memory_.control().header, sizeof memory_.control().header);
}

Errc DurableControl::settle_sizes(const platform::FolderLock::Held &lock) noexcept {
  TMH_ASSERT(lock.is_valid());
  for (storage::SegmentRecordV1 &record : memory_.control().segments) {
    if (!storage::is_used(record) || storage::promised_size(record) == record.size_bytes) continue;
    struct stat info {};
    const bool exists = stat(memory_.segment_path(record).c_str(), &info) == 0;
    // The participant that promised it may have died before it was on disk; others may be here and
    // use the size at once.
    TMH_TRY(sync(&record, sizeof record));
    std::string why;
    if (const Errc error = storage::settle_size(
            &record, exists ? static_cast<std::uint64_t>(info.st_size) : 0, &why);
        error != Errc::kOk)
      return fail(error, memory_.path("tmh.control") + ": " + why);
  }
  return Errc::kOk;
}

Errc DurableControl::promise_size(const platform::FolderLock::Held &lock, std::uint32_t number,
                                  std::uint64_t size_bytes) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(number < storage::kSegmentsMax);
  TMH_ASSERT(size_bytes % kPageBytes == 0 && size_bytes <= storage::kSegmentBytesMax);
  if (!memory_.is_durable()) return Errc::kOk;
  storage::promise_size(&memory_.control().segments[number], size_bytes);
  return sync(&memory_.control().segments[number], sizeof memory_.control().segments[number]);
}

Errc DurableControl::sync(const void *from, std::size_t bytes) noexcept try {
  TMH_ASSERT(static_cast<const std::byte *>(from) >= base());
  TMH_ASSERT(static_cast<const std::byte *>(from) + bytes <= base() + storage::kControlBytes);
  if (!memory_.is_durable()) return Errc::kOk;
  const std::string file = memory_.path("tmh.control");
  storage::LogState *const log = memory_.log_state();
  const auto earlier = log != nullptr
                           ? static_cast<Errc>(log->control_error.load(std::memory_order_acquire))
                           : Errc::kOk;
  if (earlier != Errc::kOk)
    return fail(earlier, file + ": an earlier sync failed; all have to close the domain");
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte *>(from) - base());
  platform::home_written(file, offset, from, bytes);
  make_dirty();
  platform::DiskFile control;
  // It has been looked at when the domain was opened. A second name that it got since, as by a
  // snapshot of hard links, is no reason to stop.
  Errc error = control.open(file, platform::DiskFile::Mode::kRead, platform::FileRole::kSegment);
  if (error != Errc::kOk) return error;
  error = control.sync();
  if (error != Errc::kOk && log != nullptr)
    log->control_error.store(static_cast<std::uint32_t>(error), std::memory_order_release);
  return error;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the name of tmh.control");
}

// Pages that could not be written are clean ever after, and syncing them succeeds. So each sync
// writes all of the file: what failed in an earlier life of the domain, or in a process that died
// before it could say so. A page's last word is reserved: no reader loads it plainly.
void DurableControl::make_dirty() noexcept {
  for (std::uint64_t page = 0; page < storage::kControlBytes; page += kPageBytes) {
    std::byte *const last = base() + page + kPageBytes - sizeof(std::uint64_t);
    const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t *>(last));
    std::uint64_t as_it_is = word.load(std::memory_order_relaxed);
    (void)word.compare_exchange_strong(as_it_is, as_it_is, std::memory_order_relaxed);
  }
}

Errc DurableControl::make_sizes_durable() noexcept {
  std::array<std::uint64_t, storage::kSegmentsMax> now{};  // before the sync
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    if (storage::is_used(memory_.control().segments[i]))
      now[i] = memory_.segment_size(i).load(std::memory_order_acquire);
  }
  TMH_TRY(sync(&memory_.control(), sizeof memory_.control()));
  // relaxed: another thread's older look may win, which costs a sync more
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
    durable_bytes_[i].store(now[i], std::memory_order_relaxed);
  return Errc::kOk;
}

Errc DurableControl::tell_of_segment(const platform::FolderLock::Held &lock,
                                     std::uint32_t number) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(number < storage::kSegmentsMax);
  // Within one sector: a power cut leaves the old or the new one.
  const storage::SegmentRecordV1 &record = memory_.control().segments[number];
  TMH_TRY(sync(&record, sizeof record));
  // release: pairs with segment_generation()
  std::atomic_ref<std::uint32_t>(memory_.control().header.segment_generation)
      .fetch_add(1, std::memory_order_release);
  return Errc::kOk;
}

}  // namespace tmh::page
