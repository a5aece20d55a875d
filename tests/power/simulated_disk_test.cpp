// tests/power/simulated_disk_test.cpp -- the power-cut simulator on trial: what it may lose, what
// it must keep, and toy protocols it judges.
// Invariants: (1) what was synced is in every image, (2) everything that may be lost or torn is so
//             in some image, (3) a right write-ahead protocol survives every cut, and each planted
//             omission in it is found.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "platform/disk.h"
#include "storage/crc32c.h"
#include "tests/power/journal.h"
#include "tests/power/run.h"
#include "tests/power/simulated_disk.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {
namespace {

using platform::DiskFile;
using platform::DiskOp;

// With six tastes per file, each combination of two files comes up several times.
constexpr std::uint64_t kImages = 400;

// The contents of file `name` in many images of one cut; nullopt: it is not there.
using Outcomes = std::set<std::optional<std::string>>;

class SimulatedDiskTest : public testing::Test {
 protected:
  void SetUp() override { record_into(&journal_); }
  void TearDown() override { record_into(nullptr); }

  [[nodiscard]] Outcomes outcomes(const std::string &name, std::uint64_t cut = ~0ull) const {
    SimulatedDisk disk(folder_.path());
    for (const Entry &entry : journal_.read()) {
      if (entry.number <= cut) disk.apply(entry);
    }
    Outcomes all;
    for (std::uint64_t image = 0; image < kImages; ++image) {
      const MemoryFolder to;
      disk.build_image(to.path(), seed() + image);
      const bool exists = std::filesystem::exists(to / name);
      all.insert(exists ? std::optional<std::string>(read_file(to / name)) : std::nullopt);
    }
    return all;
  }
  // A file that exists durably, empty.
  DiskFile make(const std::string &name) {
    DiskFile file;
    EXPECT_EQ(file.open(folder_ / name, DiskFile::Mode::kCreate), Errc::kOk);
    EXPECT_EQ(platform::sync_folder(folder_.path()), Errc::kOk);
    return file;
  }
  static void write(DiskFile *file, std::uint64_t offset, const std::string &text) {
    ASSERT_EQ(file->write(offset, text.data(), text.size()), Errc::kOk);
  }
  // One sector of a letter each.
  [[nodiscard]] static std::string sectors(const std::string &letters) {
    std::string text;
    for (const char letter : letters) text += std::string(kSectorBytes, letter);
    return text;
  }

  MemoryFolder folder_;
  Journal journal_{1u << 16, 1u << 24};
};

TEST_F(SimulatedDiskTest, SyncedContentIsInEveryImage) {
  DiskFile file = make("f");
  write(&file, 0, sectors("ab"));
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{sectors("ab")}));
}

TEST_F(SimulatedDiskTest, UnsyncedSectorsAreLostOrKeptIndependently) {
  DiskFile file = make("f");
  write(&file, 0, sectors("ab"));
  ASSERT_EQ(file.sync(), Errc::kOk);
  write(&file, 0, sectors("xy"));
  EXPECT_EQ(outcomes("f"), (Outcomes{sectors("ab"), sectors("xb"), sectors("ay"), sectors("xy")}));
}

TEST_F(SimulatedDiskTest, SectorHoldsAnyOfItsUnsyncedContents) {
  DiskFile file = make("f");
  for (const char *text : {"a", "b", "c"}) write(&file, 0, sectors(text));
  EXPECT_EQ(outcomes("f"), (Outcomes{"", std::string(kSectorBytes, '\0'), sectors("a"),
                                     sectors("b"), sectors("c")}));
}

TEST_F(SimulatedDiskTest, LengthMayLagBehindContentUntilTheSync) {
  DiskFile file = make("f");
  ASSERT_EQ(file.truncate(2 * kSectorBytes), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{"", std::string(2 * kSectorBytes, '\0')}));
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{std::string(2 * kSectorBytes, '\0')}));
}

TEST_F(SimulatedDiskTest, DurableWriteCountsOnceItIsDone) {
  DiskFile file = make("f");
  ASSERT_EQ(file.truncate(platform::kDiskBlockBytes), Errc::kOk);
  ASSERT_EQ(file.sync(), Errc::kOk);
  alignas(platform::kDiskBlockBytes) static char block[platform::kDiskBlockBytes];
  std::memset(block, 'a', sizeof block);
  ASSERT_EQ(file.write_durable(0, block, sizeof block), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{std::string(sizeof block, 'a')}));
  EXPECT_GT(outcomes("f", journal_.count() - 1).size(), 20u);  // eight sectors, each there or not
}

TEST_F(SimulatedDiskTest, WriteDuringASyncIsNotCoveredByIt) {
  DiskFile file = make("f");
  const std::string path = folder_ / "f", a = sectors("a"), b = sectors("b");
  const auto append = [&](DiskOp op, const std::string &data) {
    journal_.append(static_cast<std::uint32_t>(op), path.c_str(), nullptr, 0, data.data(),
                    data.size());
  };
  append(DiskOp::kWrite, a);
  append(DiskOp::kSync, "");
  append(DiskOp::kHomeWrite, b);
  append(DiskOp::kSyncDone, "");
  EXPECT_EQ(outcomes("f"), (Outcomes{a, b}));
}

TEST_F(SimulatedDiskTest, NamesAreLostUntilTheFolderIsSynced) {
  DiskFile file;
  ASSERT_EQ(file.open(folder_ / "f", DiskFile::Mode::kCreate), Errc::kOk);
  write(&file, 0, "x");
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{std::nullopt, "x"}));
  ASSERT_EQ(platform::sync_folder(folder_.path()), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{"x"}));
  ASSERT_EQ(platform::disk_rename(folder_ / "f", folder_ / "g"), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{std::nullopt, "x"}));
  EXPECT_EQ(outcomes("g"), (Outcomes{std::nullopt, "x"}));
  ASSERT_EQ(platform::sync_folder(folder_.path()), Errc::kOk);
  ASSERT_EQ(platform::disk_unlink(folder_ / "g"), Errc::kOk);
  EXPECT_EQ(outcomes("g"), (Outcomes{std::nullopt, "x"}));
  ASSERT_EQ(platform::sync_folder(folder_.path()), Errc::kOk);
  EXPECT_EQ(outcomes("g"), (Outcomes{std::nullopt}));
}

TEST_F(SimulatedDiskTest, RenameReplacesAsAWhole) {
  DiskFile old_file = make("f");
  write(&old_file, 0, "old");
  ASSERT_EQ(old_file.sync(), Errc::kOk);
  DiskFile new_file = make("f.new");
  write(&new_file, 0, "new");
  ASSERT_EQ(new_file.sync(), Errc::kOk);
  ASSERT_EQ(platform::disk_rename(folder_ / "f.new", folder_ / "f"), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{"old", "new"}));
}

TEST_F(SimulatedDiskTest, WriteOfAKilledProcessMayNeverHaveHappened) {
  DiskFile file = make("f");
  const std::string path = folder_ / "f", a = sectors("a");
  Children children;
  children.spawn("victim", [&] {
    journal_.append(static_cast<std::uint32_t>(DiskOp::kWrite), path.c_str(), nullptr, 0, a.data(),
                    a.size());
    raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(0).signal, SIGKILL);
  journal_.note(Note::kDied, static_cast<std::uint64_t>(children.pid(0)));
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_TRUE(outcomes("f").contains(""));
}

TEST_F(SimulatedDiskTest, LengthOfAKilledProcessIsOpenUntilALaterOneIsSynced) {
  DiskFile file = make("f");
  const std::string path = folder_ / "f";
  Children children;
  children.spawn("victim", [&] {
    journal_.append(static_cast<std::uint32_t>(DiskOp::kTruncate), path.c_str(), nullptr,
                    kSectorBytes, nullptr, 0);
    raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(0).signal, SIGKILL);
  journal_.note(Note::kDied, static_cast<std::uint64_t>(children.pid(0)));
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{"", std::string(kSectorBytes, '\0')}));
  ASSERT_EQ(file.truncate(2 * kSectorBytes), Errc::kOk);
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{std::string(2 * kSectorBytes, '\0')}));
}

// A survivor that finds the file long enough relies on its own sync, and records no length.
TEST_F(SimulatedDiskTest, LengthThatAKilledProcessLeftIsCoveredByASurvivorsSync) {
  DiskFile file = make("f");
  Children children;
  children.spawn("dies behind it", [&] {
    static_cast<void>(file.truncate(kSectorBytes));
    raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(0).signal, SIGKILL);
  children.spawn("dies before it", [&] {
    const std::string path = folder_ / "f";
    journal_.append(static_cast<std::uint32_t>(DiskOp::kTruncate), path.c_str(), nullptr,
                    2 * kSectorBytes, nullptr, 0);
    raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(1).signal, SIGKILL);
  for (const std::size_t child : {0u, 1u}) {
    journal_.note(Note::kDied, static_cast<std::uint64_t>(children.pid(child)));
    note_what_was_done(&journal_, children.pid(child));
  }
  EXPECT_EQ(outcomes("f"), (Outcomes{"", std::string(kSectorBytes, '\0')}));
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{std::string(kSectorBytes, '\0')}));
}

// The folder is synced before anybody uses the new name.
TEST_F(SimulatedDiskTest, RenameOfAKilledProcessHasHappenedWhenItsNewNameIsUsed) {
  DiskFile file = make("f.new");
  write(&file, 0, "x");
  ASSERT_EQ(file.sync(), Errc::kOk);
  Children children;
  children.spawn("victim", [&] {
    static_cast<void>(platform::disk_rename(folder_ / "f.new", folder_ / "f"));
    raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(0).signal, SIGKILL);
  journal_.note(Note::kDied, static_cast<std::uint64_t>(children.pid(0)));
  ASSERT_EQ(platform::sync_folder(folder_.path()), Errc::kOk);
  ASSERT_EQ(file.open(folder_ / "f", DiskFile::Mode::kReadWrite), Errc::kOk);
  write(&file, 0, "y");
  ASSERT_EQ(file.sync(), Errc::kOk);
  EXPECT_EQ(outcomes("f"), (Outcomes{"y"}));
}

TEST_F(SimulatedDiskTest, RebuildableFilesAreNotInAnImage) {
  for (const char *name :
       {"tmh.state", "tmh.pages.3", "tmh.versions.data", "tmh.log.state", "tmh.lock"}) {
    DiskFile file = make(name);
    EXPECT_EQ(outcomes(name), (Outcomes{std::nullopt})) << name;
  }
  DiskFile file = make("tmh.control");
  EXPECT_EQ(outcomes("tmh.control"), (Outcomes{""}));
}

TEST_F(SimulatedDiskTest, SavedJournalGivesTheSameImages) {
  DiskFile file = make("f");
  write(&file, 0, sectors("abc"));
  const MemoryFolder elsewhere;
  journal_.save(elsewhere / "saved");
  const Journal loaded(elsewhere / "saved");
  const auto all = journal_.read(), again = loaded.read();
  ASSERT_EQ(all.size(), again.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].path, again[i].path);
    EXPECT_EQ(all[i].number, again[i].number);
    EXPECT_TRUE(std::equal(all[i].data.begin(), all[i].data.end(), again[i].data.begin(),
                           again[i].data.end()));
  }
}

TEST_F(SimulatedDiskTest, KilledAppendersDoNotWedgeTheOrder) {
  constexpr std::uint64_t kPerChild = 2000;
  Children children;
  for (int i = 0; i < 4; ++i) {
    children.spawn("appender", [&] {
      for (std::uint64_t n = 1; n <= kPerChild; ++n)
        journal_.note(Note::kDurableUpTo, n, &n, sizeof n);
      raise(SIGKILL);
    });
  }
  for (std::size_t i = 0; i < 4; ++i) children.bury(i);
  std::map<std::int32_t, std::uint64_t> last;
  for (const Entry &entry : journal_.read()) {
    EXPECT_EQ(entry.offset, ++last[entry.process]) << "entries of one process are in its own order";
    std::uint64_t copy = 0;
    ASSERT_EQ(entry.data.size(), sizeof copy);
    std::memcpy(&copy, entry.data.data(), sizeof copy);
    EXPECT_EQ(copy, entry.offset);
  }
}

// A toy of the engine: a log of checked records, data written home after it, and one omission at a
// time.
enum class Omission { kNone, kLogSync, kHomeFirst, kCrc, kDataSyncBeforeReset, kFolderSync };

struct ToyRecord {
  std::uint64_t round, value;
  std::uint64_t filler[90];  // larger than a sector: it can be torn
  std::uint64_t crc;
};

constexpr std::uint64_t kRounds = 24, kRoundsPerLog = 6;
constexpr std::uint64_t kCellsPerSector = kSectorBytes / 8;
// Round r stands in cell r of every sector.
constexpr std::uint64_t kToyCells = 4 * kCellsPerSector;

[[nodiscard]] std::uint64_t toy_crc(const ToyRecord &record) {
  return storage::crc32c(0, &record, offsetof(ToyRecord, crc));
}

class Toy {
 public:
  Toy(const std::string &folder, Journal *journal, Omission omission)
      : folder_(folder), journal_(journal), omission_(omission) {}

  void run() {
    expect_ok(log_.open(folder_ + "/log", DiskFile::Mode::kCreate));
    expect_ok(data_.open(folder_ + "/data", DiskFile::Mode::kCreate));
    if (omission_ != Omission::kFolderSync) expect_ok(platform::sync_folder(folder_));
    expect_ok(data_.truncate(kToyCells * 8));
    expect_ok(data_.sync());
    for (std::uint64_t round = 1; round <= kRounds; ++round) commit(round);
  }

 private:
  static void expect_ok(Errc error) { EXPECT_EQ(error, Errc::kOk); }

  void commit(std::uint64_t round) {
    ToyRecord record{};
    record.round = round;
    record.value = round * 1000;
    for (std::uint64_t &word : record.filler) word = round;
    record.crc = toy_crc(record);
    if (omission_ == Omission::kHomeFirst) go_home(round);
    expect_ok(log_.write((round - 1) % kRoundsPerLog * sizeof record, &record, sizeof record));
    if (omission_ != Omission::kLogSync) expect_ok(log_.sync());
    journal_->note(Note::kStrictAck, round);
    if (omission_ != Omission::kHomeFirst) go_home(round);
    // Before the log is written over from its beginning, data must be at home.
    if (round % kRoundsPerLog == 0 && omission_ != Omission::kDataSyncBeforeReset)
      expect_ok(data_.sync());
  }
  void go_home(std::uint64_t round) {
    for (std::uint64_t cell = round; cell < kToyCells; cell += kCellsPerSector)
      expect_ok(data_.write(cell * 8, &round, sizeof round));
  }

  std::string folder_;
  Journal *journal_;
  Omission omission_;
  DiskFile log_, data_;
};

// Recovers a toy's image; empty when it holds a prefix with every acknowledged round.
std::string judge_toy(const std::string &folder, std::uint64_t acknowledged, Omission omission) {
  if (!std::filesystem::exists(folder + "/log") || !std::filesystem::exists(folder + "/data"))
    return acknowledged == 0 ? "" : "a file is gone";
  std::string data = read_file(folder + "/data"), log = read_file(folder + "/log");
  data.resize(kToyCells * 8);
  std::vector<std::uint64_t> cells(kToyCells);
  std::memcpy(cells.data(), data.data(), data.size());
  for (std::size_t at = 0; at + sizeof(ToyRecord) <= log.size(); at += sizeof(ToyRecord)) {
    ToyRecord record;
    std::memcpy(&record, log.data() + at, sizeof record);
    if (record.round == 0 || record.round > kRounds) continue;
    if (omission != Omission::kCrc && record.crc != toy_crc(record)) continue;
    for (std::uint64_t cell = record.round; cell < kToyCells; cell += kCellsPerSector)
      cells[cell] = record.filler[89];
  }
  std::uint64_t last = 0;
  while (last < kRounds && cells[last + 1] == last + 1) ++last;
  if (last < acknowledged) return "acknowledged rounds are lost";
  for (std::uint64_t cell = 0; cell < kToyCells; ++cell) {
    const std::uint64_t round = cell % kCellsPerSector;
    if (cells[cell] != (round <= last ? round : 0)) return "the state is no prefix";
  }
  return "";
}

class ToyProtocolTest : public testing::TestWithParam<Omission> {};

TEST_P(ToyProtocolTest, OnlyTheRightOneSurvivesEveryCut) {
  const MemoryFolder folder;
  Journal journal(1u << 16, 1u << 24);
  record_into(&journal);
  Toy(folder.path(), &journal, GetParam()).run();
  record_into(nullptr);
  SimulatedDisk disk(folder.path());
  std::uint64_t acknowledged = 0, found = 0, images = 0;
  for (const Entry &entry : journal.read()) {
    disk.apply(entry);
    if (entry.is_note() && entry.note() == Note::kStrictAck) acknowledged = entry.offset;
    for (std::uint64_t image = 0; image < 8; ++image, ++images) {
      const MemoryFolder to;
      disk.build_image(to.path(), seed() + entry.number * 8 + image);
      const std::string why = judge_toy(to.path(), acknowledged, GetParam());
      if (!why.empty()) ++found;
      if (GetParam() == Omission::kNone) {
        EXPECT_EQ(why, "") << "after entry " << entry.number;
      }
    }
  }
  EXPECT_TRUE(disk.strays().empty());
  EXPECT_EQ(found == 0, GetParam() == Omission::kNone)
      << found << " of " << images << " images are wrong";
}

INSTANTIATE_TEST_SUITE_P(Omissions, ToyProtocolTest,
                         testing::Values(Omission::kNone, Omission::kLogSync, Omission::kHomeFirst,
                                         Omission::kCrc, Omission::kDataSyncBeforeReset,
                                         Omission::kFolderSync));

}  // namespace
}  // namespace tmh::test::power
