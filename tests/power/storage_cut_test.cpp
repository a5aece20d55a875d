// tests/power/storage_cut_test.cpp -- the storage layer's own small protocols, with the power cut
// behind each of their operations.
// Shape:      one protocol at a time, every cut of it, many images of each cut
//             (tests/power/simulated_disk.h).
// Invariants: (1) a log file that has its name is whole: made, recycled or copied; it has it when
//             the call returns. (2) a log file that is archived is in the folder or in the archive,
//             whole, and in the archive when the call returns. (3) of the checkpoint there is
//             always a valid slot, never older than the last one that was stored, whoever died in
//             between.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "platform/disk.h"
#include "platform/failure.h"
#include "storage/checkpoint_file.h"
#include "storage/log/log_files.h"
#include "tests/power/journal.h"
#include "tests/power/run.h"
#include "tests/power/simulated_disk.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {
namespace {

using namespace storage;
using platform::DiskOp;

class StorageCutTest : public testing::Test {
 protected:
  // Of one cut: each file, and the names, lean to one of six tastes.
  static constexpr std::uint64_t kImages = 60;

  void SetUp() override {
    for (const std::string &folder : {domain_, archive_}) std::filesystem::create_directory(folder);
  }
  void TearDown() override { record_into(nullptr); }

  // What is there now is durable; what follows is recorded.
  void begin() {
    disk_.load();
    record_into(&journal_);
  }
  // judge(folder, is_last): an image of a cut behind each entry; is_last: behind the last one.
  using Judge = std::function<void(const std::string &, bool)>;
  void cut_everywhere(const Judge &judge) {
    record_into(nullptr);
    const std::vector<Entry> entries = journal_.read();
    ASSERT_FALSE(entries.empty());
    for (std::size_t i = 0; i < entries.size() && !HasFailure(); ++i) {
      disk_.apply(entries[i]);
      for (std::uint64_t image = 0; image < kImages && !HasFailure(); ++image) {
        const MemoryFolder to;
        disk_.build_image(to.path(), seed() + image);
        SCOPED_TRACE("behind entry " + std::to_string(i + 1) + " of " +
                     std::to_string(entries.size()) + ", image " + std::to_string(seed() + image));
        judge(to.path(), i + 1 == entries.size());
      }
    }
    EXPECT_EQ(disk_.strays(), std::vector<std::string>{});
  }
  [[nodiscard]] static bool has(const std::string &folder, std::uint64_t index) {
    return std::filesystem::exists(log_file_path(folder, index));
  }
  void expect_whole(const std::string &folder, std::uint64_t index) const {
    EXPECT_EQ(verify_log_file(log_file_path(folder, index), log_, index), Errc::kOk)
        << platform::failure_detail();
  }
  void make_log_file(std::uint64_t index) const {
    ASSERT_EQ(create_log_file(domain_, log_, index), Errc::kOk);
    patch_file(log_file_path(domain_, index), kRecordsAt, kRecords);
  }

  static constexpr std::size_t kRecordsAt = 5000;
  const std::string kRecords = "records";
  const LogIdentity log_{{1, 2}, kLogFileBytesMin};
  MemoryFolder folder_;
  const std::string domain_ = folder_.path() + "/domain", archive_ = folder_.path() + "/archive";
  Journal journal_{1u << 12, 1u << 26};
  SimulatedDisk disk_{folder_.path()};
};

TEST_F(StorageCutTest, ALogFileThatHasItsNameIsWhole) {
  begin();
  ASSERT_EQ(create_log_file(domain_, log_, 0), Errc::kOk);
  cut_everywhere([&](const std::string &image, bool is_last) {
    if (has(image + "/domain", 0)) expect_whole(image + "/domain", 0);
    EXPECT_TRUE(!is_last || has(image + "/domain", 0));
  });
}

TEST_F(StorageCutTest, ARecycledLogFileHasItsNewHeaderWhenItHasItsName) {
  make_log_file(0);
  begin();
  ASSERT_EQ(recycle_log_file(domain_, log_, 0, 1), Errc::kOk);
  cut_everywhere([&](const std::string &image, bool is_last) {
    if (has(image + "/domain", 1)) expect_whole(image + "/domain", 1);
    EXPECT_TRUE(!is_last || has(image + "/domain", 1));
  });
}

TEST_F(StorageCutTest, AnArchivedLogFileIsInOneOfBothFolders) {
  make_log_file(0);
  begin();
  ASSERT_EQ(archive_log_file(domain_, archive_, 0), Errc::kOk);
  cut_everywhere([&](const std::string &image, bool is_last) {
    const bool is_archived = has(image + "/archive", 0);
    const std::string folder = image + (is_archived ? "/archive" : "/domain");
    EXPECT_TRUE(is_archived || !is_last);
    expect_whole(folder, 0);
    EXPECT_EQ(read_file(log_file_path(folder, 0)).substr(kRecordsAt, kRecords.size()), kRecords);
  });
}

TEST_F(StorageCutTest, ACopiedLogFileThatHasItsNameIsWhole) {
  make_log_file(0);
  const std::string bytes = read_file(log_file_path(domain_, 0));
  begin();
  ASSERT_EQ(copy_log_file(domain_, archive_, 0), Errc::kOk);
  cut_everywhere([&](const std::string &image, bool is_last) {
    const bool is_there = has(image + "/archive", 0);
    EXPECT_TRUE(is_there || !is_last);
    EXPECT_TRUE(!is_there || read_file(log_file_path(image + "/archive", 0)) == bytes);
  });
}

class CheckpointCutTest : public StorageCutTest {
 protected:
  CheckpointCutTest() {
    first_.generation = 1;
    first_.domain_id[0] = log_.domain_id[0];
    first_.domain_id[1] = log_.domain_id[1];
    first_.log_file_bytes = kLogFileBytesMin;
    first_.lsn = first_.durable_lsn = kFirstLsn;
  }
  static void store_next(CheckpointFile *file) {
    CheckpointV1 next = file->current();
    next.lsn = next.durable_lsn = next.lsn + 8;
    ASSERT_EQ(file->store(next), Errc::kOk);
  }
  // 0: no checkpoint.
  [[nodiscard]] std::uint64_t sequence_in(const std::string &image) const {
    CheckpointFile file;
    const Errc error = file.open(image + "/domain", log_.domain_id);
    EXPECT_TRUE(error == Errc::kOk || error == Errc::kLogMissing) << platform::failure_detail();
    return error == Errc::kOk ? file.current().sequence : 0;
  }
  CheckpointV1 first_{};
};

TEST_F(CheckpointCutTest, AStoredSlotIsThereAndOneThatIsBeingStoredCostsNothing) {
  begin();
  CheckpointFile file;
  ASSERT_EQ(file.create(domain_, first_), Errc::kOk);
  std::vector<std::uint64_t> stored_by;  // entries when it had been stored
  for (int i = 0; i < 4; ++i) {
    stored_by.push_back(journal_.count());
    store_next(&file);
  }
  std::uint64_t entries = 0, image_of_cut = 0;
  cut_everywhere([&](const std::string &image, bool is_last) {
    entries += image_of_cut++ % kImages == 0 ? 1U : 0U;
    std::uint64_t least = 0;
    for (std::size_t i = 0; i < stored_by.size(); ++i)
      if (entries >= stored_by[i]) least = 2 + i;
    EXPECT_GE(sequence_in(image), is_last ? 2 + stored_by.size() : least);
  });
}

struct Dying {
  Journal *journal = nullptr;
  std::uint64_t at_slot = 0;  // dies when that has been written, and nobody has been told
  std::uint64_t slot = ~0ull;
} dying;
int record_and_die(const platform::DiskEvent &event) {
  if (event.op == DiskOp::kWriteDurable) dying.slot = event.offset / sizeof(CheckpointV1);
  if (event.op == DiskOp::kWriteDone && dying.slot == dying.at_slot) raise(SIGKILL);
  dying.journal->append(static_cast<std::uint32_t>(event.op), event.path, event.path2, event.offset,
                        event.data, event.bytes);
  return 0;
}

// Where write and sync are two calls, what a killed process has written is there for all to see,
// and not on disk.
TEST_F(CheckpointCutTest, ASlotWhoseWriterDiedIsNotReliedOn) {
  CheckpointFile file;
  ASSERT_EQ(file.create(domain_, first_), Errc::kOk);
  store_next(&file);
  const std::uint64_t durable = file.current().sequence;
  begin();
  dying = {&journal_, (durable + 1) % 2, ~0ull};
  Children children;
  children.spawn("victim", [&] {
    platform::set_disk_hook(record_and_die);
    CheckpointFile own;
    ASSERT_EQ(own.open(domain_, log_.domain_id), Errc::kOk);
    store_next(&own);
  });
  EXPECT_EQ(children.wait(0).signal, SIGKILL);
  journal_.note(Note::kDied, static_cast<std::uint64_t>(children.pid(0)));
  note_what_was_done(&journal_, children.pid(0));
  CheckpointFile heir;
  ASSERT_EQ(heir.open(domain_, log_.domain_id), Errc::kOk);
  ASSERT_EQ(heir.current().sequence, durable + 1);
  store_next(&heir);
  cut_everywhere([&](const std::string &image, bool is_last) {
    EXPECT_GE(sequence_in(image), is_last ? durable + 2 : durable);
  });
}

}  // namespace
}  // namespace tmh::test::power
