// levels/storage/control.cpp -- checks of the control file.
#include "levels/storage/control.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "platform/process.h"

namespace tmh::storage {

std::uint64_t control_checksum(const void *data, std::size_t bytes) noexcept {
  const auto *at = static_cast<const unsigned char *>(data);
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull;  // FNV-1a offset basis and prime, 64 bits
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x0000'0100'0000'01b3ull;
  return hash;
}

void seal(ControlHeaderV1 *header) noexcept {
  header->checksum = control_checksum(header, offsetof(ControlHeaderV1, checksum));
}
void seal(SegmentRecordV1 *record) noexcept {
  record->checksum = control_checksum(record, offsetof(SegmentRecordV1, checksum));
}

void store_record(SegmentRecordV1 *entry, const SegmentRecordV1 &record) noexcept {
  using Words = std::array<std::uint64_t, sizeof(SegmentRecordV1) / sizeof(std::uint64_t)>;
  SegmentRecordV1 free = record;
  free.state = 0;
  const auto from = std::bit_cast<Words>(free);
  auto *const to = reinterpret_cast<std::uint64_t *>(entry);
  // Atomic: others look at the state meanwhile, and DomainMemory::make_control_dirty() stores a word. relaxed: the state orders them.
  for (std::size_t i = 0; i < from.size(); ++i)
    std::atomic_ref<std::uint64_t>(to[i]).store(from[i], std::memory_order_relaxed);
  std::atomic_ref<std::uint32_t>(entry->state).store(record.state, std::memory_order_release);  // pairs with state_of()
}

void promise_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept {
  std::atomic_ref<std::uint64_t>(record->size_check).store(~size_bytes, std::memory_order_release);
}

void store_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept {
  // The complement first, and both in one sector: after death in between settle_size() sees a complement that says more.
  promise_size(record, size_bytes);
  // release: whoever reads the size finds the file that long
  std::atomic_ref<std::uint64_t>(record->size_bytes).store(size_bytes, std::memory_order_release);
}

Errc settle_size(SegmentRecordV1 *record, std::uint64_t file_bytes, std::string *why) {
  const std::uint64_t promised = ~record->size_check;
  if (promised == record->size_bytes) return Errc::kOk;
  // A file is extended before either is stored. So one that long proves the larger size: a growth up to there had got as far as that, or
  // size_bytes has lost a bit. One that is shorter, but long enough for size_bytes: size_check is damaged, or the extension was lost.
  if (promised > record->size_bytes && file_bytes >= record->offset_bytes + promised) {
    store_size(record, promised);
    return Errc::kOk;
  }
  if (promised > record->size_bytes && file_bytes >= record->offset_bytes + record->size_bytes) {
    store_size(record, record->size_bytes);
    return Errc::kOk;
  }
  *why = "segment table: size_bytes and size_check of " + std::string(record->name) +
         " fit neither each other nor the file";
  return Errc::kCorrupt;
}

std::uint64_t new_life() noexcept {
  std::uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) < 0) random = static_cast<std::uint32_t>(platform::monotonic_ns());
  return std::uint64_t{random} << 32 | static_cast<std::uint32_t>(~random);
}

namespace {

bool is_life(std::uint64_t life) noexcept {
  return static_cast<std::uint32_t>(life >> 32) == static_cast<std::uint32_t>(~life);
}

template <std::size_t N>
bool all_zero(const std::uint8_t (&bytes)[N]) noexcept {
  return std::all_of(bytes, bytes + N, [](std::uint8_t b) { return b == 0; });
}

Errc verify_header(const ControlHeaderV1 &header, std::string *why) {
  const auto refuse = [why](Errc code, const char *text) {
    *why = text;
    return code;
  };
  if (header.magic != kControlMagic) return refuse(Errc::kNotADomain, "magic number");
  if (header.format_version != kControlVersion) return refuse(Errc::kForeignVersion, "format_version");
  if (header.header_bytes != sizeof(ControlHeaderV1)) return refuse(Errc::kForeignVersion, "header_bytes");
  if (header.features_incompat != 0) return refuse(Errc::kUnsupportedFeature, "features_incompat");
  if (header.durability == 1 || header.durability > 3) return refuse(Errc::kUnsupportedFeature, "durability");
  if (header.page_bytes != kPageBytes || header.line_bytes != kLineBytes || header.segments_max != kSegmentsMax)
    return refuse(Errc::kForeignVersion, "page_bytes, line_bytes or segments_max");
  if (header.checksum != control_checksum(&header, offsetof(ControlHeaderV1, checksum)))
    return refuse(Errc::kCorrupt, "header checksum");
  if (header.address_next < header.address_base || header.address_next % kPageBytes != 0 ||
      header.address_next >= (1ull << 47))
    return refuse(Errc::kCorrupt, "address_next");
  if (header.detection > 2) return refuse(Errc::kCorrupt, "detection");
  if (header.life != 0 && !is_life(header.life)) return refuse(Errc::kCorrupt, "life");
  if (!all_zero(header.reserved_zero)) return refuse(Errc::kCorrupt, "reserved bytes of the header");
  return Errc::kOk;
}

Errc verify_segment(const ControlHeaderV1 &header, const SegmentRecordV1 &record, std::string *why) {
  const auto refuse = [why](const char *text) {
    *why = std::string("segment table: ") + text;
    return Errc::kCorrupt;
  };
  if (record.state > 1) return refuse("state");
  if (record.state == 0) return Errc::kOk;
  if (record.checksum != control_checksum(&record, offsetof(SegmentRecordV1, checksum))) return refuse("checksum");
  if (record.layout != 1 && record.layout != 2) return refuse("layout");
  if (record.offset_bytes % kPageBytes != 0 || record.max_bytes % kPageBytes != 0 ||
      record.size_bytes % kPageBytes != 0)
    return refuse("alignment");
  if (record.max_bytes == 0 || record.max_bytes > kSegmentBytesMax || record.size_bytes > record.max_bytes)
    return refuse("size");
  // The complement is stored first, so that it may say more, but never less.
  if (~record.size_check % kPageBytes != 0 || ~record.size_check > record.max_bytes ||
      ~record.size_check < record.size_bytes)
    return refuse("size_check");
  if (record.offset_bytes > (1ull << 62)) return refuse("offset");
  if (record.name[0] == '\0' || record.name[kSegmentNameBytesMax] != '\0') return refuse("name");
  if (record.address != 0 &&
      (record.address < header.address_base || record.address + record.max_bytes > header.address_next))
    return refuse("address");
  if (!all_zero(record.reserved_zero)) return refuse("reserved bytes");
  return Errc::kOk;
}

}  // namespace

Errc verify_control(const void *data, std::size_t bytes, std::string *why) {
  if (bytes < sizeof(std::uint64_t) * 2) {
    *why = "shorter than its magic number and version";
    return Errc::kShortFile;
  }
  std::uint64_t magic;
  std::memcpy(&magic, data, sizeof magic);
  if (magic != kControlMagic) {
    *why = "magic number";
    return Errc::kNotADomain;
  }
  if (bytes < kControlBytes) {
    *why = "shorter than header and segment table";
    return Errc::kShortFile;
  }
  if (bytes > kControlBytes) {
    *why = "longer than header and segment table";
    return Errc::kCorrupt;
  }
  const auto file = std::make_unique<ControlFile>();
  std::memcpy(file.get(), data, sizeof(ControlFile));
  if (const Errc error = verify_header(file->header, why); error != Errc::kOk) return error;
  for (const SegmentRecordV1 &record : file->segments) {
    if (const Errc error = verify_segment(file->header, record, why); error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

std::unique_ptr<ControlFile> new_control(std::uint32_t owner_uid, std::uint64_t address_base,
                                         std::uint32_t durability) {
  auto file = std::make_unique<ControlFile>();
  file->header.magic = kControlMagic;
  file->header.format_version = kControlVersion;
  file->header.header_bytes = sizeof(ControlHeaderV1);
  file->header.page_bytes = kPageBytes;
  file->header.line_bytes = kLineBytes;
  file->header.segments_max = kSegmentsMax;
  file->header.owner_uid = owner_uid;
  file->header.durability = durability;
  if (getrandom(file->header.domain_id, sizeof file->header.domain_id, 0) < 0) file->header.domain_id[0] = address_base;
  file->header.address_base = address_base;
  file->header.address_next = address_base;
  seal(&file->header);
  return file;
}

}  // namespace tmh::storage
