// hierarchy/durability/line_files.cpp -- salvaging and removing level 1's files.
#include "hierarchy/durability/line_files.h"

#include <unistd.h>

#include "hierarchy/exchange/exchange.h"
#include "levels/line/line_memory.h"
#include "levels/line/recovery.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::detail {

void remove_line_files(const platform::FolderLock::Held &lock, const std::string &folder) noexcept {
  TMH_ASSERT(lock.is_valid());
  line::LineMemory::remove_files(folder);
  observe::step(observe::Step::kLinesRemoved);
  hierarchy::Directory::remove_files(folder);
}

Errc salvage_lines(const platform::FolderLock::Held &lock, page::SharedFiles &memory) noexcept {
  TMH_ASSERT(lock.is_valid());
  if (access((memory.folder() + "/tmh.line.state").c_str(), F_OK) != 0) {
    // A remover of that one may have died before the others. A directory without line words
    // would give pages to level 2 that level 1 uses as well.
    remove_line_files(lock, memory.folder());
    return Errc::kOk;
  }
  line::LineMemory lines;
  bool found = false;
  TMH_TRY(lines.open(memory.folder(), &found));
  // Of files that were here before these. The file says so itself: a finder of that may have died.
  if (!memory.is_of_found_life(lines.state().domain_id, lines.state().life)) found = false;
  for (std::uint32_t i = 0; found && i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = memory.control().segments[i];
    if (!storage::is_used(record)) continue;
    const Errc error = lines.add_segment(
        {i, nullptr, record.size_bytes, record.max_bytes, &memory.segment(i).home});
    if (error != Errc::kOk) return error;
  }
  // what names no segment of the domain is damaged: without an owner
  if (found) (void)line::recover_all_contexts(lines);
  lines.close(false);
  remove_line_files(lock, memory.folder());
  return Errc::kOk;
}

}  // namespace tmh::detail
