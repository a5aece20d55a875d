// hierarchy/domain/segment_records.h -- which segments a domain has: their records in the control
// file.
// Shape:     made for one call; what it says is the control file's.
// Sharing:   between processes: what changes records takes the folder lock.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/domain.hpp>

#include "levels/page/shared/shared.h"

namespace tmh::detail {

[[nodiscard]] constexpr bool is_page_aligned(std::uint64_t bytes) noexcept {
  return bytes % kPageBytes == 0;
}
// Errors: kBadArgument, kMisalignedLength.
[[nodiscard]] Errc check_options(const std::string &file, const SegmentOptions &options);
// kAddressInUse, with what helps.
[[nodiscard]] Errc no_room_for(const storage::SegmentRecordV1 &record);

class SegmentRecords {
 public:
  explicit SegmentRecords(page::SharedFiles &memory) noexcept : memory_(memory) {}

  [[nodiscard]] std::uint64_t size_of(std::uint32_t segment) const noexcept {
    return memory_.segment_size(segment).load(std::memory_order_acquire);
  }

  // Whatever path leads there: names, also of files that are not there yet, through symbolic links;
  // files, also through hard links and mounts. kBadArgument: it is the domain's own file.
  [[nodiscard]] Errc check_not_own(const platform::FolderLock::Held &lock,
                                   const std::string &name) const;
  // in_instance: this thread runs an instance of level 2, in which no heap is formatted.
  [[nodiscard]] Errc find_or_add(const platform::FolderLock::Held &lock, const std::string &name,
                                 const SegmentOptions &options, bool in_instance,
                                 std::uint32_t *number);
  [[nodiscard]] Errc extend(const platform::FolderLock::Held &lock, std::uint32_t segment,
                            std::uint64_t size_bytes) noexcept;

 private:
  [[nodiscard]] Errc check_overlap(const std::string &name, std::uint64_t offset,
                                   std::uint64_t size) const;
  [[nodiscard]] Errc add_record(const platform::FolderLock::Held &lock, const std::string &name,
                                const SegmentOptions &options, bool in_instance,
                                std::uint32_t number);

  page::SharedFiles &memory_;
};

}  // namespace tmh::detail
