// hierarchy/domain/segments.h -- the segments of one domain that this process has mapped.
// Sharing:   threads: map() and unmap() wait for the instances that run on the process's views,
//            unmap() also for those of other threads; everything else by any. `mutex_` comes
//            behind their locks, see domain_impl.h.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tmh/domain.hpp>

#include "levels/page/page.h"
#include "storage/heap/heap.h"

namespace tmh::detail {

class DomainImpl;

class SegmentImpl {
 public:
  std::weak_ptr<DomainImpl> domain;
  std::uint32_t number = 0;
  // Null: not mapped, or no more.
  std::atomic<std::byte *> base{nullptr};
  std::uint64_t max_bytes = 0;
  Layout layout = Layout::kHeap;
  bool relocatable = false;
  // A map() in a running instance was refused after it was mapped. Under the mutex of Segments.
  bool is_unprepared = false;
  // Level 1 knows it. Under the mutex of Segments.
  bool has_lines = false;
  std::string name;
};

// A segment as threads' views need to know it.
struct MappedSegment {
  std::uint32_t number = 0;
  std::byte *base = nullptr;
  std::uint64_t max_bytes = 0;
};

class Segments {
 public:
  explicit Segments(DomainImpl &domain) noexcept : domain_(domain) {}
  Segments(const Segments &) = delete;
  Segments &operator=(const Segments &) = delete;

  // The view alone: a heap is not prepared (heap_preparation.h).
  [[nodiscard]] Errc map(const std::string &file, const SegmentOptions &options,
                         std::shared_ptr<SegmentImpl> *out);
  // A map() in a running instance was refused behind this one: the next map() takes the view over.
  void keep_unprepared(SegmentImpl &segment) noexcept;
  // All parts of the file that are mapped.
  [[nodiscard]] Errc unmap(const std::string &file) noexcept;
  [[nodiscard]] Errc unmap(const SegmentImpl &wanted) noexcept;
  [[nodiscard]] Errc grow(std::uint32_t segment, std::uint64_t size_bytes) noexcept;
  // REQUIRES that the domain stays open: an instance, keep_open(), or the process's runner.
  [[nodiscard]] std::uint64_t size_of(std::uint32_t segment) const noexcept;
  [[nodiscard]] std::shared_ptr<SegmentImpl> at(const void *address) noexcept;
  [[nodiscard]] Errc heap_context(const SegmentImpl &segment, storage::HeapContext *out) noexcept;
  // Changes with what is mapped.
  [[nodiscard]] std::uint64_t epoch() const noexcept {
    return epoch_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::vector<MappedSegment> mapped() const;
  [[nodiscard]] bool are_mapped(const page::Engine::SegmentSet &wanted) const noexcept;
  // By this process, at some time.
  [[nodiscard]] bool was_mapped(std::uint32_t segment) const noexcept {
    return ever_mapped_.test(segment);
  }
  // The domain closes. forget_all() REQUIRES the lock.
  [[nodiscard]] std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
  void forget_all() noexcept;

 private:
  [[nodiscard]] Errc map_view(const platform::FolderLock::Held &lock, const std::string &name,
                              const SegmentOptions &options, std::shared_ptr<SegmentImpl> &segment);
  [[nodiscard]] Errc add_lines(SegmentImpl &segment) noexcept;
  [[nodiscard]] Errc unmap(const std::string &name,
                           const std::function<bool(const SegmentImpl &)> &is_wanted) noexcept;

  DomainImpl &domain_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<SegmentImpl>> mapped_;
  page::Engine::SegmentSet ever_mapped_;
  // Release after a change of mapped_.
  std::atomic<std::uint64_t> epoch_{0};
};

}  // namespace tmh::detail
