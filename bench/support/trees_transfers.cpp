// bench/support/trees_transfers.cpp -- block transfers of searches.
#include "bench/support/trees_transfers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <tmh/options.hpp>

#include "platform/assert.h"

namespace tmh::bench {

void BlockCache::touch(std::uint64_t place) {
  const std::uint64_t block = place / block_bytes_;
  if (const auto found = held_.find(block); found != held_.end()) {
    newest_first_.splice(newest_first_.begin(), newest_first_, found->second);
    return;
  }
  TMH_ASSERT(held_.size() == newest_first_.size() && held_.size() <= blocks_max_);
  ++transfers_;
  newest_first_.push_front(block);
  held_[block] = newest_first_.begin();
  if (newest_first_.size() <= blocks_max_) return;
  held_.erase(newest_first_.back());
  newest_first_.pop_back();
}

PagePlaces::PagePlaces(const std::byte *data, std::uint64_t bytes) : data_(data), bytes_(bytes) {
  // Documentation/admin-guide/mm/pagemap.rst: bit 63 present, bit 61 a page of a file or shared
  // memory.
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kOfFile = std::uint64_t{1} << 61;
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0 && bytes % kPageBytes == 0);
  const std::uint64_t pages = bytes / kPageBytes;
  std::vector<std::uint64_t> entries(pages);
  const int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto first = reinterpret_cast<std::uintptr_t>(data) / kPageBytes * sizeof(std::uint64_t);
  const std::size_t wanted = entries.size() * sizeof(std::uint64_t);
  const ssize_t got = fd < 0 ? -1 : ::pread(fd, entries.data(), wanted, static_cast<off_t>(first));
  const int error = errno;
  if (fd >= 0) (void)::close(fd);
  if (got < 0 || static_cast<std::size_t>(got) != wanted) {
    throw std::system_error(error, std::generic_category(), "/proc/self/pagemap");
  }
  is_private_.reserve(pages);
  for (const std::uint64_t entry : entries) {
    const bool is_private = (entry & kPresent) != 0 && (entry & kOfFile) == 0;
    is_private_.push_back(is_private);
    pages_present_ += (entry & kPresent) != 0 ? 1U : 0U;
    pages_private_ += is_private ? 1U : 0U;
  }
}

bool PagePlaces::contains(const void *address) const noexcept {
  const auto *byte = static_cast<const std::byte *>(address);
  return byte >= data_ && byte < data_ + bytes_;
}

std::uint64_t PagePlaces::place(const void *address) const noexcept {
  TMH_ASSERT(contains(address));
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte *>(address) - data_);
  if (!is_private_[offset / kPageBytes]) return offset;
  // Far apart, so that no two share a block of any size in question; the bit keeps them away from
  // the file.
  constexpr std::uint64_t kElsewhere = std::uint64_t{1} << 62, kApart = std::uint64_t{1} << 24;
  return kElsewhere + offset / kPageBytes * kApart + offset % kPageBytes;
}

double PagePlaces::private_share() const noexcept {
  return pages_present_ == 0
             ? 0
             : static_cast<double>(pages_private_) / static_cast<double>(pages_present_);
}

}  // namespace tmh::bench
