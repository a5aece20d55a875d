// platform/fault_ring.cpp -- opening and reading the perf ring.
#include "platform/fault_ring.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "platform/assert.h"
#include "platform/failure.h"

namespace tmh::platform {

static_assert(PERF_RECORD_SAMPLE == 9 && PERF_RECORD_LOST == 2);

Errc FaultRing::open() noexcept {
  close();
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_PAGE_FAULTS;
  attributes.sample_period = 1;
  attributes.sample_type = PERF_SAMPLE_ADDR;
  attributes.exclude_hv = 1;
  attributes.watermark = 1;
  // No thread polls: no wake-ups.
  attributes.wakeup_watermark = static_cast<std::uint32_t>(kDataBytes);
  fd_ =
      static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  if (fd_ < 0)
    return fail_errno(Errc::kTrackingUnavailable, "perf_event_open(page-faults, with kernel mode)");
  void *at = mmap(nullptr, 4096 + kDataBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) {
    const Errc error =
        fail_errno(Errc::kTrackingUnavailable, "mapping the perf ring (perf_event_mlock_kb)");
    ::close(fd_);
    fd_ = -1;
    return error;
  }
  madvise(at, 4096 + kDataBytes, MADV_DONTFORK);
  base_ = static_cast<std::byte *>(at);
  opened_in_ = fork_generation();
  tail_ = head_word().load(std::memory_order_acquire);
  return Errc::kOk;
}

void FaultRing::close() noexcept {
  if (is_open()) munmap(base_, 4096 + kDataBytes);  // in a forked child there is nothing to unmap
  if (fd_ >= 0) ::close(fd_);
  base_ = nullptr;
  fd_ = -1;
}

std::atomic_ref<unsigned long long> FaultRing::head_word() const noexcept {
  TMH_ASSERT(is_open());
  return std::atomic_ref(reinterpret_cast<perf_event_mmap_page *>(base_)->data_head);
}

void FaultRing::copy_record(std::uint64_t at, std::uint64_t *header,
                            std::uint64_t *address) const noexcept {
  // Records are multiples of 8 bytes, so no word straddles the end.
  const std::byte *data = base_ + 4096;
  std::memcpy(header, data + at % kDataBytes, 8);
  std::memcpy(address, data + (at + 8) % kDataBytes, 8);
}

void FaultRing::set_tail(std::uint64_t tail) noexcept {
  static_assert(kDataBytes % 8 == 0 && (kDataBytes & (kDataBytes - 1)) == 0);
  TMH_ASSERT(is_open() && tail >= tail_ && tail % 8 == 0);
  tail_ = tail;
  auto *page = reinterpret_cast<perf_event_mmap_page *>(base_);
  // release: our reads of the records come before the kernel may overwrite them
  std::atomic_ref(page->data_tail).store(tail, std::memory_order_release);
}

}  // namespace tmh::platform
