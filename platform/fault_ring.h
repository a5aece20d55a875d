// platform/fault_ring.h -- addresses of this thread's page faults, listed by the kernel in a ring
// that user code reads.
// Shape:     perf software event "page-faults", period 1, PERF_SAMPLE_ADDR: one 16-byte record per
//            fault.
// Invariant: drain() reports every fault of the thread since the last drain(), or says that it
//            cannot.
// Sharing:   one ring per thread; faults of other threads are not in it.
// Contexts:  drain() makes no system call.
// Source:    perf_event_open(2); docs/mechanisms.md, "Ways to find first touches". Kernel-mode
//            faults (read(2) into a view) must be included, so exclude_kernel is not set, which
//            needs perf_event_paranoid <= 1 or CAP_PERFMON.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "platform/process.h"

namespace tmh::platform {

class FaultRing {
 public:
  FaultRing() = default;
  FaultRing(const FaultRing &) = delete;
  FaultRing &operator=(const FaultRing &) = delete;
  ~FaultRing() { close(); }

  // For the calling thread. kTrackingUnavailable with errno's reason in the detail.
  [[nodiscard]] Errc open() noexcept;
  void close() noexcept;
  // False in a child after fork: the ring's mapping stays with the parent.
  [[nodiscard]] bool is_open() const noexcept {
    return base_ != nullptr && opened_in_ == fork_generation();
  }

  [[nodiscard]] bool empty() const noexcept {
    // Relaxed: same thread; the kernel writes at our own faults.
    return head_word().load(std::memory_order_relaxed) == tail_;
  }
  // Calls visit(address) per fault. False: records may have been lost; look at the page tables
  // instead.
  template <class Visit>
  [[nodiscard]] bool drain(Visit &&visit) {
    // Pairs with the kernel's barrier before data_head.
    const std::uint64_t head = head_word().load(std::memory_order_acquire);
    // The kernel drops a record that does not fit. Less room than two records means that one may
    // have been dropped.
    const bool complete = head - tail_ <= kDataBytes - kSlackBytes;
    for (std::uint64_t at = tail_; at < head;) {
      std::uint64_t header, address;
      copy_record(at, &header, &address);
      const auto type = static_cast<std::uint32_t>(header);
      const auto record_bytes = static_cast<std::uint16_t>(header >> 48);
      if (record_bytes == 0) break;
      if (type == kSampleType) {
        if (complete) visit(static_cast<std::uintptr_t>(address));
      } else if (type == kLostType) {
        lost_ = true;
      }
      at += record_bytes;
    }
    set_tail(head);
    const bool ok = complete && !lost_;
    lost_ = false;
    return ok;
  }

 private:
  // perf_event_mlock_kb's default permits 128 pages and a header.
  static constexpr std::uint64_t kDataBytes = 128 * 4096;
  static constexpr std::uint64_t kSlackBytes = 64;
  static constexpr std::uint32_t kSampleType = 9;  // PERF_RECORD_SAMPLE
  static constexpr std::uint32_t kLostType = 2;    // PERF_RECORD_LOST
  static_assert(kSlackBytes < kDataBytes);

  [[nodiscard]] std::atomic_ref<unsigned long long> head_word() const noexcept;
  void copy_record(std::uint64_t at, std::uint64_t *header, std::uint64_t *address) const noexcept;
  void set_tail(std::uint64_t tail) noexcept;

  std::byte *base_ = nullptr;
  std::uint64_t tail_ = 0;
  int fd_ = -1;
  std::uint32_t opened_in_ = 0;  // fork generation
  bool lost_ = false;
};

}  // namespace tmh::platform
