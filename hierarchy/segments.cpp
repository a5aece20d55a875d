// hierarchy/segments.cpp -- mapping, unmapping, growing and finding segments.
#include "hierarchy/segments.h"

#include <filesystem>
#include <utility>

#include "hierarchy/domain_impl.h"
#include "hierarchy/heap_file.h"
#include "hierarchy/leave_level.h"
#include "hierarchy/segment_records.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

Errc Segments::map(const std::string &file, const SegmentOptions &options,
                   std::shared_ptr<SegmentImpl> *out) {
  TMH_TRY(domain_.usable());
  TMH_TRY(check_options(file, options));
  const std::string name = std::filesystem::path(file).lexically_normal().string();
  if (name.size() > storage::kSegmentNameBytesMax)
    return fail(Errc::kBadArgument, "a segment's name has at most 175 bytes");
  auto segment = std::make_shared<SegmentImpl>();
  {
    std::unique_lock<std::mutex> instance_guard(domain_.instances().process().mutex,
                                                std::defer_lock);
    if (!domain_.instances().runs_here()) instance_guard.lock();
    TMH_TRY(domain_.usable());  // closed while we waited
    TMH_TRY(domain_.line_mode().leave());
    platform::FolderLock folder_lock;
    TMH_TRY(folder_lock.acquire(domain_.lock_path()));
    TMH_TRY(domain_.memory().check_in_place());
    TMH_TRY(SegmentRecords(domain_.memory()).check_not_own(name));
    TMH_TRY(map_view(name, options, segment));
  }
  // Without the folder lock: this begins an instance, and a thread that runs one may be waiting for
  // the folder to grow a segment.
  if (options.layout == Layout::kHeap) {
    if (const Errc error = prepare_heap(*segment); error != Errc::kOk) {
      const std::string detail = platform::failure_detail();
      // it stays mapped as long as the instance runs; the next map() takes it over
      if (domain_.instances().runs_here()) {
        const std::scoped_lock guard(mutex_);
        segment->is_unprepared = true;
      } else {
        (void)unmap(*segment);
      }
      return fail(error, detail);
    }
  }
  *out = std::move(segment);
  return Errc::kOk;
}

// REQUIRES the folder lock and the mutex of the process's runner (or a running instance of this
// thread).
Errc Segments::map_view(const std::string &name, const SegmentOptions &options,
                        std::shared_ptr<SegmentImpl> &segment) {
  const std::scoped_lock guard(mutex_);
  std::shared_ptr<SegmentImpl> unprepared;
  for (const auto &mapped : mapped_) {
    if (mapped->name != name ||
        domain_.memory().control().segments[mapped->number].offset_bytes != options.offset_bytes)
      continue;
    if (!mapped->is_unprepared)
      return fail(Errc::kSegmentInUse, name + " is mapped in this process already");
    unprepared = mapped;
  }
  SegmentRecords records(domain_.memory());
  TMH_TRY(records.find_or_add(name, options, domain_.instances().runs_here(), &segment->number));
  TMH_TRY(domain_.memory().open_segments());
  if (options.size_bytes > size_of(segment->number)) {
    TMH_TRY(records.extend(segment->number, options.size_bytes));
  }
  if (unprepared != nullptr) {
    TMH_TRY(add_lines(*unprepared));
    unprepared->is_unprepared = false;
    segment = std::move(unprepared);
    return Errc::kOk;
  }
  segment->name = name;
  mapped_.reserve(mapped_.size() + 1);  // behind the mapping nothing may throw
  std::byte *base = nullptr;
  if (const Errc error =
          domain_.engine().map(segment->number, page::Engine::Placement::kCommon, &base);
      error != Errc::kOk)
    return error == Errc::kAddressInUse
               ? no_room_for(domain_.memory().control().segments[segment->number])
               : error;
  segment->domain = domain_.weak_from_this();
  segment->max_bytes = domain_.memory().control().segments[segment->number].max_bytes;
  segment->layout = options.layout;
  segment->relocatable = options.relocatable;
  segment->base = base;
  const Errc error = add_lines(*segment);
  if (error != Errc::kOk && domain_.engine().unmap(segment->number) == Errc::kOk) return error;
  // an instance runs, and keeps its view: the next map() takes it over
  segment->is_unprepared = error != Errc::kOk;
  mapped_.push_back(segment);
  ever_mapped_.set(segment->number);
  epoch_.fetch_add(1, std::memory_order_release);
  domain_.wake_sleepers();
  return error;
}

// What level 1 needs of a segment whose view is mapped.
Errc Segments::add_lines(SegmentImpl &segment) noexcept {
  if (domain_.lines() == nullptr || segment.has_lines) return Errc::kOk;
  const Errc error = domain_.lines()->add_segment(segment.number, segment.base, segment.max_bytes);
  segment.has_lines = error == Errc::kOk;
  return error;
}

// Checks the heap's header; formats one in a file that holds zeros, in a transaction of its own, so
// that death in the middle leaves zeros. Two processes may try at once: one commits, the other
// finds it formatted.
Errc Segments::prepare_heap(SegmentImpl &segment) noexcept {
  const bool in_query = domain_.instances().runs_here() && current().pages.runner->nest.front();
  for (;;) {
    TMH_TRY(domain_.instances().begin(in_query));
    const std::uint64_t size = size_of(segment.number);
    const bool nested = domain_.instances().depth() > 1;
    Errc result = Errc::kNotAHeap;
    if (size < kHeapBytesMin)
      result = Errc::kBadArgument;
    else if (storage::heap_is_formatted(segment.base))
      result = storage::heap_verify(segment.base, size);
    else if (nested)
      result = Errc::kInstanceRunning;  // the outer instance could roll the format back
    else if (all_zero(segment.base, kPageBytes))
      result = storage::heap_format(segment.base, size);
    // Plain pointers inside mean this address: a heap file that was copied from elsewhere is
    // refused before they are followed. A query only compares: what is not bound yet the next map()
    // binds.
    if (result == Errc::kOk && !segment.relocatable &&
        !(in_query && !storage::heap_is_bound(segment.base)))
      result = storage::heap_bind_address(segment.base,
                                          reinterpret_cast<std::uint64_t>(segment.base.load()));
    if (result != Errc::kOk && !nested) (void)domain_.instances().abort();
    Status status = Status::kPending;
    if (result == Errc::kOk || nested) {
      TMH_TRY(domain_.instances().end(in_query, &status));
    }
    if (result != Errc::kOk) return fail(result, segment.name + ": heap header");
    if (status != Status::kAborted) return Errc::kOk;
    domain_.instances().backoff();
  }
}

Errc Segments::unmap(const std::string &file) noexcept {
  const std::string name = std::filesystem::path(file).lexically_normal().string();
  return unmap(name, [&name](const SegmentImpl &segment) { return segment.name == name; });
}

Errc Segments::unmap(const SegmentImpl &wanted) noexcept {
  return unmap(wanted.name, [&wanted](const SegmentImpl &segment) { return &segment == &wanted; });
}

Errc Segments::unmap(const std::string &name,
                     const std::function<bool(const SegmentImpl &)> &is_wanted) noexcept {
  TMH_TRY(domain_.usable());
  if (domain_.runs_at_any_level()) return fail(Errc::kInstanceRunning, "unmap inside an instance");
  const LineUsers::Barred nobody_at_lines(domain_.line_users());
  const std::scoped_lock process(domain_.instances().process().mutex);
  const ThreadViews::Stopped stopped(domain_.instances().views());
  const std::scoped_lock guard(mutex_);
  TMH_TRY(domain_.usable());
  TMH_TRY(domain_.line_mode().leave());
  bool found = false;
  for (auto it = mapped_.begin(); it != mapped_.end();) {
    if (!is_wanted(**it)) {
      ++it;
      continue;
    }
    if (const Errc error = domain_.engine().unmap((*it)->number); error != Errc::kOk)
      return fail(error, name);
    domain_.instances().views().unmap((*it)->number);
    if (domain_.lines() != nullptr) domain_.lines()->remove_segment((*it)->number);
    (*it)->base = nullptr;
    it = mapped_.erase(it);
    epoch_.fetch_add(1, std::memory_order_release);
    found = true;
  }
  domain_.wake_sleepers();
  return found ? Errc::kOk : fail(Errc::kNotMapped, name + " is not mapped in this process");
}

Errc Segments::grow(std::uint32_t segment, std::uint64_t size_bytes) noexcept {
  // before the lock: a child may have inherited it
  TMH_TRY(domain_.usable());
  const auto open = domain_.keep_open();
  TMH_TRY(domain_.usable());
  const storage::SegmentRecordV1 &record = domain_.memory().control().segments[segment];
  if (!is_page_aligned(size_bytes))
    return fail(Errc::kMisalignedLength, std::string(record.name) + ": size is a multiple of 4096");
  if (size_bytes > record.max_bytes)
    return fail(Errc::kSegmentFull, std::string(record.name) + ": beyond its maximum size");
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(domain_.lock_path()));
  TMH_TRY(domain_.memory().check_in_place());
  return size_bytes <= size_of(segment)
             ? Errc::kOk
             : SegmentRecords(domain_.memory()).extend(segment, size_bytes);
}

std::uint64_t Segments::size_of(std::uint32_t segment) const noexcept {
  return SegmentRecords(domain_.memory()).size_of(segment);
}

std::vector<MappedSegment> Segments::mapped() const {
  const std::scoped_lock guard(mutex_);
  std::vector<MappedSegment> all;
  for (const auto &segment : mapped_)
    all.push_back({segment->number, segment->base, segment->max_bytes});
  return all;
}

bool Segments::are_mapped(const page::Engine::SegmentSet &wanted) const noexcept {
  page::Engine::SegmentSet mapped;
  const std::scoped_lock guard(mutex_);
  for (const auto &segment : mapped_) mapped.set(segment->number);
  return (wanted & ~mapped).none();
}

std::shared_ptr<SegmentImpl> Segments::at(const void *address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::scoped_lock guard(mutex_);
  for (const auto &segment : mapped_) {
    if (at - reinterpret_cast<std::uintptr_t>(segment->base.load()) < segment->max_bytes)
      return segment;
  }
  return nullptr;
}

Errc Segments::heap_context(const SegmentImpl &segment, storage::HeapContext *out) noexcept {
  TMH_TRY(domain_.usable());
  if (!domain_.instances().runs_here() && !runs_in_hardware(domain_.lines()))
    return fail(Errc::kEndWithoutBegin, "allocating or freeing outside an instance");
  if (segment.layout != Layout::kHeap)
    return fail(Errc::kNotAHeap, segment.name + " is a raw segment");
  const auto grow_segment = [](void *context, std::uint64_t size_bytes, Errc *why) noexcept {
    leave_hardware();
    const auto *growing = static_cast<const SegmentImpl *>(context);
    const auto owner = growing->domain.lock();
    *why = owner == nullptr ? Errc::kNotInitialized
                            : owner->segments().grow(growing->number, size_bytes);
    return *why == Errc::kOk;
  };
  *out = storage::HeapContext{segment.base,      size_of(segment.number),
                              segment.max_bytes, domain_.slot(),
                              grow_segment,      const_cast<SegmentImpl *>(&segment)};
  return Errc::kOk;
}

void Segments::forget_all() noexcept {
  for (const auto &segment : mapped_) segment->base = nullptr;
  mapped_.clear();
}

}  // namespace tmh::detail
