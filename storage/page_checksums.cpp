// storage/page_checksums.cpp -- writing a table of page checksums, and comparing data files
// with one.
#include "storage/page_checksums.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>

#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/crc32c.h"
#include "storage/data_files.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;

namespace {

template <class Sealed>
std::uint32_t crc_of(const Sealed &sealed) noexcept {
  return crc32c(0, &sealed, offsetof(Sealed, crc));
}

std::uint32_t zero_page_crc() noexcept {
  static constexpr std::array<std::byte, kPageBytes> kZeros{};
  return crc32c(0, kZeros.data(), kZeros.size());
}

std::uint64_t pages_of(const SegmentRecordV1 &record) noexcept {
  return is_used(record) ? record.size_bytes / kPageBytes : 0;
}

std::uint32_t pages_in_block(std::uint64_t first, std::uint64_t pages) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(kChecksumsPerBlock, pages - first));
}

bool is_before(const ChecksumsBlockV1 &block, std::uint32_t segment, std::uint64_t first) noexcept {
  return block.segment < segment || (block.segment == segment && block.first_page < first);
}

// A segment's pages, read in pieces.
class PageReader {
 public:
  [[nodiscard]] Errc open(const std::string &folder, const SegmentRecordV1 &record) noexcept {
    if (bytes_ == nullptr) bytes_.reset(new (std::nothrow) std::byte[kPiecePages * kPageBytes]);
    if (bytes_ == nullptr) return fail(Errc::kOutOfMemory, "a buffer for pages");
    offset_ = record.offset_bytes;
    held_count_ = 0;
    return file_.open(data_file_path(folder, record), DiskFile::Mode::kRead,
                      platform::FileRole::kSegment);
  }
  [[nodiscard]] bool has_data(std::uint64_t first, std::uint64_t pages) const noexcept {
    return platform::has_data(file_.fd(), offset_ + first * kPageBytes, pages * kPageBytes);
  }
  // `end`: of the pages that will be asked for next, so that they are read at once.
  [[nodiscard]] Errc crc(std::uint64_t page, std::uint64_t end, std::uint32_t *out) noexcept {
    if (page < held_ || page >= held_ + held_count_) {
      held_ = page;
      held_count_ = std::min(kPiecePages, end - page);
      std::size_t got = 0;
      const std::size_t bytes = held_count_ * kPageBytes;
      TMH_TRY(file_.read(offset_ + page * kPageBytes, bytes_.get(), bytes, &got));
      if (got != bytes)
        return fail(Errc::kFileShrunk, file_.path() + " is shorter than its segment");
    }
    *out = crc32c(0, bytes_.get() + (page - held_) * kPageBytes, kPageBytes);
    return Errc::kOk;
  }

 private:
  static constexpr std::uint64_t kPiecePages = 64;  // 256 KiB: half of a small second-level cache
  DiskFile file_;
  std::uint64_t offset_ = 0;
  std::unique_ptr<std::byte[]> bytes_;
  std::uint64_t held_ = 0, held_count_ = 0;
};

// The blocks of a table, one after the other.
class TableReader {
 public:
  // kNotADomain, kForeignVersion, kCorrupt, kIo.
  [[nodiscard]] Errc open(const std::string &folder, const std::uint64_t (&domain_id)[2],
                          std::string *why) {
    const auto refuse = [&](Errc error, const std::string &what) {
      *why = checksums_path(folder) + ": " + what;
      return error;
    };
    if (const Errc error = file_.open(checksums_path(folder), DiskFile::Mode::kRead);
        error != Errc::kOk)
      return refuse(error, "cannot be opened");
    std::size_t got = 0;
    if (const Errc error = file_.read(0, &header_, sizeof header_, &got); error != Errc::kOk)
      return refuse(error, "cannot be read");
    if (got < sizeof header_) return refuse(Errc::kCorrupt, "cut short");
    if (header_.crc != crc_of(header_))
      return refuse(Errc::kCorrupt, "the header's checksum is wrong");
    if (header_.magic != kChecksumsMagic)
      return refuse(Errc::kNotADomain, "no table of page checksums");
    if (header_.format_version != kChecksumsVersion)
      return refuse(Errc::kForeignVersion, "of another version");
    if (header_.domain_id[0] != domain_id[0] || header_.domain_id[1] != domain_id[1])
      return refuse(Errc::kNotADomain, "of another domain");
    const bool is_reserved_zero =
        std::all_of(std::begin(header_.reserved_zero), std::end(header_.reserved_zero),
                    [](auto byte) { return byte == 0; });
    if (header_.header_bytes != sizeof header_ ||
        header_.kind > static_cast<std::uint32_t>(ChecksumsKind::kOfCopy) ||
        header_.is_wanted > 1 || !is_reserved_zero)
      return refuse(Errc::kCorrupt, "a field of the header is wrong");
    return Errc::kOk;
  }
  [[nodiscard]] const ChecksumsHeaderV1 &header() const noexcept { return header_; }
  [[nodiscard]] bool is_at_end() const noexcept { return next_ == header_.block_count; }
  // kCorrupt: the next block is not what was written. REQUIRES: not at the end.
  [[nodiscard]] Errc next(ChecksumsBlockV1 *block) noexcept {
    std::size_t got = 0;
    const std::uint64_t at = sizeof header_ + next_ * sizeof *block;
    TMH_TRY(file_.read(at, block, sizeof *block, &got));
    const bool is_right = got == sizeof *block && block->crc == crc_of(*block) &&
                          block->index == next_ && block->sequence == header_.sequence &&
                          block->count <= kChecksumsPerBlock;
    if (!is_right) return Errc::kCorrupt;
    ++next_;
    return Errc::kOk;
  }
  void rewind() noexcept { next_ = 0; }
  [[nodiscard]] std::uint64_t position() const noexcept { return next_; }

 private:
  DiskFile file_;
  ChecksumsHeaderV1 header_{};
  std::uint64_t next_ = 0;
};

// What a table says of pages, asked for in rising order.
class Expected {
 public:
  explicit Expected(TableReader &table) noexcept : table_(table) {}
  // The block of these pages, or none: they are all zeros. kCorrupt, kIo.
  [[nodiscard]] Errc find(std::uint32_t segment, std::uint64_t first,
                          const ChecksumsBlockV1 **out) noexcept {
    while (!has_block_ || is_before(block_, segment, first)) {
      if (table_.is_at_end()) {
        *out = nullptr;
        return Errc::kOk;
      }
      TMH_TRY(table_.next(&block_));
      has_block_ = true;
    }
    *out = block_.segment == segment && block_.first_page == first ? &block_ : nullptr;
    return Errc::kOk;
  }

 private:
  TableReader &table_;
  ChecksumsBlockV1 block_{};
  bool has_block_ = false;
};

class TableWriter {
 public:
  TableWriter(const std::string &folder, const ControlFile &control,
              const ChecksumsTitle &title) noexcept
      : folder_(folder), control_(control) {
    header_.magic = kChecksumsMagic;
    header_.format_version = kChecksumsVersion;
    header_.header_bytes = sizeof header_;
    std::copy(std::begin(control.header.domain_id), std::end(control.header.domain_id),
              std::begin(header_.domain_id));
    header_.sequence = title.sequence;
    header_.kind = static_cast<std::uint32_t>(title.kind);
    header_.is_wanted = title.is_wanted ? 1 : 0;
    header_.time_ns = platform::wall_clock_ns();
  }
  // `base`: null, or what is known of pages that have not changed.
  [[nodiscard]] Errc write(TableReader *base, const std::function<bool(PageId)> &is_changed) {
    const std::string path = checksums_path(folder_), temporary = path + ".new";
    TMH_TRY(platform::disk_unlink(temporary));
    Errc error = write_as(temporary, base, is_changed);
    if (error == Errc::kOk) error = platform::disk_rename(temporary, path);
    if (error == Errc::kOk) return platform::sync_folder(folder_);
    const std::string why = platform::failure_detail();
    (void)platform::disk_unlink(temporary);  // its space, where the disk is full
    return fail(error, why);
  }

 private:
  [[nodiscard]] Errc write_as(const std::string &path, TableReader *base,
                              const std::function<bool(PageId)> &is_changed) {
    TMH_TRY(file_.open(path, DiskFile::Mode::kCreate));
    if (header_.kind != static_cast<std::uint32_t>(ChecksumsKind::kNone))
      TMH_TRY(add_segments(base, is_changed));
    header_.crc = crc_of(header_);
    TMH_TRY(file_.write(0, &header_, sizeof header_));
    return file_.sync();
  }
  [[nodiscard]] Errc add_segments(TableReader *base,
                                  const std::function<bool(PageId)> &is_changed) {
    std::unique_ptr<Expected> before;
    if (base != nullptr) before = std::make_unique<Expected>(*base);
    for (std::uint32_t segment = 0; segment < kSegmentsMax; ++segment) {
      const SegmentRecordV1 &record = control_.segments[segment];
      const std::uint64_t pages = header_.page_counts[segment] = pages_of(record);
      if (pages == 0) continue;
      TMH_TRY(reader_.open(folder_, record));
      const std::uint64_t known =
          base == nullptr ? 0 : std::min(pages, base->header().page_counts[segment]);
      for (std::uint64_t first = 0; first < pages; first += kChecksumsPerBlock) {
        const ChecksumsBlockV1 *old = nullptr;
        if (before != nullptr) TMH_TRY(before->find(segment, first, &old));
        const Errc error = add_block(segment, first, pages, known, old, is_changed);
        if (error != Errc::kOk) return error;
      }
    }
    return Errc::kOk;
  }
  // Of pages below `known` that have not changed `old` has the checksums.
  [[nodiscard]] Errc add_block(std::uint32_t segment, std::uint64_t first, std::uint64_t pages,
                               std::uint64_t known, const ChecksumsBlockV1 *old,
                               const std::function<bool(PageId)> &is_changed) {
    const std::uint32_t zero = zero_page_crc();
    const std::uint32_t count = pages_in_block(first, pages);
    const bool has_data = reader_.has_data(first, count);
    bool is_all_zero = true;
    block_ = {};
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t page = first + i;
      std::uint32_t &crc = block_.crcs[i];
      const bool is_known = page < known && !is_changed(page_id(segment, PageIndex{page}));
      if (is_known) {
        crc = old == nullptr || i >= old->count ? zero : old->crcs[i];
      } else if (!has_data) {
        crc = zero;
      } else if (const Errc error = reader_.crc(page, first + count, &crc); error != Errc::kOk) {
        return error;
      }
      is_all_zero = is_all_zero && crc == zero;
    }
    if (is_all_zero) return Errc::kOk;
    block_.segment = segment;
    block_.count = count;
    block_.first_page = first;
    block_.sequence = header_.sequence;
    block_.index = header_.block_count++;
    block_.crc = crc_of(block_);
    return file_.write(sizeof header_ + block_.index * sizeof block_, &block_, sizeof block_);
  }

  const std::string &folder_;
  const ControlFile &control_;
  DiskFile file_;
  PageReader reader_;
  ChecksumsHeaderV1 header_{};
  ChecksumsBlockV1 block_{};
};

// Every block, so that a damaged one is not taken for pages that differ.
Errc verify_table(TableReader *table, const ControlFile &control, std::string *why) {
  ChecksumsBlockV1 block{}, before{};
  while (!table->is_at_end()) {
    const std::uint64_t number = table->position();
    const Errc error = table->next(&block);
    const bool is_in_order =
        error == Errc::kOk && (number == 0 || is_before(before, block.segment, block.first_page));
    if (!is_in_order) {
      *why = "block " + std::to_string(number) + " of the table is damaged";
      return error == Errc::kOk ? Errc::kCorrupt : error;
    }
    before = block;
  }
  table->rewind();
  for (std::uint32_t segment = 0; segment < kSegmentsMax; ++segment) {
    if (table->header().page_counts[segment] == pages_of(control.segments[segment])) continue;
    *why = "segment " + std::to_string(segment) + " has another number of pages";
    return Errc::kCorrupt;
  }
  return Errc::kOk;
}

class Comparison {
 public:
  Comparison(const std::string &folder, const ControlFile &control,
             ChecksumsVerdict *verdict) noexcept
      : folder_(folder), control_(control), verdict_(*verdict) {}

  [[nodiscard]] Errc run(TableReader *table) {
    Expected expected(*table);
    for (std::uint32_t segment = 0; segment < kSegmentsMax; ++segment) {
      const SegmentRecordV1 &record = control_.segments[segment];
      const std::uint64_t pages = pages_of(record);
      if (pages == 0) continue;
      TMH_TRY(reader_.open(folder_, record));
      for (std::uint64_t first = 0; first < pages; first += kChecksumsPerBlock) {
        const ChecksumsBlockV1 *block = nullptr;
        Errc error = expected.find(segment, first, &block);
        if (error == Errc::kOk)
          error = compare(segment, first, pages_in_block(first, pages), block);
        if (error != Errc::kOk) return error;
      }
    }
    return Errc::kOk;
  }

 private:
  [[nodiscard]] Errc compare(std::uint32_t segment, std::uint64_t first, std::uint32_t count,
                             const ChecksumsBlockV1 *block) {
    verdict_.page_count += count;
    if (block == nullptr && !reader_.has_data(first, count)) return Errc::kOk;
    const std::uint32_t zero = zero_page_crc();
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t crc = 0;
      TMH_TRY(reader_.crc(first + i, first + count, &crc));
      if (crc == (block == nullptr ? zero : block->crcs[i])) continue;
      if (verdict_.differing.size() < ChecksumsVerdict::kNamedMax)
        verdict_.differing.push_back({segment, first + i});
      ++verdict_.differing_count;
    }
    return Errc::kOk;
  }

  const std::string &folder_;
  const ControlFile &control_;
  ChecksumsVerdict &verdict_;
  PageReader reader_;
};

}  // namespace

std::string checksums_path(const std::string &folder) { return folder + "/tmh.checksums"; }

Errc write_checksums(const std::string &folder, const ControlFile &control,
                     const ChecksumsTitle &title, std::uint64_t base,
                     const std::function<bool(PageId)> &is_changed) noexcept try {
  TableWriter writer(folder, control, title);
  TableReader before;
  std::string why;
  const bool has_base = base != 0 &&
                        before.open(folder, control.header.domain_id, &why) == Errc::kOk &&
                        before.header().sequence == base;
  const Errc error = writer.write(has_base ? &before : nullptr, is_changed);
  if (error != Errc::kCorrupt) return error;
  // A block of the base is damaged: everything is read.
  return TableWriter(folder, control, title).write(nullptr, is_changed);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("page checksums");
}

Errc read_checksums_header(const std::string &folder, const std::uint64_t (&domain_id)[2],
                           ChecksumsHeaderV1 *header, std::string *why) {
  if (struct stat info{}; ::stat(checksums_path(folder).c_str(), &info) != 0 && errno == ENOENT) {
    *why = checksums_path(folder) + ": no such file";
    return Errc::kNotADomain;
  }
  TableReader table;
  const Errc error = table.open(folder, domain_id, why);
  if (error == Errc::kOk) *header = table.header();
  return error;
}

bool is_current(const ChecksumsHeaderV1 &header, const CheckpointV1 &checkpoint,
                const ControlHeaderV1 &control) noexcept {
  if (header.sequence != checkpoint.sequence) return false;
  switch (static_cast<ChecksumsKind>(header.kind)) {
    case ChecksumsKind::kOfClose:
      return checkpoint.is_clean == 1;
    case ChecksumsKind::kOfCopy:
      return life_of(control) == 0;
    case ChecksumsKind::kNone:
      break;
  }
  return false;
}

ChecksumsVerdict verify_checksums(const std::string &folder, const ControlFile &control,
                                  const CheckpointV1 &checkpoint) {
  using State = ChecksumsVerdict::State;
  ChecksumsVerdict verdict;
  struct stat info {};
  if (::stat(checksums_path(folder).c_str(), &info) != 0 && errno == ENOENT) return verdict;
  const auto refuse = [&verdict](Errc error) {
    const bool is_damage = error == Errc::kCorrupt || error == Errc::kNotADomain;
    verdict.state = is_damage ? State::kTableDamaged : State::kUnreadable;
    return verdict;
  };
  TableReader table;
  if (const Errc error = table.open(folder, control.header.domain_id, &verdict.why);
      error != Errc::kOk)
    return refuse(error);
  if (!is_current(table.header(), checkpoint, control.header)) {
    verdict.state = State::kNotCurrent;
    return verdict;
  }
  if (const Errc error = verify_table(&table, control, &verdict.why); error != Errc::kOk)
    return refuse(error);
  Comparison comparison(folder, control, &verdict);
  if (const Errc error = comparison.run(&table); error != Errc::kOk) {
    verdict.why = platform::failure_detail();
    return refuse(error == Errc::kCorrupt ? Errc::kIo : error);
  }
  verdict.state = verdict.differing_count == 0 ? State::kSound : State::kPagesDiffer;
  return verdict;
}

}  // namespace tmh::storage
