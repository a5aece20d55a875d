// levels/page/shared/shared_state.cpp -- what an accessor cannot say in one line.
#include "levels/page/shared/shared_state.h"

#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <set>

#include "levels/page/shared/lines.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/fence.h"
#include "platform/try.h"

namespace tmh::page {

using platform::fail;

std::string SharedState::meta_path(std::uint32_t segment) const {
  return path(storage::name_of(storage::SegmentFile::kPages, segment).c_str());
}

std::string SharedState::home_path(std::uint32_t segment) const {
  return path(storage::name_of(storage::SegmentFile::kHome, segment).c_str());
}

std::string SharedState::segment_path(const storage::SegmentRecordV1 &record) const {
  return record.name[0] == '/' ? std::string(record.name) : path(record.name);
}

// By any of its names: through links, too, the kernel knows one file.
std::uint32_t SharedState::file_of(std::uint32_t segment,
                                   const storage::SegmentRecordV1 &record) const noexcept {
  struct stat mine {};
  const bool exists = segment > 0 && stat(segment_path(record).c_str(), &mine) == 0;
  for (std::uint32_t i = 0; i < segment; ++i) {
    const storage::SegmentRecordV1 &other = control_->segments[i];
    if (!storage::is_used(other)) continue;
    if (std::strcmp(other.name, record.name) == 0) return i;
    struct stat theirs {};
    if (exists && stat(segment_path(other).c_str(), &theirs) == 0 &&
        platform::is_same_file(mine, theirs))
      return i;
  }
  return segment;
}

bool SharedState::holder_alive(void *context, platform::LockTag holder) noexcept {
  const auto *memory = static_cast<const SharedState *>(context);
  const std::uint32_t slot = platform::slot_of(holder);
  if (slot >= storage::kParticipantsMax) return false;
  return storage::is_alive_as(memory->participant(slot), [&](std::uint64_t incarnation) {
    return platform::lock_tag(slot, incarnation) == holder;
  });
}

std::uint64_t SharedState::versions_live() const noexcept {
  std::uint64_t live = 0;
  for (std::uint32_t i = 0; i < participants_high(); ++i)
    live += participants_[i].versions.live_count.load(std::memory_order_relaxed);
  return live;
}

bool SharedState::anyone_alive() const noexcept {
  for (std::uint32_t i = 0; i < participants_high(); ++i) {
    if (participants_[i].state.load(std::memory_order_acquire) != 0 && participants_[i].is_alive())
      return true;
  }
  return false;
}

std::string SharedState::who_has_it_open() const {
  std::string first;
  std::set<std::int32_t> processes;  // threads with views of their own have slots, too
  for (std::uint32_t i = 0; i < participants_high(); ++i) {
    const storage::Participant &record = participants_[i];
    if (record.state.load(std::memory_order_acquire) == 0 || !record.is_alive()) continue;
    if (processes.empty())
      first = ": process " + std::to_string(record.pid) + " (" +
              std::string(record.name, strnlen(record.name, sizeof record.name)) + ")";
    processes.insert(record.pid);
  }
  if (processes.empty()) return {};
  if (processes.size() == 1) return first + " has it open";
  return first + " and " + std::to_string(processes.size() - 1) + " more have it open";
}

Errc SharedState::reserve_links() const noexcept {
  for (Slot slot = 1; slot < state_->version_capacity.load(std::memory_order_relaxed); ++slot) {
    const PageId page{version(slot).page};
    if (!knows(page)) continue;
    if (const Errc error = reserve_meta(page); error != Errc::kOk)
      return fail(error, meta_path(storage::segment_number(page)));
  }
  return Errc::kOk;
}

void SharedState::read_home(PageId page, std::byte *to) const noexcept {
  if (is_home_loadable(*this, page))
    copy_lines_of_home(to, home(page), ~LineMask{0});
  else
    std::memset(to, 0, kPageBytes);
}

Errc SharedState::fail_behind_end(PageId page) const noexcept {
  const char *const name = control_->segments[storage::segment_number(page)].name;
  return fail(Errc::kNotMapped,
              std::string(name) + ": stored to byte " + std::to_string(storage::page_offset(page)) +
                  " or behind it, where its file goes on and the segment has ended");
}

void SharedState::tell_home_written(PageId page, LineMask lines) const noexcept {
  if (separate_homes_) return;
  const storage::SegmentRecordV1 &record = control_->segments[storage::segment_number(page)];
  const std::string file = segment_path(record);
  for (; lines != 0; lines &= lines - 1) {
    const auto in_page = static_cast<std::uint64_t>(std::countr_zero(lines)) * kLineBytes;
    platform::home_written(file, record.offset_bytes + storage::page_offset(page) + in_page,
                           home(page) + in_page, kLineBytes);
  }
}

}  // namespace tmh::page
