// tests/storage/log_format_test.cpp -- the redo log's bytes: frozen layouts, records there and
// back, hostile records.
// Invariants: (1) records, file headers and checkpoint slots have exactly the bytes of FORMAT.md
//             (computed here by hand, the checksums by another program). (2) what a builder
//             encodes, a cursor gives back. (3) a builder that is full changes nothing. (4) checks
//             and cursor read nothing beyond the bytes given, whatever they are. (5) names of log
//             files are those of FORMAT.md alone.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "storage/checkpoint_file.h"
#include "storage/log/log_files.h"
#include "storage/log/log_items.h"
#include "storage/log/log_record.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using namespace storage;

std::string hex(const void *data, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const unsigned byte = static_cast<const unsigned char *>(data)[i];
    out += kDigits[byte / 16];
    out += kDigits[byte % 16];
  }
  return out;
}

TEST(LogFormatTest, CommitRecordHasTheDocumentedBytes) {
  std::array<std::byte, 4096> page{};
  const std::uint64_t words[] = {0x1111111111111111, 0x2222222222222222, 0x3333333333333333};
  std::memcpy(page.data(), words, 16);
  std::memcpy(page.data() + 63 * 64 + 7 * 8, &words[2], 8);
  std::array<std::uint8_t, 64> masks{};
  masks[0] = 0x03;
  masks[5] = 0xff;  // not among the lines
  masks[63] = 0x80;
  std::array<std::byte, 256> buffer{};
  RecordBuilder builder(buffer.data(), buffer.size());
  ASSERT_TRUE(builder.add(page_id(1, PageIndex{2}), 1ull | (1ull << 63) | (1ull << 7), masks.data(),
                          page.data()))
      << "line 7 has no word and is left out";
  RecordHeaderV1 fields{};
  fields.kind = 1;
  fields.lsn = 0x1234;
  fields.generation = 7;
  fields.stamp = 42;
  fields.time_ns = 99;
  fields.durable_before = 0x1000;
  fields.total_bytes = 112;
  ASSERT_EQ(builder.finish(fields), 112U);
  EXPECT_EQ(
      hex(buffer.data(), 112),
      "d05e769370000000341200000000000007000000010000002a000000000000006300000000000000001000000000"
      "0000"
      "01000000000000007000000000000000"
      "0200000000010000010000000000008003800000000000001111111111111111222222222222222233333333"
      "33333333");
}

TEST(LogFormatTest, OpenRecordHasTheDocumentedBytes) {
  std::array<std::byte, kOpenRecordBytes> buffer{};
  RecordHeaderV1 fields{};
  fields.lsn = fields.durable_before = 0xb000;
  fields.generation = 4;
  fields.stamp = 41;
  fields.time_ns = 77;
  fields.items = fields.part = 9;  // set right by the function
  fields.total_bytes = 9;
  ASSERT_EQ(write_open_record(buffer.data(), fields, {0xabc8, 3, 0}), buffer.size());
  EXPECT_EQ(hex(buffer.data(), buffer.size()),
            "a46545285000000000b000000000000004000000030000002900000000000000"
            "4d0000000000000000b0000000000000"
            "00000000000000000000000000000000c8ab0000000000000300000000000000");
}

TEST(LogFormatTest, FileHeaderHasTheDocumentedBytes) {
  const LogFileHeaderV1 header =
      make_log_file_header({{0x1122334455667788, 0x99aabbccddeeff00}, 1u << 20}, 5);
  EXPECT_EQ(hex(&header, 48),
            "544d484c4f4730310200000000100000887766554433221100ffeeddccbbaa99"
            "05000000000000000000100000000000");
  EXPECT_EQ(hex(header.reserved_zero, sizeof header.reserved_zero), std::string(2 * 4044, '0'));
  EXPECT_EQ(hex(&header.crc, 4), "714f6d26");
}

CheckpointV1 golden_checkpoint() {
  CheckpointV1 slot{};
  slot.magic = kCheckpointMagic;
  slot.format_version = 1;
  slot.generation = 6;
  slot.sequence = 9;
  slot.domain_id[0] = 0x1122334455667788;
  slot.domain_id[1] = 0x99aabbccddeeff00;
  slot.log_file_bytes = 1u << 20;
  slot.lsn = 0x3008;
  slot.stamp = 42;
  slot.time_ns = 99;
  slot.durable_lsn = 0x4000;
  slot.keep_all = 1;
  slot.previous_lsn = 0x2008;
  slot.previous_end = 0x2ff0;
  slot.previous_generation = 5;
  seal(&slot);
  return slot;
}

TEST(LogFormatTest, CheckpointSlotHasTheDocumentedBytes) {
  const CheckpointV1 slot = golden_checkpoint();
  EXPECT_EQ(hex(&slot, 108),
            "544d48434850303101000000060000000900000000000000887766554433221100ffeeddccbbaa99000010"
            "0000000000"
            "08300000000000002a0000000000000063000000000000000040000000000000"
            "00000000010000000820000000000000f02f00000000000005000000");
  EXPECT_EQ(hex(slot.reserved_zero, sizeof slot.reserved_zero), std::string(2 * 3984, '0'));
  EXPECT_EQ(hex(&slot.crc, 4), "31f89eba");
  std::string why;
  EXPECT_EQ(verify_checkpoint(slot, 1, &why), Errc::kOk) << why;
  EXPECT_EQ(verify_checkpoint(slot, 0, &why), Errc::kCorrupt) << "an odd sequence lies in slot 1";
}

TEST(LogFormatTest, WrongCheckpointFieldsUnderARightChecksumAreRefused) {
  struct Case {
    const char *field;
    Errc error;
    void (*change)(CheckpointV1 &);
  };
  const Case cases[] = {
      {"magic", Errc::kNotADomain, [](CheckpointV1 &s) { s.magic ^= 1; }},
      {"format_version", Errc::kForeignVersion, [](CheckpointV1 &s) { s.format_version = 2; }},
      {"sequence", Errc::kCorrupt, [](CheckpointV1 &s) { s.sequence = 0; }},
      {"log_file_bytes", Errc::kCorrupt,
       [](CheckpointV1 &s) { s.log_file_bytes = (1u << 20) + 512; }},
      {"log_file_bytes", Errc::kCorrupt, [](CheckpointV1 &s) { s.log_file_bytes = 0; }},
      {"lsn", Errc::kCorrupt, [](CheckpointV1 &s) { s.lsn = 0x3004; }},
      {"lsn", Errc::kCorrupt, [](CheckpointV1 &s) { s.lsn = 0x100; }},
      {"lsn", Errc::kCorrupt, [](CheckpointV1 &s) { s.lsn = (1u << 20) + 8; }},
      {"durable_lsn", Errc::kCorrupt, [](CheckpointV1 &s) { s.durable_lsn = s.lsn - 8; }},
      {"is_clean", Errc::kCorrupt, [](CheckpointV1 &s) { s.is_clean = 2; }},
      {"keep_all", Errc::kCorrupt, [](CheckpointV1 &s) { s.keep_all = 2; }},
      {"previous_generation", Errc::kCorrupt, [](CheckpointV1 &s) { s.previous_generation = 6; }},
      {"reserved bytes", Errc::kCorrupt, [](CheckpointV1 &s) { s.reserved_zero[3000] = 1; }},
  };
  for (const Case &c : cases) {
    CheckpointV1 slot = golden_checkpoint();
    c.change(slot);
    std::string why;
    EXPECT_EQ(verify_checkpoint(slot, 1, &why), Errc::kCorrupt)
        << c.field << ": without a checksum it is damage";
    seal(&slot);
    EXPECT_EQ(verify_checkpoint(slot, 1, &why), c.error) << c.field;
    EXPECT_NE(why.find(c.field), std::string::npos) << why;
  }
}

TEST(LogFormatTest, CheckpointFileKeepsTheSlotThatIsNotWritten) {
  const MemoryFolder folder;
  CheckpointV1 first = golden_checkpoint();
  CheckpointFile file;
  ASSERT_EQ(file.open(folder.path(), first.domain_id), Errc::kLogMissing);
  ASSERT_EQ(file.create(folder.path(), first), Errc::kOk);
  EXPECT_EQ(file.current().sequence, 2U);
  EXPECT_TRUE(file.both_slots_valid());
  const std::string whole = read_file(checkpoint_path(folder.path()));
  ASSERT_EQ(whole.size(), 8192U);
  for (std::uint64_t lsn = 0x4000; lsn <= 0x6000; lsn += 0x1000) {
    const std::string before = read_file(checkpoint_path(folder.path()));
    const std::uint64_t sequence = file.current().sequence + 1;
    CheckpointV1 next = file.current();
    next.lsn = next.durable_lsn = lsn;
    ASSERT_EQ(file.store(next), Errc::kOk);
    EXPECT_EQ(file.current().sequence, sequence);
    const std::string after = read_file(checkpoint_path(folder.path()));
    const std::size_t other = sequence % 2 == 1 ? 0 : 4096;
    EXPECT_EQ(before.substr(other, 4096), after.substr(other, 4096));
    CheckpointFile again;
    ASSERT_EQ(again.open(folder.path(), first.domain_id), Errc::kOk);
    EXPECT_EQ(again.current().lsn, lsn);
    // The newest torn.
    patch_file(checkpoint_path(folder.path()), other == 0 ? 4096 + 100 : 100, "x");
    ASSERT_EQ(again.refresh(), Errc::kOk);
    EXPECT_EQ(again.current().sequence, sequence - 1);
    EXPECT_FALSE(again.both_slots_valid());
    write_file(checkpoint_path(folder.path()), after);
  }
  CheckpointV1 wrong = file.current();
  wrong.durable_lsn = 0;
  EXPECT_EQ(file.store(wrong), Errc::kBadArgument) << "it would not be readable";
  const std::uint64_t other_id[2] = {1, 2};
  EXPECT_EQ(file.open(folder.path(), other_id), Errc::kNotADomain);
  write_file(checkpoint_path(folder.path()), std::string(8192, 'x'));
  EXPECT_EQ(file.open(folder.path(), first.domain_id), Errc::kCorrupt);
}

TEST(LogFormatTest, FileNames) {
  EXPECT_EQ(log_file_name(0), "tmh.log.0000000000");
  EXPECT_EQ(log_file_name(1234567890), "tmh.log.1234567890");
  EXPECT_EQ(log_file_name(12345678901), "tmh.log.12345678901");
  for (const std::uint64_t index :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{9999999999}, ~std::uint64_t{0}})
    EXPECT_EQ(log_file_index(log_file_name(index)), index);
  for (const char *name :
       {"", "tmh.log.", "tmh.log.new", "tmh.log.state", "tmh.log.000000000", "tmh.log.00000000000",
        "tmh.log.01234567890", "tmh.log.000000000x", "tmh.log.0000000000 ", "tmh.log.-000000001",
        "xmh.log.0000000000", "tmh.log.99999999999999999999999"})
    EXPECT_EQ(log_file_index(name), std::nullopt) << name;
}

TEST(LogFormatTest, FilesAreMadeRecycledListedAndArchived) {
  const MemoryFolder folder;
  const MemoryFolder archive;
  const LogIdentity log{{1, 2}, kLogFileBytesMin};
  write_file(log_temporary_path(folder.path()), "left by a crash");
  for (std::uint64_t index = 0; index < 3; ++index)
    ASSERT_EQ(create_log_file(folder.path(), log, index), Errc::kOk);
  EXPECT_FALSE(std::filesystem::exists(log_temporary_path(folder.path())));
  const std::string bytes = read_file(log_file_path(folder.path(), 1));
  ASSERT_EQ(bytes.size(), log.file_bytes);
  EXPECT_EQ(bytes.find_first_not_of('\0', 4096), std::string::npos);
  EXPECT_EQ(verify_log_file(log_file_path(folder.path(), 1), log, 1), Errc::kOk);
  EXPECT_EQ(verify_log_file(log_file_path(folder.path(), 1), log, 2), Errc::kCorrupt);
  EXPECT_EQ(verify_log_file(log_file_path(folder.path(), 1), {{1, 3}, kLogFileBytesMin}, 1),
            Errc::kNotADomain);
  patch_file(log_file_path(folder.path(), 0), 5000, "old content");
  ASSERT_EQ(recycle_log_file(folder.path(), log, 0, 3), Errc::kOk);
  EXPECT_EQ(read_file(log_file_path(folder.path(), 3)).substr(5000, 11), "old content");
  EXPECT_EQ(verify_log_file(log_file_path(folder.path(), 3), log, 3), Errc::kOk);
  std::vector<std::uint64_t> indexes;
  ASSERT_EQ(list_log_files(folder.path(), &indexes), Errc::kOk);
  EXPECT_EQ(indexes, (std::vector<std::uint64_t>{1, 2, 3}));
  ASSERT_EQ(archive_log_file(folder.path(), archive.path(), 1), Errc::kOk);
  ASSERT_EQ(archive_log_file(folder.path(), archive.path(), 1), Errc::kOk)
      << "once more does no harm";
  EXPECT_EQ(read_file(log_file_path(archive.path(), 1)), bytes);
  const TempFolder elsewhere;  // another device, where /dev/shm is one
  ASSERT_EQ(archive_log_file(folder.path(), elsewhere.path(), 2), Errc::kOk);
  EXPECT_EQ(verify_log_file(log_file_path(elsewhere.path(), 2), log, 2), Errc::kOk);
  ASSERT_EQ(list_log_files(folder.path(), &indexes), Errc::kOk);
  EXPECT_EQ(indexes, (std::vector<std::uint64_t>{3}));
}

// "ln" and "cp -l" are how some archive; what they have is theirs.
TEST(LogFormatTest, ALogFileThatALinkKeepsIsNotRecycled) {
  const MemoryFolder folder;
  const LogIdentity log{{1, 2}, kLogFileBytesMin};
  ASSERT_EQ(create_log_file(folder.path(), log, 0), Errc::kOk);
  patch_file(log_file_path(folder.path(), 0), 5000, "records");
  const std::string kept = folder.path() + "/kept",
                    bytes = read_file(log_file_path(folder.path(), 0));
  std::filesystem::create_hard_link(log_file_path(folder.path(), 0), kept);
  ASSERT_EQ(recycle_log_file(folder.path(), log, 0, 1), Errc::kOk);
  EXPECT_EQ(read_file(kept), bytes);
  EXPECT_EQ(verify_log_file(log_file_path(folder.path(), 1), log, 1), Errc::kOk);
  std::vector<std::uint64_t> indexes;
  ASSERT_EQ(list_log_files(folder.path(), &indexes), Errc::kOk);
  EXPECT_EQ(indexes, (std::vector<std::uint64_t>{1}));
  patch_file(log_file_path(folder.path(), 1), 5000, "later ones");
  EXPECT_EQ(read_file(kept), bytes);
}

// --- records there and back
// -------------------------------------------------------------------------------------------------

struct Difference {
  std::uint64_t page;
  std::map<std::uint32_t, std::uint64_t> words;  // by number, 0 to 511
};

rc::Gen<Difference> any_difference() {
  return rc::gen::build<Difference>(
      rc::gen::set(&Difference::page, rc::gen::inRange<std::uint64_t>(0, 1ull << 48)),
      rc::gen::set(&Difference::words, rc::gen::container<std::map<std::uint32_t, std::uint64_t>>(
                                           rc::gen::inRange<std::uint32_t>(0, 512),
                                           rc::gen::arbitrary<std::uint64_t>())));
}

bool add(RecordBuilder *builder, const Difference &difference) {
  std::array<std::uint64_t, 512> page{};
  std::array<std::uint8_t, 64> masks{};
  LineMask lines = 0;
  for (const auto &[word, value] : difference.words) {
    page[word] = value;
    masks[word / 8] = static_cast<std::uint8_t>(masks[word / 8] | (1u << (word % 8)));
    lines |= 1ull << (word / 8);
  }
  return builder->add(PageId{difference.page}, lines, masks.data(),
                      reinterpret_cast<const std::byte *>(page.data()));
}

TEST(LogFormatTest, RecordsAreGivenBackAsTheyWereBuilt) {
  static_cast<void>(seed());
  const bool holds = rc::check("decode(encode(x)) == x", [] {
    const auto differences = *rc::gen::container<std::vector<Difference>>(any_difference());
    const auto capacity = *rc::gen::inRange<std::size_t>(64, 30'000);
    std::string buffer(capacity + 8, 'g');
    RecordBuilder builder(reinterpret_cast<std::byte *>(buffer.data()), capacity);
    std::vector<Difference> added;
    for (const Difference &difference : differences) {
      const std::string before = buffer;
      const std::size_t bytes = builder.bytes();
      if (add(&builder, difference)) {
        if (!difference.words.empty()) added.push_back(difference);
      } else {
        RC_ASSERT(builder.bytes() == bytes && buffer == before);
      }
    }
    RC_ASSERT(builder.items() == added.size());
    RecordHeaderV1 fields{};
    fields.kind = 1;
    fields.lsn = 4096;
    fields.generation = 1;
    fields.total_bytes = 1u << 30;
    const std::size_t bytes = builder.finish(fields);
    RC_ASSERT(bytes <= capacity && bytes % 8 == 0 && bytes == builder.bytes());
    RC_ASSERT(buffer.substr(capacity) == std::string(8, 'g'));
    RecordView view;
    view.at = reinterpret_cast<const std::byte *>(buffer.data());
    std::memcpy(&view.header, buffer.data(), sizeof view.header);
    RC_ASSERT(is_header_sane(view.header, 4096, bytes) &&
              !is_header_sane(view.header, 4104, bytes));
    RC_ASSERT(!is_header_sane(view.header, 4096, bytes - 8));
    RC_ASSERT(is_crc_right(view.header, view.at) && is_payload_sane(view));
    ItemCursor cursor(view);
    Item item;
    for (const Difference &difference : added) {
      RC_ASSERT(cursor.next(&item) && item.kind == ItemKind::kPageDifference);
      const PageDelta &delta = item.difference;
      RC_ASSERT(delta.page == PageId{difference.page} &&
                delta.word_count == difference.words.size());
      std::array<std::uint64_t, 512> page;
      page.fill(~0ull);
      apply_delta(delta, reinterpret_cast<std::byte *>(page.data()));
      for (std::uint32_t word = 0; word < 512; ++word) {
        const auto found = difference.words.find(word);
        RC_ASSERT(page[word] == (found == difference.words.end() ? ~0ull : found->second));
      }
    }
    RC_ASSERT(!cursor.next(&item) && !cursor.is_malformed());
  });
  EXPECT_TRUE(holds);
}

TEST(LogFormatTest, OneWholePageFitsAnEmptyRecord) {
  std::vector<std::byte> buffer(kRecordHeaderBytes + kDeltaBytesMax);
  RecordBuilder builder(buffer.data(), buffer.size());
  const std::vector<std::byte> page(4096, std::byte{1});
  const std::vector<std::uint8_t> masks(64, 0xff);
  ASSERT_TRUE(builder.add(PageId{0}, ~0ull, masks.data(), page.data()));
  EXPECT_EQ(builder.bytes(), buffer.size());
  EXPECT_FALSE(builder.add(PageId{1}, 1, masks.data(), page.data()));
  builder.clear();
  EXPECT_EQ(builder.bytes(), kRecordHeaderBytes);
}

// Bytes that end where an unreadable page begins, and begin where one ends.
class Fenced {
 public:
  explicit Fenced(std::size_t room) : room_((room + 4095) / 4096 * 4096) {
    base_ = static_cast<std::byte *>(
        mmap(nullptr, room_ + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + 4096, room_, PROT_READ | PROT_WRITE) != 0)
      std::abort();
  }
  ~Fenced() { munmap(base_, room_ + 8192); }
  Fenced(const Fenced &) = delete;
  Fenced &operator=(const Fenced &) = delete;
  std::byte *at_end(std::size_t bytes) { return base_ + 4096 + room_ - bytes; }

 private:
  std::size_t room_;
  std::byte *base_;
};

TEST(LogFormatTest, HostileRecordsAreReadWithinTheirBytes) {
  std::mt19937_64 random(seed());
  Fenced fenced(4096);
  std::uint64_t malformed = 0;
  std::uint64_t walked = 0;
  for (int round = 0; round < 20'000; ++round) {
    // Garbage, or a right record of a few small differences with some bytes changed, cut anywhere.
    std::array<std::byte, 4096> made;
    RecordBuilder builder(made.data(), made.size());
    for (std::uint64_t i = random() % 12; i > 0; --i)
      static_cast<void>(add(
          &builder, {random(), {{static_cast<std::uint32_t>(random() % 512), random()}, {7, 7}}}));
    if (random() % 4 == 0)
      std::generate(made.begin(), made.end(), [&] { return std::byte(random()); });
    for (std::uint64_t i = random() % 3; i > 0; --i)
      made[64 + random() % (builder.bytes() + 64)] = std::byte(random() % 16);
    const std::size_t bytes = random() % 2 == 0 ? builder.bytes() : random() % 800;
    std::byte *at = fenced.at_end(bytes);
    std::memcpy(at, made.data(), bytes);
    DeltaCursor cursor(at + std::min(bytes, kRecordHeaderBytes),
                       bytes - std::min(bytes, kRecordHeaderBytes));
    PageDelta delta;
    std::array<std::byte, 4096> page;
    while (cursor.next(&delta)) {
      apply_delta(delta, page.data());
      ++walked;
      ASSERT_LE(delta.words + 8 * delta.word_count, at + bytes);
    }
    malformed += cursor.is_malformed() ? 1U : 0U;
    if (bytes < sizeof(RecordHeaderV1)) continue;
    RecordHeaderV1 header;
    std::memcpy(&header, at, sizeof header);
    header.length = static_cast<std::uint32_t>(bytes);
    header.kind = static_cast<std::uint16_t>(1 + random() % 4);
    header.lsn = 4096;
    if (!is_header_sane(header, 4096, bytes)) continue;
    RecordView view;
    view.header = header;
    view.at = at;
    static_cast<void>(is_crc_right(header, at));
    static_cast<void>(is_payload_sane(view));
  }
  EXPECT_GT(malformed, 1000U);
  EXPECT_GT(walked, 1000U) << "the garbage was too wild to say anything";
}

TEST(LogFormatTest, PlacesInFiles) {
  constexpr std::uint64_t kF = kLogFileBytesMin;
  EXPECT_EQ(place(4096, 64, kF), 4096U);
  EXPECT_EQ(place(kF - 64, 64, kF), kF - 64);
  EXPECT_EQ(place(kF - 64, 72, kF), kF + 4096);
  EXPECT_EQ(place(kF, 64, kF), kF + 4096);
  EXPECT_EQ(place(kF - 8, 64, kF), kF + 4096);
  EXPECT_EQ(open_position(4096, kF), 4096U);
  EXPECT_EQ(open_position(4104, kF), 8192U);
  EXPECT_EQ(open_position(kF - 8, kF), kF + 4096);
  EXPECT_EQ(open_position(kF, kF), kF + 4096);
  EXPECT_EQ(open_position(kF + 4096, kF), kF + 4096);
}

}  // namespace
}  // namespace tmh::test
