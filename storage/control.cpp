// storage/control.cpp -- checks of the control file.
#include "storage/control.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/checkpoint_file.h"
#include "storage/crc32c.h"
#include "storage/log/log_files.h"

namespace tmh::storage {

std::uint32_t control_checksum(const void *data, std::size_t bytes) noexcept {
  return crc32c(0, data, bytes);
}

void seal(ControlHeaderV1 *header) noexcept {
  header->checksum = control_checksum(header, offsetof(ControlHeaderV1, checksum));
}
void seal(SegmentRecordV1 *record) noexcept {
  record->checksum = control_checksum(record, offsetof(SegmentRecordV1, checksum));
}

void begin_record(SegmentRecordV1 *entry) noexcept {
  // Release: the compiler stores no field before it; who dies in between leaves this state.
  std::atomic_ref<std::uint32_t>(entry->state)
      .store(static_cast<std::uint32_t>(RecordState::kMaking), std::memory_order_release);
}

void store_record(SegmentRecordV1 *entry, const SegmentRecordV1 &record) noexcept {
  TMH_ASSERT(record.state == static_cast<std::uint32_t>(RecordState::kUsed));
  TMH_ASSERT(entry->state == static_cast<std::uint32_t>(RecordState::kMaking));
  using Words = std::array<std::uint64_t, sizeof(SegmentRecordV1) / sizeof(std::uint64_t)>;
  SegmentRecordV1 unfinished = record;
  unfinished.state = static_cast<std::uint32_t>(RecordState::kMaking);
  const auto from = std::bit_cast<Words>(unfinished);
  auto *const to = reinterpret_cast<std::uint64_t *>(entry);
  // Atomic: others look at the state meanwhile, and DurableControl::make_dirty() stores a
  //         word. relaxed: the state orders them.
  for (std::size_t i = 0; i < from.size(); ++i)
    std::atomic_ref<std::uint64_t>(to[i]).store(from[i], std::memory_order_relaxed);
  // Release: pairs with is_used().
  std::atomic_ref<std::uint32_t>(entry->state).store(record.state, std::memory_order_release);
}

std::uint64_t next_address(const ControlFile &control) noexcept {
  std::uint64_t next = control.header.address_base;
  for (const SegmentRecordV1 &record : control.segments) {
    if (is_used(record) && record.address != 0)
      next = std::max(next, record.address + record.max_bytes + kPageBytes);
  }
  return next;
}

// Of any size: it may be one that a damaged record holds.
std::uint64_t sealed_size(std::uint64_t size_bytes) noexcept {
  const auto pages = static_cast<std::uint32_t>(size_bytes / kPageBytes);
  return std::uint64_t{crc32c(0, &pages, sizeof pages)} << 32 | pages;
}

std::uint64_t promised_size(const SegmentRecordV1 &record) noexcept {
  auto &promised = const_cast<std::uint64_t &>(record.size_promised);
  // Relaxed: the word is whole by itself.
  const std::uint64_t sealed =
      std::atomic_ref<std::uint64_t>(promised).load(std::memory_order_relaxed);
  return std::uint64_t{static_cast<std::uint32_t>(sealed)} * kPageBytes;
}

void promise_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept {
  std::atomic_ref<std::uint64_t>(record->size_promised)
      .store(sealed_size(size_bytes), std::memory_order_release);
}

void store_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept {
  // The promise first, and both in one sector: after death in between settle_size() sees a promise
  // that says more.
  promise_size(record, size_bytes);
  // release: whoever reads the size finds the file that long
  std::atomic_ref<std::uint64_t>(record->size_bytes).store(size_bytes, std::memory_order_release);
}

Errc settle_size(SegmentRecordV1 *record, std::uint64_t file_bytes, std::string *why) {
  const std::uint64_t promised = promised_size(*record);
  if (promised == record->size_bytes) return Errc::kOk;
  // A growth extends the file before it stores either size. A file as long as the larger size says
  // proves that one. A shorter file that is long enough for size_bytes proves that one: the file's
  // extension was lost.
  if (promised > record->size_bytes && file_bytes >= record->offset_bytes + promised) {
    store_size(record, promised);
    return Errc::kOk;
  }
  if (promised > record->size_bytes && file_bytes >= record->offset_bytes + record->size_bytes) {
    store_size(record, record->size_bytes);
    return Errc::kOk;
  }
  *why = "segment table: the size of " + std::string(record->name) +
         " and the size that it was to get " + "fit neither each other nor the file";
  return Errc::kCorrupt;
}

std::uint64_t new_life() noexcept {
  std::uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) < 0)
    random = static_cast<std::uint32_t>(platform::monotonic_ns());
  return std::uint64_t{random} << 32 | static_cast<std::uint32_t>(~random);
}

namespace {

// Of what a process can address.
constexpr std::uint64_t kAddressEnd = 1ull << 47;

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
  if (header.format_version != kControlVersion)
    return refuse(Errc::kForeignVersion, "format_version");
  if (header.header_bytes != sizeof(ControlHeaderV1))
    return refuse(Errc::kForeignVersion, "header_bytes");
  if (header.features_incompat != 0) return refuse(Errc::kUnsupportedFeature, "features_incompat");
  if (header.durability == 1 || header.durability > 3)
    return refuse(Errc::kUnsupportedFeature, "durability");
  if (header.page_bytes != kPageBytes || header.line_bytes != kLineBytes ||
      header.segments_max != kSegmentsMax)
    return refuse(Errc::kForeignVersion, "page_bytes, line_bytes or segments_max");
  if (header.checksum != control_checksum(&header, offsetof(ControlHeaderV1, checksum)))
    return refuse(Errc::kCorrupt, "header checksum");
  if (header.address_base % kPageBytes != 0 || header.address_base >= kAddressEnd)
    return refuse(Errc::kCorrupt, "address_base");
  if (header.detection > static_cast<std::uint32_t>(Detection::kLocking))
    return refuse(Errc::kCorrupt, "detection");
  if (header.life != 0 && !is_life(header.life)) return refuse(Errc::kCorrupt, "life");
  if (header.acknowledged_early > 1 || !all_zero(header.reserved_zero))
    return refuse(Errc::kCorrupt, "reserved bytes of the header");
  return Errc::kOk;
}

// "segment 2 (b.raw)". What is damaged may hold anything, also in its name.
std::string name_of(std::size_t number, const SegmentRecordV1 &record) {
  std::string name(record.name, strnlen(record.name, sizeof record.name));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "segment " + std::to_string(number) + (name.empty() ? std::string() : " (" + name + ")");
}

const char *wrong_field(const ControlHeaderV1 &header, const SegmentRecordV1 &record) noexcept {
  if (record.checksum != control_checksum(&record, offsetof(SegmentRecordV1, checksum)))
    return "checksum";
  if (record.layout != 1 && record.layout != 2) return "layout";
  if (record.offset_bytes % kPageBytes != 0 || record.max_bytes % kPageBytes != 0 ||
      record.size_bytes % kPageBytes != 0)
    return "alignment";
  if (record.max_bytes == 0 || record.max_bytes > kSegmentBytesMax ||
      record.size_bytes > record.max_bytes)
    return "size";
  const std::uint64_t promised = promised_size(record);
  // The promise is stored first, so that it may say more, but never less.
  if (sealed_size(promised) != record.size_promised || promised > record.max_bytes ||
      promised < record.size_bytes)
    return "size_promised";
  if (record.offset_bytes > (1ull << 62)) return "offset";
  if (record.name[0] == '\0' || record.name[kSegmentNameBytesMax] != '\0') return "name";
  if (record.address != 0 &&
      (record.address < header.address_base || record.address % kPageBytes != 0 ||
       record.address >= kAddressEnd || record.max_bytes > kAddressEnd - record.address))
    return "address";
  if (record.zero != 0 || !all_zero(record.reserved_zero)) return "reserved bytes";
  return nullptr;
}

bool is_all_zero(const SegmentRecordV1 &record) noexcept {
  static constexpr SegmentRecordV1 kNothing{};
  return std::memcmp(&record, &kNothing, sizeof record) == 0;
}

bool share_addresses(const SegmentRecordV1 &one, const SegmentRecordV1 &other) noexcept {
  return one.address != 0 && other.address != 0 && one.address < other.address + other.max_bytes &&
         other.address < one.address + one.max_bytes;
}

// A record of the table; those before it are right.
Errc verify_segment(const ControlFile &file, std::size_t number, std::string *why) {
  const SegmentRecordV1 &record = file.segments[number];
  const auto refuse = [&](const std::string &text) {
    *why = "segment table: " + name_of(number, record) + ": " + text;
    return Errc::kCorrupt;
  };
  const auto state = static_cast<RecordState>(record.state);
  if (state == RecordState::kFree)
    return is_all_zero(record) ? Errc::kOk
                               : refuse("its record is marked free, and is not all zeros");
  if (state != RecordState::kMaking && state != RecordState::kUsed) return refuse("state");
  // Records are taken from the first on, and never given back.
  if (number > 0 &&
      file.segments[number - 1].state == static_cast<std::uint32_t>(RecordState::kFree))
    return refuse("the record before it is all zeros");
  if (state == RecordState::kMaking) return Errc::kOk;
  if (const char *const field = wrong_field(file.header, record)) return refuse(field);
  for (std::size_t other = 0; other < number; ++other) {
    if (is_used(file.segments[other]) && share_addresses(record, file.segments[other]))
      return refuse("it has addresses of " + name_of(other, file.segments[other]));
  }
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
  TMH_TRY(verify_header(file->header, why));
  for (std::size_t number = 0; number < kSegmentsMax; ++number) {
    TMH_TRY(verify_segment(*file, number, why));
  }
  return Errc::kOk;
}

Errc refuse_remains(const std::string &folder) noexcept try {
  std::vector<std::uint64_t> logs;
  TMH_TRY(list_log_files(folder, &logs));
  const bool has_checkpoint = platform::has_entry(checkpoint_path(folder));
  if (logs.empty() && !has_checkpoint) return Errc::kOk;
  std::string found = has_checkpoint ? "tmh.checkpoint" : "";
  if (!logs.empty()) {
    if (has_checkpoint) found += " and ";
    found += log_file_name(logs.front());
    if (logs.size() > 1) found += " to " + log_file_name(logs.back());
  }
  return platform::fail(Errc::kControlMissing, folder + " holds " + found);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("what is in a folder without tmh.control");
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
  if (getrandom(file->header.domain_id, sizeof file->header.domain_id, 0) < 0)
    file->header.domain_id[0] = address_base;
  file->header.address_base = address_base;
  seal(&file->header);
  return file;
}

}  // namespace tmh::storage
