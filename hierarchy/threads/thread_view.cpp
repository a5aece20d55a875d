// hierarchy/threads/thread_view.cpp -- attaching one thread's views, following segments, accesses.
#include "hierarchy/threads/thread_view.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "levels/line/software.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

namespace {

ThreadView &view_of(LineAccess &access) noexcept { return static_cast<ThreadView &>(access); }

template <class Unsigned>
std::uint64_t load_as(std::uintptr_t at) noexcept {
  Unsigned value;
  std::memcpy(&value, reinterpret_cast<const void *>(at), sizeof value);
  return value;
}

std::uint64_t load_plain(std::uintptr_t at, std::uint32_t size) noexcept {
  switch (size) {
    case 1:
      return load_as<std::uint8_t>(at);
    case 2:
      return load_as<std::uint16_t>(at);
    case 4:
      return load_as<std::uint32_t>(at);
    default:
      TMH_ASSERT(size == 8);
      return load_as<std::uint64_t>(at);
  }
}

}  // namespace

// The long way of a load at either level, and of a store at level 2.
std::uint64_t line_load_long(LineAccess &access, const void *address, std::uint32_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (access.is_in_pages) return view_of(access).load_long(at, bytes);
  return static_cast<line::SoftwareThread &>(access).load_long(at, bytes);
}

void page_store_long(LineAccess &access, void *address, std::uint64_t value, std::uint32_t bytes) {
  TMH_ASSERT(access.is_in_pages);
  view_of(access).store_long(reinterpret_cast<std::uintptr_t>(address), value, bytes);
}

ThreadView *running_view() noexcept {
  return line_access != nullptr && line_access->is_in_pages ? &view_of(*line_access) : nullptr;
}

ThreadView::ThreadView(const ViewSource &source) noexcept : source_(source) {
  is_in_pages = true;
  runner_.view = this;
}

Errc ThreadView::attach() noexcept {
  TMH_ASSERT(!is_attached_ && engine_ == nullptr);
  TMH_ASSERT(source_.memory != nullptr && source_.segments != nullptr);
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(storage::lock_path(source_.memory->folder())));
  Errc error = open_files(folder_lock.held());
  if (error == Errc::kOk)
    error = memory_.attach_slot(folder_lock.held(), source_.memory->participant(source_.slot).name,
                                &runner_.slot);
  if (error == Errc::kOk) {
    observe::step(observe::Step::kAttachSlotTaken);
    try {
      error = start_engine();
    } catch (const std::bad_alloc &) {
      error = fail(Errc::kOutOfMemory, "a thread's views");
    }
    if (error != Errc::kOk) participant().state.store(0, std::memory_order_release);
  }
  is_attached_ = error == Errc::kOk;
  if (is_attached_) return Errc::kOk;
  const std::string why = platform::failure_detail();
  engine_.reset();
  memory_.close();
  return fail(error, why);
}

Errc ThreadView::open_files(const platform::FolderLock::Held &lock) noexcept {
  TMH_ASSERT(lock.is_valid());
  const page::SharedFiles &process = *source_.memory;
  TMH_TRY(process.in_place().check());
  bool fresh = false;
  TMH_TRY(memory_.open(lock, process.folder(), 0, 0, &fresh));
  const auto incarnation = [this](const page::SharedFiles &memory) {
    return memory.participant(source_.slot).incarnation.load(std::memory_order_relaxed);
  };
  if (fresh || incarnation(memory_) != incarnation(process))
    return fail(Errc::kCorrupt, process.folder() + " is not the folder that this process opened");
  if (!memory_.is_durable()) return Errc::kOk;
  bool usable = false;
  TMH_TRY(memory_.open_log_state(&usable));
  return usable ? Errc::kOk : fail(Errc::kCorrupt, process.folder() + "/tmh.log.state");
}

// REQUIRES the slot.
Errc ThreadView::start_engine() {
  TMH_ASSERT(runner_.slot < storage::kParticipantsMax);
  TMH_ASSERT(engine_ == nullptr);
  engine_ = std::make_unique<page::Engine>(memory_, runner_.slot, source_.detection);
  runner_.engine = engine_.get();
  const std::uint64_t incarnation = participant().incarnation.load(std::memory_order_relaxed);
  if (memory_.is_durable()) {
    const platform::LockTag tag = platform::lock_tag(runner_.slot, incarnation);
    log_ = std::make_unique<page::DurableLog>(memory_, runner_.slot, tag, source_.group_commit);
    runner_.log = log_.get();
    log_->writer().time_writes(source_.log_times);
    if (source_.gatherer != nullptr) log_->use_gatherer(source_.gatherer);
    engine_->use_log(log_.get(), source_.reads_durable_only);
  }
  if (source_.lines != nullptr) {
    directory_ = std::make_unique<hierarchy::Directory>(memory_, *source_.lines, runner_.slot);
    TMH_TRY(directory_->open(memory_.folder()));
    engine_->use_recaller(directory_.get());
  }
  TMH_TRY(engine_->start(source_.tracking, false));
  return source_.records_skew ? engine_->record_skew(runner_.slot) : Errc::kOk;
}

void ThreadView::detach() noexcept {
  if (!is_attached_) return;
  is_attached_ = false;
  TMH_ASSERT(engine_ != nullptr && runner_.engine == engine_.get());
  engine_->detach();
  engine_.reset();
  runner_.engine = nullptr;
  runner_.log = nullptr;
  log_.reset();
  directory_.reset();
  memory_.close();
}

Errc ThreadView::follow_segments() {
  if (!is_attached_) return fail(Errc::kNotInitialized, "the domain is closed");
  const std::uint64_t epoch = source_.segments->epoch();
  if (epoch == segments_epoch_) return Errc::kOk;
  const std::vector<MappedSegment> mapped = source_.segments->all();
  places_.reserve(places_.size() + mapped.size());  // what can throw, first
  platform::FolderLock folder_lock;                 // directory files are made under it
  TMH_TRY(folder_lock.acquire(storage::lock_path(source_.memory->folder())));
  TMH_TRY(memory_.open_segments());
  for (const MappedSegment &segment : mapped) {
    if (std::any_of(places_.begin(), places_.end(),
                    [&](const Place &p) { return p.segment == segment.number; }))
      continue;
    if (directory_ != nullptr) TMH_TRY(directory_->open_segment(segment.number, segment.max_bytes));
    std::byte *base = nullptr;
    TMH_TRY(engine_->map(segment.number, page::Engine::Placement::kAnywhere, &base));
    TMH_ASSERT(base != nullptr && places_.size() < places_.capacity());
    places_.push_back({segment.number, reinterpret_cast<std::uintptr_t>(segment.base),
                       reinterpret_cast<std::uintptr_t>(base), segment.max_bytes});
  }
  segments_epoch_ = epoch;
  return Errc::kOk;
}

void ThreadView::unmap(std::uint32_t segment) noexcept {
  if (is_attached_) (void)engine_->unmap(segment);
  std::erase_if(places_, [segment](const Place &place) { return place.segment == segment; });
  page_bytes = 0;
}

void ThreadView::enter() noexcept {
  TMH_ASSERT(is_attached_);
  is_doomed_ = false;
  line_access = this;
}

void ThreadView::need_process_view() {
  TMH_ASSERT(is_attached_ && running_view() == this);
  is_doomed_ = true;
  page_bytes = 0;
  throw LineAbort{};
}

// Where the access goes. What lies in no segment of the domain is plain memory.
std::uintptr_t ThreadView::find_place(std::uintptr_t address) {
  if (is_doomed_) throw LineAbort{};
  for (const Place &place : places_) {
    if (address - place.common >= place.bytes) continue;
    view = place.common;
    page_bytes = place.bytes;
    home_minus_view = place.own - place.common;
    return address + home_minus_view;
  }
  const bool may_be_new = source_.segments->epoch() != segments_epoch_;
  if (may_be_new && source_.segments->holds(address)) need_process_view();
  return address;
}

std::uint64_t ThreadView::load_long(std::uintptr_t address, std::uint32_t size) {
  return load_plain(find_place(address), size);
}

void ThreadView::store_long(std::uintptr_t address, std::uint64_t value, std::uint32_t size) {
  TMH_ASSERT(size <= sizeof value);
  // little-endian: the low bytes
  std::memcpy(reinterpret_cast<void *>(find_place(address)), &value, size);
}

std::uintptr_t ThreadView::own_address(std::uintptr_t common) const noexcept {
  for (const Place &place : places_)
    if (common - place.common < place.bytes) return common - place.common + place.own;
  return common;
}

std::uintptr_t ThreadView::common_address(std::uintptr_t own) const noexcept {
  for (const Place &place : places_)
    if (own - place.own < place.bytes) return own - place.own + place.common;
  return own;
}

}  // namespace tmh::detail
