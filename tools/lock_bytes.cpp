// tools/lock_bytes.cpp -- see lock_bytes.h.
#include "tools/lock_bytes.h"

#include <sys/stat.h>
#include <unistd.h>

#include "storage/file_table.h"
#include "storage/latency.h"

namespace tmh::tools {

using lock::LockHeader;

LockBytes::LockBytes(const std::string &folder)
    : path_(folder + "/" + storage::name_of(storage::DomainFile::kLocks)),
      file_(open_shared(path_)) {
  if (file_) header_ = read_at(file_, path_, 0, sizeof(LockHeader));
}

bool LockBytes::is_of(std::uint64_t life) const {
  return header_.size() == sizeof(LockHeader) &&
         header<std::uint64_t>(offsetof(LockHeader, magic)) == lock::kLockMagic &&
         header<std::uint64_t>(offsetof(LockHeader, life)) == life;
}

std::vector<std::byte> LockBytes::wait_times() const {
  TMH_ASSERT(static_cast<bool>(file_));
  std::vector<std::byte> page =
      read_at(file_, path_, lock::kWaitTimesAt, sizeof(storage::HistogramV1));
  if (page.size() < sizeof(storage::HistogramV1)) page.clear();
  return page;
}

std::uint64_t LockBytes::cell_count() const {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) return 0;
  const auto bytes = static_cast<std::uint64_t>(std::max<off_t>(info.st_size, 0));
  const std::uint64_t held = (std::max(bytes, lock::kCellsAt) - lock::kCellsAt) / kCellBytes;
  return std::min<std::uint64_t>(
      {header<std::uint32_t>(offsetof(LockHeader, capacity)), held, lock::kCellsMax});
}

std::uint64_t LockBytes::used_from(std::uint64_t cell) const {
  const off_t data = ::lseek(file_.get(), offset_of(cell), SEEK_DATA);
  if (data < 0) return ~std::uint64_t{0};
  TMH_ASSERT(data >= offset_of(cell));
  return std::max(cell, (static_cast<std::uint64_t>(data) - lock::kCellsAt) / kCellBytes);
}

std::vector<std::byte> LockBytes::read_cells(std::uint64_t from, std::uint64_t count) const {
  return read_at(file_, path_, static_cast<std::uint64_t>(offset_of(from)), count * kCellBytes);
}

}  // namespace tmh::tools
