// levels/page/shared/changed_pages.cpp -- notes of changed pages.
#include "levels/page/shared/changed_pages.h"

#include <atomic>
#include <new>

#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::page {

using platform::GrowingFile;

namespace {

// A bit per page, in whole blocks.
constexpr std::uint64_t bits_bytes(std::uint64_t segment_bytes) noexcept {
  const std::uint64_t bytes = segment_bytes / kPageBytes / 8 + 8;
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

std::string file_name(const std::string &folder, std::uint32_t segment) {
  return folder + "/" + storage::name_of(storage::SegmentFile::kChanges, segment);
}

}  // namespace

Errc ChangedPages::prepare(const std::string &folder, std::uint32_t segment,
                           const storage::SegmentRecordV1 &record,
                           std::uint64_t size_bytes) noexcept {
  GrowingFile file;
  const std::uint64_t half = bits_bytes(record.max_bytes), used = bits_bytes(size_bytes);
  if (const Errc error =
          file.open(file_name(folder, segment), 2 * half, 2 * half, GrowingFile::Blocks::kSparse);
      error != Errc::kOk)
    return error;
  if (const Errc error = platform::allocate_blocks(file.fd(), 0, used); error != Errc::kOk)
    return error;
  return platform::allocate_blocks(file.fd(), half, used);
}

Errc ChangedPages::open(std::uint32_t segment) noexcept try {
  if (files_[segment].base() != nullptr) return Errc::kOk;
  const std::uint64_t bytes = 2 * bits_bytes(control_.segments[segment].max_bytes);
  const std::string path = file_name(folder_, segment);
  TMH_TRY(files_[segment].open(path, bytes, bytes, GrowingFile::Blocks::kSparse));
  const Errc error = storage::enter(table_.at(storage::SegmentFile::kChanges, segment),
                                    files_[segment].fd(), bytes, path);
  if (error != Errc::kOk) files_[segment].close();
  return error;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the notes of changed pages");
}

std::uint64_t ChangedPages::size_of(std::uint32_t segment) const noexcept {
  if (!storage::is_used(control_.segments[segment])) return 0;
  auto &record = const_cast<storage::SegmentRecordV1 &>(control_.segments[segment]);
  // acquire: pairs with storage::store_size()
  return std::atomic_ref<std::uint64_t>(record.size_bytes).load(std::memory_order_acquire);
}

Errc ChangedPages::note(const LogLock::Held &held, storage::PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  const std::uint32_t segment = storage::segment_number(page);
  const auto index = static_cast<std::uint64_t>(storage::page_index(page));
  if (segment >= storage::kSegmentsMax || index >= size_of(segment) / kPageBytes)
    return platform::fail(Errc::kCorrupt, "a commit names a page that does not exist");
  if (const Errc error = open(segment); error != Errc::kOk) return error;
  noted_bits(segment)[index / 64] |= std::uint64_t{1} << (index % 64);
  return Errc::kOk;
}

Errc ChangedPages::take(const LogLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  for (std::uint32_t segment = 0; segment < storage::kSegmentsMax; ++segment) {
    if (size_of(segment) == 0) continue;
    if (const Errc error = open(segment); error != Errc::kOk) return error;
    is_taken_[segment] = true;
    std::uint64_t *const noted = noted_bits(segment), *const taken = taken_bits(segment);
    for (std::uint64_t i = 0; i < words(segment); ++i) {
      if (noted[i] == 0) continue;
      taken[i] |= noted[i];
      std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: noted and taken
      noted[i] = 0;
    }
  }
  return Errc::kOk;
}

std::uint64_t *ChangedPages::taken_bits(std::uint32_t segment) const noexcept {
  return noted_bits(segment) + bits_bytes(control_.segments[segment].max_bytes) / 8;
}

std::uint64_t ChangedPages::taken(std::uint32_t segment, std::uint64_t index) const noexcept {
  return taken_bits(segment)[index];
}

void ChangedPages::clear_taken() noexcept {
  for (std::uint32_t segment = 0; segment < storage::kSegmentsMax; ++segment) {
    for (std::uint64_t i = 0; i < words(segment); ++i)
      if (std::uint64_t &word = taken_bits(segment)[i]; word != 0) word = 0;
  }
}

// Of segments that take() has been through. At others the log's writer, another thread, may be
// opening the file.
std::uint64_t ChangedPages::words(std::uint32_t segment) const noexcept {
  return is_taken_[segment] ? (size_of(segment) / kPageBytes + 63) / 64 : 0;
}

}  // namespace tmh::page
