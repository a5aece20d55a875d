// hierarchy/durability/checksum_table.cpp -- writing and dropping the table of page checksums.
#include "hierarchy/durability/checksum_table.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>

#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"
#include "storage/checkpoint_file.h"
#include "storage/page_checksums.h"

namespace tmh::detail {

using platform::fail;

bool ChecksumTable::is_wanted() const noexcept {
  return ::access(storage::checksums_path(memory_.folder()).c_str(), F_OK) == 0;
}

Errc ChecksumTable::use(PageChecksums wanted) noexcept {
  const std::string path = storage::checksums_path(memory_.folder());
  if (wanted == PageChecksums::kOn && !is_wanted())
    return storage::write_checksums(memory_.folder(), memory_.control(), {}, 0, nullptr);
  if (wanted != PageChecksums::kOff || !is_wanted()) return Errc::kOk;
  TMH_TRY(platform::disk_unlink(path));
  return platform::sync_folder(memory_.folder());
}

Errc ChecksumTable::end(bool is_wanted) noexcept {
  if (is_wanted)
    return storage::write_checksums(memory_.folder(), memory_.control(), {}, 0, nullptr);
  return use(PageChecksums::kOff);
}

// A page that was committed to since the domain was opened has a stamp. The others are not read, so
// one that has gone bad on disk meanwhile keeps the checksum that says so. With separate homes
// level 1 leaves no such stamp, and all are read.
Errc ChecksumTable::write_at_close(std::uint64_t sequence) noexcept {
  if (!is_wanted()) return Errc::kOk;
  TMH_TRY(memory_.open_segments());
  const std::uint64_t base = memory_.has_separate_homes() ? 0 : memory_.log_state()->checksums_base;
  const storage::ChecksumsTitle title{storage::ChecksumsKind::kOfClose, true, sequence};
  // Stamps lie in a sparse file: a load from a hole would take memory.
  constexpr std::uint64_t kRunPages =
      platform::GrowingFile::kReservedBytes / sizeof(page::PageMeta);
  std::uint64_t run = ~0ull;
  bool is_run_stamped = false;
  return storage::write_checksums(
      memory_.folder(), memory_.control(), title, base, [&](storage::PageId page) {
        const page::SegmentMemory &segment = memory_.segment(storage::segment_number(page));
        // acquire: pairs with the release where the segment is opened
        if (!segment.is_open.load(std::memory_order_acquire)) return true;
        if (run != static_cast<std::uint64_t>(page) / kRunPages) {
          run = static_cast<std::uint64_t>(page) / kRunPages;
          const std::uint64_t first =
              static_cast<std::uint64_t>(storage::page_index(page)) / kRunPages * kRunPages;
          is_run_stamped =
              platform::has_data(segment.meta_file.fd(), first * sizeof(page::PageMeta),
                                 platform::GrowingFile::kReservedBytes);
        }
        // relaxed: no other participant is here
        return is_run_stamped &&
               memory_.meta_to_read(page).stamp.load(std::memory_order_relaxed) != 0;
      });
}

Errc ChecksumTable::write_of_copy(const std::string &folder, bool is_wanted) noexcept try {
  std::string bytes;
  TMH_TRY(platform::read_file(folder + "/tmh.control", storage::kControlBytes, &bytes));
  if (bytes.size() != storage::kControlBytes)
    return fail(Errc::kShortFile, folder + "/tmh.control");
  const auto control = std::make_unique<storage::ControlFile>();
  static_assert(sizeof(storage::ControlFile) <= storage::kControlBytes);
  std::memcpy(control.get(), bytes.data(), sizeof *control);
  storage::CheckpointFile checkpoint;
  TMH_TRY(checkpoint.open(folder, control->header.domain_id));
  const storage::ChecksumsTitle title{storage::ChecksumsKind::kOfCopy, is_wanted,
                                      checkpoint.current().sequence};
  return storage::write_checksums(folder, *control, title, 0, nullptr);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("page checksums of a copy");
}

}  // namespace tmh::detail
