// hierarchy/domain/segments.cpp -- mapping, unmapping, growing and finding segments.
#include "hierarchy/domain/segments.h"

#include <filesystem>
#include <utility>

#include "hierarchy/domain/segment_records.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

Errc Segments::map(const std::string &file, const SegmentOptions &options,
                   const std::weak_ptr<DomainImpl> &domain, std::shared_ptr<SegmentImpl> *out) {
  TMH_ASSERT(out != nullptr);
  TMH_TRY(threads_.open.usable());
  TMH_TRY(check_options(file, options));
  const std::string name = std::filesystem::path(file).lexically_normal().string();
  if (name.size() > storage::kSegmentNameBytesMax)
    return fail(Errc::kBadArgument, "a segment's name has at most 175 bytes");
  auto segment = std::make_shared<SegmentImpl>();
  {
    std::unique_lock<std::mutex> instance_guard(threads_.runners.process().mutex, std::defer_lock);
    if (!threads_.runners.runs_here()) instance_guard.lock();
    TMH_TRY(threads_.open.usable());  // closed while we waited
    TMH_TRY(line_mode_.leave());
    platform::FolderLock folder_lock;
    TMH_TRY(folder_lock.acquire(storage::lock_path(parts_.memory->folder())));
    TMH_TRY(parts_.memory->in_place().check());
    TMH_TRY(SegmentRecords(*parts_.memory).check_not_own(folder_lock.held(), name));
    TMH_TRY(map_view(folder_lock.held(), name, options, domain, segment));
  }
  *out = std::move(segment);
  return Errc::kOk;
}

// REQUIRES the mutex of the process's runner (or a running instance of this thread).
Errc Segments::map_view(const platform::FolderLock::Held &lock, const std::string &name,
                        const SegmentOptions &options, const std::weak_ptr<DomainImpl> &domain,
                        std::shared_ptr<SegmentImpl> &segment) {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(segment != nullptr && segment->base == nullptr);
  const std::scoped_lock guard(mutex_);
  std::shared_ptr<SegmentImpl> unprepared;
  for (const auto &mapped : mapped_) {
    if (mapped->name != name ||
        parts_.memory->control().segments[mapped->number].offset_bytes != options.offset_bytes)
      continue;
    if (!mapped->is_unprepared)
      return fail(Errc::kSegmentInUse, name + " is mapped in this process already");
    unprepared = mapped;
  }
  SegmentRecords records(*parts_.memory);
  TMH_TRY(records.find_or_add(lock, name, options, threads_.runners.runs_here(), &segment->number));
  TMH_TRY(parts_.memory->open_segments());
  if (options.size_bytes > size_of(segment->number)) {
    TMH_TRY(records.extend(lock, segment->number, options.size_bytes));
  }
  if (unprepared != nullptr) {
    TMH_TRY(add_lines(*unprepared));
    unprepared->is_unprepared = false;
    segment = std::move(unprepared);
    return Errc::kOk;
  }
  segment->name = name;
  // behind the mapping nothing may throw
  mapped_.reserve(mapped_.size() + 1);
  places_.reserve();
  std::byte *base = nullptr;
  if (const Errc error =
          parts_.engine->map(segment->number, page::Engine::Placement::kCommon, &base);
      error != Errc::kOk)
    return error == Errc::kAddressInUse
               ? no_room_for(parts_.memory->control().segments[segment->number])
               : error;
  segment->domain = domain;
  TMH_ASSERT(base != nullptr);
  segment->max_bytes = parts_.memory->control().segments[segment->number].max_bytes;
  segment->layout = options.layout;
  segment->relocatable = options.relocatable;
  segment->base = base;
  const Errc error = add_lines(*segment);
  if (error != Errc::kOk && parts_.engine->unmap(segment->number) == Errc::kOk) return error;
  // an instance runs, and keeps its view: the next map() takes it over
  segment->is_unprepared = error != Errc::kOk;
  mapped_.push_back(segment);
  ever_mapped_.set(segment->number);
  places_.add({segment->number, segment->base, segment->max_bytes});
  parts_.wake_sleepers();
  return error;
}

// What level 1 needs of a segment whose view is mapped.
Errc Segments::add_lines(SegmentImpl &segment) noexcept {
  if (parts_.lines == nullptr || segment.has_lines) return Errc::kOk;
  TMH_ASSERT(segment.base != nullptr);
  const Errc error = parts_.lines->add_segment(segment.number, segment.base, segment.max_bytes);
  segment.has_lines = error == Errc::kOk;
  return error;
}

void Segments::keep_unprepared(SegmentImpl &segment) noexcept {
  const std::scoped_lock guard(mutex_);
  segment.is_unprepared = true;
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
  TMH_ASSERT(is_wanted != nullptr);
  TMH_TRY(threads_.open.usable());
  if (threads_.run_at_any_level(Need::kUnmap))
    return fail(Errc::kInstanceRunning, "unmap inside an instance");
  const LineUsers::Barred nobody_at_lines(threads_.line_users);
  const std::scoped_lock process(threads_.runners.process().mutex);
  const ThreadViews::Stopped stopped(threads_.runners.views());
  const std::scoped_lock guard(mutex_);
  TMH_TRY(threads_.open.usable());
  TMH_TRY(line_mode_.leave());
  bool found = false;
  for (auto it = mapped_.begin(); it != mapped_.end();) {
    if (!is_wanted(**it)) {
      ++it;
      continue;
    }
    if (const Errc error = parts_.engine->unmap((*it)->number); error != Errc::kOk)
      return fail(error, name);
    threads_.runners.views().unmap((*it)->number);
    if (parts_.lines != nullptr) parts_.lines->remove_segment((*it)->number);
    (*it)->base = nullptr;
    places_.remove((*it)->number);
    it = mapped_.erase(it);
    found = true;
  }
  parts_.wake_sleepers();
  return found ? Errc::kOk : fail(Errc::kNotMapped, name + " is not mapped in this process");
}

Errc Segments::grow(std::uint32_t segment, std::uint64_t size_bytes) noexcept {
  TMH_ASSERT(segment < storage::kSegmentsMax);
  // before the lock: a child may have inherited it
  TMH_TRY(threads_.open.usable());
  const auto open = threads_.open.keep_open();
  TMH_TRY(threads_.open.usable());
  const storage::SegmentRecordV1 &record = parts_.memory->control().segments[segment];
  if (!is_page_aligned(size_bytes))
    return fail(Errc::kMisalignedLength, std::string(record.name) + ": size is a multiple of 4096");
  if (size_bytes > record.max_bytes)
    return fail(Errc::kSegmentFull, std::string(record.name) + ": beyond its maximum size");
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(storage::lock_path(parts_.memory->folder())));
  TMH_TRY(parts_.memory->in_place().check());
  return size_bytes <= size_of(segment)
             ? Errc::kOk
             : SegmentRecords(*parts_.memory).extend(folder_lock.held(), segment, size_bytes);
}

std::uint64_t Segments::size_of(std::uint32_t segment) const noexcept {
  TMH_ASSERT(segment < storage::kSegmentsMax);
  return SegmentRecords(*parts_.memory).size_of(segment);
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

void Segments::forget_all() noexcept {
  for (const auto &segment : mapped_) segment->base = nullptr;
  mapped_.clear();
  places_.forget_all();
}

}  // namespace tmh::detail
