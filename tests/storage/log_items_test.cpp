// tests/storage/log_items_test.cpp -- the kinds of items in records of the redo log.
// Invariants: (1) each kind has the bytes of FORMAT.md, is given back as it was built, and reaches
//             its function of Redo, in order. (2) an item with any field that is wrong makes its
//             record malformed. (3) whatever the bytes, a walk stays within them. (4) recovery does
//             what an item says, and refuses what the domain has no place for.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "platform/disk.h"
#include "storage/checkpoint_file.h"
#include "storage/crc32c.h"
#include "storage/data_files.h"
#include "storage/log/log_files.h"
#include "storage/log/log_items.h"
#include "storage/log/log_plan.h"
#include "tests/support/log_rig.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using namespace storage;

SegmentMadeV2 made() {
  SegmentMadeV2 item{};
  item.segment = 3;
  item.layout = 2;
  item.offset_bytes = 4096;
  item.max_bytes = 1u << 20;
  item.address = 0x7000'0000'0000;
  item.size_bytes = 8192;
  std::strcpy(item.name, "accounts");
  return item;
}

SegmentGrownV2 grown() { return {3, 0, 12'288}; }

MomentNamedV2 named() {
  MomentNamedV2 item{};
  item.clock = 42;
  std::strcpy(item.name, "before import");
  return item;
}

struct Note {
  NoteV2 head{7};
  char text[5] = {'h', 'e', 'l', 'l', 'o'};
};
constexpr std::size_t kNoteBytes = 13;

// One record.
class Built {
 public:
  Built() : builder_(bytes_.data(), bytes_.size()) {}
  Built &difference() {
    std::array<std::uint8_t, kWordMasks> masks{};
    masks[1] = 1;
    const std::vector<std::byte> page(kPageBytes, std::byte{9});
    EXPECT_TRUE(builder_.add(page_id(1, PageIndex{2}), 2, masks.data(), page.data()));
    return *this;
  }
  Built &item(ItemKind kind, const void *body, std::size_t bytes) {
    EXPECT_TRUE(builder_.add(kind, body, bytes));
    return *this;
  }
  RecordView view() {
    RecordHeaderV1 fields{};
    fields.kind = static_cast<std::uint16_t>(RecordKind::kCommit);
    fields.lsn = 4096;
    fields.generation = 1;
    fields.total_bytes = builder_.bytes();
    builder_.finish(fields);
    RecordView view;
    view.at = bytes_.data();
    std::memcpy(&view.header, view.at, sizeof view.header);
    return view;
  }
  // The payload's bytes, in hexadecimal.
  std::string payload() {
    std::string text;
    for (std::size_t i = kRecordHeaderBytes; i < builder_.bytes(); ++i) {
      constexpr const char *kDigits = "0123456789abcdef";
      text += kDigits[std::to_integer<unsigned>(bytes_[i]) >> 4];
      text += kDigits[std::to_integer<unsigned>(bytes_[i]) & 15];
    }
    return text;
  }

 private:
  std::array<std::byte, 8192> bytes_{};
  RecordBuilder builder_;
};

class Told final : public Redo {
 public:
  explicit Told(ItemKind refused = ItemKind{0xff}) : refused_(refused) {}
  bool page_difference(const PageDelta &difference) override {
    EXPECT_EQ(difference.page, page_id(1, PageIndex{2}));
    return tell(ItemKind::kPageDifference, "difference");
  }
  bool note(const NoteV2 &note, const std::byte *text, std::size_t bytes) override {
    return tell(ItemKind::kNote, "note " + std::to_string(note.topic) + " " +
                                     std::string(reinterpret_cast<const char *>(text), bytes));
  }
  bool segment_made(const SegmentMadeV2 &item) override {
    EXPECT_EQ(std::memcmp(&item, &expected_made_, sizeof item), 0);
    return tell(ItemKind::kSegmentMade, "made");
  }
  bool segment_grown(const SegmentGrownV2 &item) override {
    return tell(ItemKind::kSegmentGrown,
                "grown " + std::to_string(item.segment) + " " + std::to_string(item.size_bytes));
  }
  bool moment_named(const MomentNamedV2 &item) override {
    return tell(ItemKind::kMomentNamed, "named " + std::to_string(item.clock) + " " + item.name);
  }
  [[nodiscard]] const std::string &all() const { return all_; }

 private:
  bool tell(ItemKind kind, const std::string &what) {
    all_ += what + "; ";
    return kind != refused_;
  }
  const ItemKind refused_;
  const SegmentMadeV2 expected_made_ = made();
  std::string all_;
};

void add_all(Built *built) {
  const SegmentMadeV2 made_item = made();
  const SegmentGrownV2 grown_item = grown();
  const MomentNamedV2 named_item = named();
  const Note note;
  built->item(ItemKind::kSegmentMade, &made_item, sizeof made_item)
      .difference()
      .item(ItemKind::kNote, &note, kNoteBytes)
      .item(ItemKind::kSegmentGrown, &grown_item, sizeof grown_item)
      .difference()
      .item(ItemKind::kMomentNamed, &named_item, sizeof named_item);
}

TEST(LogItems, EachReachesItsFunctionInOrder) {
  Built built;
  add_all(&built);
  const RecordView view = built.view();
  EXPECT_EQ(view.header.items, 6U);
  EXPECT_TRUE(is_header_sane(view.header, 4096, 8192));
  EXPECT_TRUE(is_payload_sane(view));
  Told told;
  Item item;
  EXPECT_TRUE(redo_items(view, told, &item));
  EXPECT_EQ(told.all(),
            "made; difference; note 7 hello; grown 3 12288; difference; named 42 before import; ");
}

TEST(LogItems, TheFirstThatIsRefusedEndsTheWalk) {
  Built built;
  add_all(&built);
  Told told(ItemKind::kSegmentGrown);
  Item item;
  EXPECT_FALSE(redo_items(built.view(), told, &item));
  EXPECT_EQ(told.all(), "made; difference; note 7 hello; grown 3 12288; ");
  EXPECT_EQ(item.kind, ItemKind::kSegmentGrown);
  EXPECT_EQ(item_text(item), "segment 3 grown to 12288 bytes");
  EXPECT_EQ(item_segment(item), 3U);
}

TEST(LogItems, HaveTheDocumentedBytes) {
  const Note note;
  EXPECT_EQ(Built().item(ItemKind::kNote, &note, kNoteBytes).payload(),
            "0d00000000000001"
            "0700000000000000"
            "68656c6c6f000000");
  const SegmentGrownV2 grown_item = grown();
  EXPECT_EQ(Built().item(ItemKind::kSegmentGrown, &grown_item, sizeof grown_item).payload(),
            "1000000000000003"
            "0300000000000000"
            "0030000000000000");
  const MomentNamedV2 named_item = named();
  EXPECT_EQ(Built().item(ItemKind::kMomentNamed, &named_item, sizeof named_item).payload(),
            "3800000000000004"
            "2a00000000000000"
            "6265666f726520696d706f7274" +
                std::string(2 * 35, '0'));
}

TEST(LogItems, ReadAsTextBySegmentNumberAndName) {
  Built built;
  add_all(&built);
  ItemCursor cursor(built.view());
  std::string all;
  for (Item item; cursor.next(&item);)
    all += std::string(item_name(item.kind)) + ": " + item_text(item) + "\n";
  EXPECT_EQ(all,
            "segment made: segment 3 made, accounts, 8192 of at most 1048576 bytes\n"
            "page difference: page 2 of segment 1, 1 words\n"
            "note: note of topic 7, 5 bytes\n"
            "segment grown: segment 3 grown to 12288 bytes\n"
            "page difference: page 2 of segment 1, 1 words\n"
            "moment named: the moment of commit 42 named before import\n");
}

TEST(LogItems, AnyWrongFieldMakesTheRecordMalformed) {
  const auto is_sane = [](ItemKind kind, const void *body, std::size_t bytes) {
    return is_payload_sane(Built().item(kind, body, bytes).view());
  };
  const auto made_with = [&](const std::function<void(SegmentMadeV2 &)> &change) {
    SegmentMadeV2 item = made();
    change(item);
    return is_sane(ItemKind::kSegmentMade, &item, sizeof item);
  };
  EXPECT_TRUE(made_with([](SegmentMadeV2 &) {}));
  EXPECT_FALSE(made_with([](SegmentMadeV2 &item) { item.segment = kSegmentsMax; }));
  EXPECT_FALSE(made_with([](SegmentMadeV2 &item) { item.size_bytes = 0; }));
  EXPECT_FALSE(made_with([](SegmentMadeV2 &item) { item.size_bytes = 5000; }));
  EXPECT_FALSE(made_with([](SegmentMadeV2 &item) { item.max_bytes = 4096; }));
  EXPECT_FALSE(made_with([](SegmentMadeV2 &item) { item.max_bytes = 2 * kSegmentBytesMax; }));
  EXPECT_FALSE(made_with([](SegmentMadeV2 &item) { item.name[0] = 0; }));
  EXPECT_FALSE(made_with([](SegmentMadeV2 &item) { item.name[20] = 'x'; }));
  EXPECT_FALSE(
      made_with([](SegmentMadeV2 &item) { std::memset(item.name, 'x', sizeof item.name); }));
  const auto grown_with = [&](SegmentGrownV2 item) {
    return is_sane(ItemKind::kSegmentGrown, &item, sizeof item);
  };
  EXPECT_TRUE(grown_with(grown()));
  EXPECT_FALSE(grown_with({kSegmentsMax, 0, 4096}));
  EXPECT_FALSE(grown_with({3, 1, 4096}));
  EXPECT_FALSE(grown_with({3, 0, 0}));
  EXPECT_FALSE(grown_with({3, 0, 4097}));
  MomentNamedV2 moment = named();
  EXPECT_TRUE(is_sane(ItemKind::kMomentNamed, &moment, sizeof moment));
  EXPECT_FALSE(is_sane(ItemKind::kMomentNamed, &moment, sizeof moment - 8)) << "too short";
  moment.clock = 0;
  EXPECT_FALSE(is_sane(ItemKind::kMomentNamed, &moment, sizeof moment));
  const Note note;
  EXPECT_TRUE(is_sane(ItemKind::kNote, &note, sizeof(NoteV2))) << "without a text";
  EXPECT_FALSE(is_sane(ItemKind::kSegmentGrown, &note, kNoteBytes));
  EXPECT_FALSE(is_sane(ItemKind{5}, &note, kNoteBytes)) << "of a later version";
}

TEST(LogItems, ZerosBehindABodyAreChecked) {
  const Note note;
  Built built;
  built.item(ItemKind::kNote, &note, kNoteBytes);
  const RecordView view = built.view();
  ASSERT_TRUE(is_payload_sane(view));
  const_cast<std::byte *>(view.at)[view.header.length - 1] = std::byte{1};
  EXPECT_FALSE(is_payload_sane(view));
}

TEST(LogItems, HostileItemsAreReadWithinTheirBytes) {
  std::mt19937_64 random(seed());
  const std::size_t room = 8192;
  auto *const base = static_cast<std::byte *>(
      mmap(nullptr, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(base, MAP_FAILED);
  ASSERT_EQ(mprotect(base + room, 4096, PROT_NONE), 0);
  std::uint64_t malformed = 0, walked = 0;
  for (int round = 0; round < 20'000; ++round) {
    Built built;
    add_all(&built);
    const RecordView view = built.view();
    std::vector<std::byte> payload(view.at + kRecordHeaderBytes, view.at + view.header.length);
    for (std::uint64_t i = random() % 3; i > 0; --i)
      payload[random() % payload.size()] = std::byte(random() % 4 == 0 ? 0xff : random() % 8);
    if (random() % 2 == 0) payload.resize(random() % (payload.size() + 1));
    std::byte *const at = base + room - payload.size();
    std::memcpy(at, payload.data(), payload.size());
    ItemCursor cursor(at, payload.size());
    for (Item item; cursor.next(&item); ++walked) static_cast<void>(item_text(item));
    malformed += cursor.is_malformed() ? 1U : 0U;
  }
  EXPECT_GT(malformed, 1000U);
  EXPECT_GT(walked, 1000U);
  munmap(base, room + 4096);
}

// Of a record that the log has behind a checkpoint: what the planner says of it, and to what sizes
// the segments are to grow.
class LogItemsPlanned : public ::testing::Test {
 protected:
  LogItemsPlanned() : rig_(folder_.path()) {}
  Errc plan(ItemKind kind, const void *body, std::size_t bytes, bool may_grow) {
    rig_.append_item(kind, body, bytes);
    rig_.sync();
    CheckpointFile file;
    EXPECT_EQ(file.open(folder_.path(), rig_.control().header.domain_id), Errc::kOk);
    LogSource source(folder_.path(), "", rig_.identity());
    EXPECT_EQ(source.open(), Errc::kOk);
    DataFiles files(folder_.path(), rig_.control(), may_grow);
    LogPlan plan;
    const CheckpointV1 from = file.current();
    LogPlanner planner(source, from, {}, {rig_.control(), files, may_grow, false}, &plan);
    const Errc error = planner.make(LogReader::Depth::kWhole, [](Lsn) {});
    to_grow_to_ = files.bytes_to_grow_to(0);
    return error;
  }
  TempFolder folder_;
  LogRig rig_;
  std::uint64_t to_grow_to_ = 0;
};

TEST_F(LogItemsPlanned, ASegmentOfABackupGrows) {
  const SegmentGrownV2 item{0, 0, rig_.control().segments[0].max_bytes};
  const bool has_room = item.size_bytes > rig_.control().segments[0].size_bytes;
  EXPECT_EQ(plan(ItemKind::kSegmentGrown, &item, sizeof item, true), Errc::kOk);
  EXPECT_EQ(to_grow_to_, has_room ? item.size_bytes : 0);
}

TEST_F(LogItemsPlanned, ASegmentThatShouldBeLargerIsDamage) {
  const SegmentGrownV2 item{0, 0, rig_.control().segments[0].size_bytes + kPageBytes};
  EXPECT_EQ(plan(ItemKind::kSegmentGrown, &item, sizeof item, false), Errc::kLogDamaged);
}

TEST_F(LogItemsPlanned, ABackupFromBeforeASegmentIsBroughtToEarlierMomentsOnly) {
  const SegmentMadeV2 item = made();
  EXPECT_EQ(plan(ItemKind::kSegmentMade, &item, sizeof item, true), Errc::kBadArgument);
}

TEST_F(LogItemsPlanned, ASegmentThatTheDomainHasNotIsDamage) {
  const SegmentMadeV2 item = made();
  EXPECT_EQ(plan(ItemKind::kSegmentMade, &item, sizeof item, false), Errc::kLogDamaged);
}

TEST_F(LogItemsPlanned, NotesAndNamesAreNoWork) {
  const Note note;
  EXPECT_EQ(plan(ItemKind::kNote, &note, kNoteBytes, false), Errc::kOk);
  const MomentNamedV2 item = named();
  EXPECT_EQ(plan(ItemKind::kMomentNamed, &item, sizeof item, false), Errc::kOk);
}

TEST_F(LogItemsPlanned, RecoveryGoesOnBehindThem) {
  rig_.commit({{0, 1, 1, 11}});
  const Note note;
  rig_.append_item(ItemKind::kNote, &note, kNoteBytes);
  rig_.commit({{0, 1, 2, 22}});
  rig_.sync();
  RecoveryReport report;
  EXPECT_EQ(rig_.recover_only(&report), Errc::kOk);
  EXPECT_EQ(report.transactions, 3U);
  EXPECT_EQ(rig_.home(), rig_.expected());
}

// A power cut on the way from a header of version 1 to one of version 2 leaves either, or of each
// sector either. Both differ in two sectors.
TEST_F(LogItemsPlanned, AHeaderThatIsTornOnTheWayFromVersion1IsRight) {
  const LogFileHeaderV1 now = make_log_file_header(rig_.identity(), 0);
  const std::string path = rig_.log_path(0);
  LogFileHeaderV1 old = now;
  old.format_version = 1;
  old.crc = crc32c(0, &old, offsetof(LogFileHeaderV1, crc));
  for (const bool has_new_version : {false, true}) {
    for (const bool has_new_crc : {false, true}) {
      LogFileHeaderV1 torn = old;
      if (has_new_version) torn.format_version = now.format_version;
      if (has_new_crc) torn.crc = now.crc;
      std::string why;
      EXPECT_EQ(verify_log_file_header(torn, rig_.identity(), 0, &why), Errc::kOk) << why;
      platform::DiskFile file;
      ASSERT_EQ(file.open(path, platform::DiskFile::Mode::kReadWrite), Errc::kOk);
      ASSERT_EQ(file.write(0, &torn, sizeof torn), Errc::kOk);
      ASSERT_EQ(update_log_file_header(&file, torn, rig_.identity(), 0), Errc::kOk);
      LogFileHeaderV1 found{};
      std::size_t got = 0;
      ASSERT_EQ(file.read(0, &found, sizeof found, &got), Errc::kOk);
      EXPECT_EQ(std::memcmp(&found, &now, sizeof now), 0);
    }
  }
  old.reserved_zero[5] = 1;
  std::string why;
  EXPECT_EQ(verify_log_file_header(old, rig_.identity(), 0, &why), Errc::kCorrupt);
}

}  // namespace
}  // namespace tmh::test
