// tools/shared_lines.cpp -- see shared_lines.h.
#include "tools/shared_lines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "hierarchy/exchange/exchange.h"
#include "levels/line/layout.h"
#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/process.h"
#include "tools/failure.h"
#include "tools/shared_file.h"

namespace tmh::tools {

using hierarchy::DirectoryRecord;
using hierarchy::HardwareCount;
using line::LineContextV1;
using line::LineStateV1;
using page::PageMeta;

namespace {

using LineCounts = std::array<std::uint64_t, line::kLineCountsMax>;
constexpr std::size_t kContextHeadBytes = offsetof(LineContextV1, writes);
static_assert(sizeof(LineCounts) == sizeof(LineContextV1::counts) &&
              sizeof(LineCounts) == sizeof(LineContextV1::counts_before));
static_assert(offsetof(LineContextV1, owner) < kContextHeadBytes &&
                  offsetof(LineContextV1, counts) < kContextHeadBytes &&
                  offsetof(LineContextV1, counts_before) < kContextHeadBytes,
              "no more than the head is read");

void add_hardware(const std::vector<std::byte> &state, Counters *to) {
  TMH_ASSERT(state.size() >= sizeof(LineStateV1) && to != nullptr);
  const auto count = [&state](HardwareCount which) {
    return field<std::uint64_t>(
        state.data(), offsetof(LineStateV1, hardware_counts) + 8 * static_cast<std::size_t>(which));
  };
  to->hardware_conflicts = count(HardwareCount::kAbortsConflict);
  to->hardware_capacity = count(HardwareCount::kAbortsCapacity);
  to->hardware_zero = count(HardwareCount::kAbortsZero);
  to->hardware_explicit = count(HardwareCount::kAbortsExplicit);
  to->hardware_other = count(HardwareCount::kAbortsOther);
  to->mode_switches = count(HardwareCount::kModeSwitches);
}

void add_context(const std::byte *context, const std::vector<std::uint64_t> &incarnations,
                 SharedCounters *out) {
  TMH_ASSERT(out != nullptr);
  const auto owner = field<line::Owner>(context, offsetof(LineContextV1, owner));
  const std::uint32_t slot = line::slot_of(owner);
  const bool is_owned = slot < incarnations.size() && incarnations[slot] != 0 &&
                        (incarnations[slot] & (~0ull >> 17)) == line::incarnation_of(owner);
  const auto at = std::find_if(out->participants.begin(), out->participants.end(),
                               [slot](const ParticipantCounters &one) { return one.slot == slot; });
  Counters *const of_owner = is_owned && at != out->participants.end() ? &at->counters : nullptr;
  const auto counts = field<LineCounts>(context, offsetof(LineContextV1, counts));
  line::add_line_counts(
      [&](line::LineCount which) { return counts[static_cast<std::size_t>(which)]; }, &out->total);
  if (of_owner == nullptr) return;
  const auto before = field<LineCounts>(context, offsetof(LineContextV1, counts_before));
  const auto own = [&](line::LineCount which) {
    return counts[static_cast<std::size_t>(which)] - before[static_cast<std::size_t>(which)];
  };
  line::add_line_counts(own, of_owner);
}

// Records of `record_bytes` each, of `count` pages from `first` on; what the file does not have is
// zero, as in a hole.
std::vector<std::byte> records_of(const platform::FileDescriptor &file, const std::string &path,
                                  std::size_t record_bytes, std::uint64_t first,
                                  std::uint64_t count) {
  std::vector<std::byte> bytes;
  if (file) bytes = read_at(file, path, first * record_bytes, count * record_bytes);
  bytes.resize(count * record_bytes);
  return bytes;
}

class Looker {
 public:
  Looker(const std::string &folder, std::uint32_t segment, const std::vector<std::uint8_t> &running)
      : directory_path_(folder + "/tmh.directory." + std::to_string(segment)),
        meta_path_(folder + "/tmh.pages." + std::to_string(segment)),
        directory_(open_shared(directory_path_)),
        meta_(open_shared(meta_path_)) {
    for (std::size_t slot = 0; slot < running.size(); ++slot) {
      if (running[slot] != 0) users_ |= std::uint64_t{1} << (slot % 64);
      if (running[slot] == 2) updates_ |= std::uint64_t{1} << (slot % 64);
    }
  }

  // Pages [first, first + count): counts them, and returns the foremost.
  PageSight look(std::uint64_t first, std::uint64_t count, SegmentSight *into) {
    TMH_ASSERT(count > 0 && into != nullptr);
    const auto records =
        records_of(directory_, directory_path_, sizeof(DirectoryRecord), first, count);
    const auto metas = records_of(meta_, meta_path_, sizeof(PageMeta), first, count);
    PageSight foremost = PageSight::kUntouched;
    for (std::uint64_t i = 0; i < count; ++i) {
      const PageSight sight = sight_of(records.data() + i * sizeof(DirectoryRecord),
                                       metas.data() + i * sizeof(PageMeta));
      ++into->pages_in[static_cast<std::size_t>(sight)];
      foremost = std::max(foremost, sight);
    }
    into->looked_at += count;
    return foremost;
  }

 private:
  [[nodiscard]] PageSight sight_of(const std::byte *record, const std::byte *meta) const {
    if (directory_) {
      const auto level = field<hierarchy::PageLevel>(record, offsetof(DirectoryRecord, level));
      if (level == hierarchy::PageLevel::kHardware) return PageSight::kHardware;
      if (level != hierarchy::PageLevel::kPages) return PageSight::kLines;
      const auto residents = field<std::uint64_t>(record, offsetof(DirectoryRecord, residents));
      if ((residents & updates_) != 0) return PageSight::kWritten;
      if ((residents & users_) != 0) return PageSight::kRead;
    }
    if (field<page::Slot>(meta, offsetof(PageMeta, newest)) != 0) return PageSight::kVersioned;
    const bool is_new = !directory_ && field<std::uint64_t>(meta, offsetof(PageMeta, stamp)) == 0;
    return is_new ? PageSight::kUntouched : PageSight::kIdle;
  }

  const std::string directory_path_, meta_path_;
  const platform::FileDescriptor directory_, meta_;
  std::uint64_t users_ = 0, updates_ = 0;  // by slot modulo 64, as residents are
};

SegmentSight look_at(const std::string &folder, std::uint32_t number,
                     const storage::SegmentRecordV1 &record,
                     const std::vector<std::uint8_t> &running, std::uint32_t cells) {
  // Of a cell at most so many: 5 MiB of records for 80 cells would be read otherwise, for each GiB.
  constexpr std::uint64_t kLookedAtMax = 256;
  SegmentSight sight;
  TMH_ASSERT(storage::is_used(record));
  sight.number = number;
  sight.name.assign(record.name, std::find(std::begin(record.name), std::end(record.name), '\0'));
  sight.pages = record.size_bytes / kPageBytes;
  Looker looker(folder, number, running);
  const std::uint64_t count =
      std::min<std::uint64_t>(sight.pages, std::max<std::uint32_t>(1, cells));
  for (std::uint64_t cell = 0; cell < count; ++cell) {
    const std::uint64_t first = sight.pages / count * cell + std::min(cell, sight.pages % count);
    const std::uint64_t pages = sight.pages / count + (cell < sight.pages % count ? 1 : 0);
    sight.map += letter_of(looker.look(first, std::min(pages, kLookedAtMax), &sight));
  }
  return sight;
}

}  // namespace

char letter_of(PageSight sight) noexcept {
  TMH_ASSERT(static_cast<std::size_t>(sight) < kPageSights);
  constexpr char kLetters[kPageSights + 1] = ".LNvHRW";
  return kLetters[static_cast<std::size_t>(sight)];
}

void read_line_counters(const std::string &folder, const std::vector<std::uint64_t> &incarnations,
                        SharedCounters *out) {
  const std::string path = folder + "/tmh.line.state", contexts_path = folder + "/tmh.contexts";
  const std::vector<std::byte> state = read_some(path, sizeof(LineStateV1));
  if (state.size() < sizeof(LineStateV1)) return;
  const platform::BootId boot = platform::this_boot();
  if (field<std::uint64_t>(state.data(), offsetof(LineStateV1, magic)) != line::kLineStateMagic ||
      std::memcmp(state.data() + offsetof(LineStateV1, boot_id), boot.text, sizeof boot.text) != 0)
    return;  // as of tmh.state
  if (field<std::uint32_t>(state.data(), offsetof(LineStateV1, version)) !=
          line::kLineStateVersion ||
      field<std::uint32_t>(state.data(), offsetof(LineStateV1, state_bytes)) != sizeof(LineStateV1))
    refuse(Errc::kForeignVersion,
           path + " is of another version that is, or was, in use since this boot");
  add_hardware(state, &out->total);
  const std::uint64_t high = std::min<std::uint64_t>(
      line::kContextsMax, field<std::uint64_t>(state.data(), offsetof(LineStateV1, contexts_high)));
  const platform::FileDescriptor contexts = open_shared(contexts_path);
  for (std::uint64_t i = 0; contexts && i < high; ++i) {
    const std::vector<std::byte> head =
        read_at(contexts, contexts_path, i * sizeof(LineContextV1), kContextHeadBytes);
    if (head.size() < kContextHeadBytes) break;  // cut short
    add_context(head.data(), incarnations, out);
  }
}

std::vector<SegmentSight> read_pages(const std::string &folder, const storage::ControlFile &control,
                                     const std::vector<std::uint8_t> &running,
                                     std::uint32_t cells) {
  std::vector<SegmentSight> all;
  for (std::uint32_t number = 0; number < storage::kSegmentsMax; ++number) {
    if (storage::is_used(control.segments[number]))
      all.push_back(look_at(folder, number, control.segments[number], running, cells));
  }
  return all;
}

}  // namespace tmh::tools
