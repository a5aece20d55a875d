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

#include "hierarchy/domain/domain_parts.h"
#include "hierarchy/domain/line_mode.h"
#include "hierarchy/threads/threads.h"
#include "levels/page/page.h"

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

class Segments {
 public:
  // Of the domain; all outlive it.
  Segments(const DomainParts &parts, DomainThreads &threads, LineMode &line_mode) noexcept
      : parts_(parts), threads_(threads), line_mode_(line_mode) {}
  Segments(const Segments &) = delete;
  Segments &operator=(const Segments &) = delete;

  // The view alone: a heap is not prepared (heap_preparation.h). domain: the owner of this.
  [[nodiscard]] Errc map(const std::string &file, const SegmentOptions &options,
                         const std::weak_ptr<DomainImpl> &domain,
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
  [[nodiscard]] const MappedSegments &mapped() const noexcept { return places_; }
  // By this process, at some time.
  [[nodiscard]] bool was_mapped(std::uint32_t segment) const noexcept {
    return ever_mapped_.test(segment);
  }
  // The domain closes. forget_all() REQUIRES the lock.
  [[nodiscard]] std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
  void forget_all() noexcept;

 private:
  [[nodiscard]] Errc map_view(const platform::FolderLock::Held &lock, const std::string &name,
                              const SegmentOptions &options,
                              const std::weak_ptr<DomainImpl> &domain,
                              std::shared_ptr<SegmentImpl> &segment);
  [[nodiscard]] Errc add_lines(SegmentImpl &segment) noexcept;
  [[nodiscard]] Errc unmap(const std::string &name,
                           const std::function<bool(const SegmentImpl &)> &is_wanted) noexcept;

  const DomainParts &parts_;
  DomainThreads &threads_;
  LineMode &line_mode_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<SegmentImpl>> mapped_;
  // Of mapped_, for threads.
  MappedSegments places_;
  page::SegmentSet ever_mapped_;
};

}  // namespace tmh::detail
