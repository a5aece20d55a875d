// hierarchy/durability/log_copies.cpp -- copying log files, block by block.
#include "hierarchy/durability/log_copies.h"

#include <fcntl.h>

#include <algorithm>

#include "platform/assert.h"
#include "platform/copy_data.h"
#include "platform/disk.h"
#include "platform/files.h"
#include "platform/try.h"
#include "storage/log/log_record.h"

namespace tmh::detail {

Errc LogCopies::copy(storage::Lsn begin, storage::Lsn end, std::uint64_t last) noexcept {
  for (std::uint64_t index = storage::file_of(begin, file_bytes_); index <= last; ++index) {
    std::uint64_t first = 0, behind = file_bytes_;
    if (!files_.insert(index).second) {
      // By blocks: the last one is written again with what follows.
      constexpr std::uint64_t kBlock = storage::kLogBlockBytes;
      const storage::Lsn base = index * file_bytes_;
      first = (std::clamp(begin, base, base + file_bytes_) - base) / kBlock * kBlock;
      behind = (std::clamp(end, base, base + file_bytes_) - base + kBlock - 1) / kBlock * kBlock;
    }
    TMH_TRY(copy_part(index, first, behind));
  }
  return Errc::kOk;
}

Errc LogCopies::sync() noexcept {
  for (const std::uint64_t index : not_synced_) {
    platform::FileDescriptor file;
    const std::string path = storage::log_file_path(to_, index);
    TMH_TRY(platform::open_regular(path, O_RDWR, platform::FileRole::kOwn, &file));
    TMH_TRY(platform::sync_file(file.get(), path));
  }
  not_synced_.clear();
  return Errc::kOk;
}

Errc LogCopies::copy_part(std::uint64_t index, std::uint64_t first, std::uint64_t behind) noexcept {
  TMH_ASSERT(behind <= file_bytes_);
  if (first >= behind) return Errc::kOk;
  const std::string path = storage::log_file_path(to_, index);
  platform::FileDescriptor in, out;
  Errc error = platform::open_regular(storage::log_file_path(from_, index), O_RDONLY,
                                      platform::FileRole::kOwnLog, &in);
  if (error == Errc::kOk)
    error = platform::open_regular(path, O_RDWR | O_CREAT, platform::FileRole::kOwn, &out);
  if (error != Errc::kOk) return error;
  not_synced_.insert(index);
  return platform::copy_in_place(in.get(), first, behind - first, out.get(), path);
}

}  // namespace tmh::detail
