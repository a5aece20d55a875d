// tools/log_verify.cpp -- walks the log and looks at what recovery would refuse.
#include "tools/log_verify.h"

#include <fmt/format.h>

#include <utility>

#include "platform/assert.h"

namespace tmh::tools {

using storage::CheckpointV1;
using storage::ControlFile;
using storage::PageId;

bool was_never_made(const std::string &folder, const ControlFile &control,
                    const CheckpointSlots &slots) {
  return !slots.exists && !has_segments(control) && live_participants(folder).empty();
}

namespace {

bool page_exists(const ControlFile &control, PageId page) noexcept {
  const std::uint32_t number = storage::segment_number(page);
  if (number >= storage::kSegmentsMax) return false;
  const storage::SegmentRecordV1 &segment = control.segments[number];
  return storage::is_used(segment) && storage::page_offset(page) < segment.size_bytes;
}

// What recovery would refuse although every record is right.
class Checker {
 public:
  Checker(const std::string &folder, const CheckpointV1 &from, const ControlFile &control)
      : folder_(folder), from_(from), control_(control) {}
  // Empty: nothing wrong.
  std::string check(const LogEntry &entry) {
    if (std::exchange(first_, false) && from_.is_clean != 0 && entry.generation == from_.generation)
      return fmt::format(
          "LSN {}: a record follows, but the checkpoint says that the log was closed there",
          entry.lsn);
    for (const PageChange &change : entry.changes) {
      if (page_exists(control_, change.page)) continue;
      // A segment may have been added, or have grown.
      if (fresh_ == nullptr) fresh_ = read_control(folder_);
      if (!page_exists(*fresh_, change.page)) fresh_ = read_control(folder_);
      if (page_exists(*fresh_, change.page)) continue;
      return fmt::format("LSN {}: page {} of segment {} does not exist in this domain", entry.lsn,
                         static_cast<std::uint64_t>(storage::page_index(change.page)),
                         storage::segment_number(change.page));
    }
    return {};
  }

 private:
  const std::string &folder_;
  const CheckpointV1 &from_;
  const ControlFile &control_;
  std::unique_ptr<ControlFile> fresh_;
  bool first_ = true;
};

}  // namespace

LogVerdict verify_log(const std::string &folder, const ControlFile &control) {
  TMH_ASSERT(control.header.durability != 0);
  LogVerdict verdict;
  const CheckpointSlots slots = read_checkpoint(folder, control);
  if (was_never_made(folder, control, slots)) {
    verdict.was_never_made = true;
    return verdict;
  }
  const CheckpointV1 from = slots.get(folder);
  LogWalk walk(folder, {}, control, from);
  Checker checker(folder, from, control);
  std::string wrong;
  for (LogEntry entry; wrong.empty() && walk.next(&entry);) {
    verdict.transactions += entry.kind == LogEntry::Kind::kTransaction ? 1 : 0;
    verdict.log_bytes += entry.bytes;
    wrong = checker.check(entry);
  }
  verdict.start_lsn = from.lsn;
  verdict.end = walk.end();
  if (!wrong.empty()) {
    verdict.end.error = Errc::kLogDamaged;
    verdict.end.why = wrong;
  }
  verdict.both_slots_valid = slots.both_valid();
  verdict.is_open = !live_participants(folder).empty();
  return verdict;
}

const char *state_word(const LogEnd &end) noexcept {
  if (end.error == Errc::kLogDamaged || end.error == Errc::kLogMissing) return "damaged";
  if (end.error != Errc::kOk) return "unreadable";
  return end.torn ? "torn" : "clean";
}

}  // namespace tmh::tools
