// tests/storage/log_damage_test.cpp -- damaged logs and checkpoint files, byte by byte.
// Invariants: (1) recovery of a damaged log gives a prefix of the transactions that holds
//             everything which the undamaged rest proves to have been durable, or a specific error;
//             never a crash, a hang or other data. (2) one damaged slot of the checkpoint file
//             costs nothing. (3) every refusal names the file.
// Method:     a small log: every byte flipped, the file cut at every length, every chunk copied
//             over its neighbour. A large one: random mutations, TMH_LOG_MUTATIONS of them.
//             (tests/storage/fuzz_control_test.cpp does the same to tmh.control.) Under a sanitizer
//             a sample of the bytes, another one with each seed.
#include <algorithm>
#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "platform/failure.h"
#include "tests/support/log_rig.h"
#include "tests/support/seed.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using namespace storage;
namespace fs = std::filesystem;

class LogDamageTest : public testing::Test {
 protected:
  struct Tally {
    std::uint64_t refused = 0, whole = 0, shortened = 0;
  };

  void SetUp() override {
    ASSERT_EQ(rig_.write_small_log(), Errc::kOk);
    files_ = rig_.snapshot();
    log_ = files_.at("tmh.log.0000000000");
  }

  // Every one, or every n-th where everything takes n times as long.
  [[nodiscard]] bool is_in_sample() {
    return build_slowdown() == 1 || random_() % build_slowdown() == 0;
  }

  // How many transactions the records outside [from, to) of the log prove to have been durable. The
  // checkpoint proves its own lsn.
  [[nodiscard]] std::size_t proved(Lsn from, Lsn to) const {
    Lsn durable = 0;
    for (const LogRig::Record &record : rig_.records()) {
      if (record.generation == rig_.generation() && (record.end <= from || record.at >= to))
        durable = std::max(durable, record.durable_before);
    }
    return rig_.count_before(durable);
  }

  // Recovers what lies in the folder and judges it. `damage`: the bytes of the log that may differ.
  void judge(Lsn from, Lsn to, const std::string &what) {
    RecoveryReport report;
    const Errc error = rig_.recover_only(&report);
    if (error != Errc::kOk) {
      ++tally_.refused;
      ASSERT_TRUE(error == Errc::kLogDamaged || error == Errc::kLogMissing)
          << what << ": " << message(error);
      ASSERT_NE(platform::failure_detail().find("tmh."), std::string::npos)
          << platform::failure_detail();
      ASSERT_EQ(rig_.prefix_of(rig_.home()), rig_.prefix_of(start_))
          << what << ": refused, and stored something";
      return;
    }
    const int found = rig_.prefix_of(rig_.home());
    ASSERT_GE(found, static_cast<int>(proved(from, to)))
        << what << ": end " << report.end_lsn << ", replayed " << report.transactions << ", torn "
        << report.tail_was_torn;
    if (found == static_cast<int>(rig_.transactions().size()))
      ++tally_.whole;
    else
      ++tally_.shortened;
  }

  // Everything but log files as it was; the log file too, when a recovery changed it.
  void put_back() {
    for (const auto &[name, bytes] : files_) {
      if (!name.starts_with("tmh.log.")) write_file(rig_.folder() + "/" + name, bytes);
    }
    if (!fs::exists(rig_.log_path(0)) || fs::file_size(rig_.log_path(0)) != log_.size())
      write_file(rig_.log_path(0), log_);
    else
      patch_file(rig_.log_path(0), 0, log_.substr(0, 4096));
  }

  // Puts `bytes` at `at`, judges, and puts everything back.
  void try_bytes(std::size_t at, const std::string &bytes, const std::string &what) {
    if (log_.compare(at, bytes.size(), bytes) == 0) return;
    patch_file(rig_.log_path(0), at, bytes);
    // Damage of the file's header leaves every record whole; what differs is what counts, not what
    // was written.
    std::size_t first = 0;
    while (bytes[first] == log_[at + first]) ++first;
    std::size_t last = bytes.size();
    while (bytes[last - 1] == log_[at + last - 1]) --last;
    judge(at + first, at + last, what);
    put_back();
    patch_file(rig_.log_path(0), at, log_.substr(at, bytes.size()));
  }

  [[nodiscard]] std::size_t used() const { return rig_.end() + 512; }

  MemoryFolder folder_;
  LogRig rig_{folder_.path()};
  LogRig::Files files_;
  LogRig::Image start_ = rig_.home();
  std::string log_;
  Tally tally_;
  std::mt19937_64 random_{seed()};
};

TEST_F(LogDamageTest, EveryFlippedByteOfTheLog) {
  start_ = rig_.home();
  std::mt19937_64 random(seed());
  for (std::size_t at = 0; at < used(); ++at) {
    if (!is_in_sample()) continue;
    for (const char flip : {static_cast<char>(1 << random() % 8), static_cast<char>(0xff)}) {
      const char damaged = static_cast<char>(log_[at] ^ flip);
      try_bytes(at, std::string(1, damaged),
                "byte " + std::to_string(at) + " ^ " + std::to_string(flip & 0xff));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(tally_.refused, 4096U / build_slowdown())
      << "the header, and the records that are proved durable";
  EXPECT_GT(tally_.shortened, 10U / build_slowdown()) << "the last group was not proved durable";
  EXPECT_GT(tally_.whole, 10U / build_slowdown())
      << "in front of the checkpoint and behind the end nothing matters";
}

TEST_F(LogDamageTest, LogCutAtEveryLength) {
  start_ = rig_.home();
  for (std::size_t bytes = 0; bytes < used(); ++bytes) {
    if (!is_in_sample()) continue;
    fs::resize_file(rig_.log_path(0), bytes);
    // What is cut off proves nothing any more; the checkpoint proves that the file held its own
    // lsn.
    judge(bytes, log_.size(), "cut at " + std::to_string(bytes));
    if (HasFatalFailure()) return;
    // As recovery makes a cut file whole: with zeros, of which the undamaged file's rest consists.
    if (fs::exists(rig_.log_path(0))) fs::resize_file(rig_.log_path(0), log_.size());
    put_back();
    patch_file(rig_.log_path(0), 0, log_.substr(0, used() + 8192));
  }
  EXPECT_GT(tally_.shortened, 10U / build_slowdown());
}

TEST_F(LogDamageTest, EveryChunkCopiedOverItsNeighbour) {
  start_ = rig_.home();
  for (const std::size_t chunk : {std::size_t{8}, std::size_t{64}, std::size_t{512}}) {
    for (std::size_t at = 0; at + 2 * chunk <= used(); at += chunk) {
      try_bytes(at + chunk, log_.substr(at, chunk),
                "chunk of " + std::to_string(chunk) + " at " + std::to_string(at));
      if (HasFatalFailure()) return;
      try_bytes(at, log_.substr(at + chunk, chunk),
                "chunk of " + std::to_string(chunk) + " behind " + std::to_string(at));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(tally_.refused, 10U);
}

TEST_F(LogDamageTest, EveryFlippedByteOfTheCheckpointFileCostsNothing) {
  std::mt19937_64 random(seed());
  const std::string whole = files_.at("tmh.checkpoint");
  ASSERT_EQ(whole.size(), 8192U);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (!is_in_sample()) continue;
    const char damaged = static_cast<char>(whole[at] ^ (1 << random() % 8));
    patch_file(checkpoint_path(rig_.folder()), at, std::string(1, damaged));
    RecoveryReport report;
    ASSERT_EQ(rig_.recover_only(&report), Errc::kOk)
        << "byte " << at << ": " << platform::failure_detail();
    ASSERT_TRUE(rig_.home() == rig_.expected()) << "byte " << at;
    ASSERT_GT(report.generation, rig_.generation()) << "byte " << at;
    put_back();
  }
}

TEST_F(LogDamageTest, CheckpointFileCutAtEveryLength) {
  for (std::size_t bytes = 0; bytes < 8192; ++bytes) {
    if (!is_in_sample()) continue;
    fs::resize_file(checkpoint_path(rig_.folder()), bytes);
    RecoveryReport report;
    const Errc error = rig_.recover_only(&report);
    if (bytes < 4096) {
      ASSERT_EQ(error, Errc::kCorrupt) << bytes;
    } else {
      ASSERT_EQ(error, Errc::kOk) << bytes << ": " << platform::failure_detail();
      ASSERT_TRUE(rig_.home() == rig_.expected()) << bytes;
    }
    put_back();
  }
}

TEST_F(LogDamageTest, CheckpointFileWithBothSlotsDamagedIsCorrupt) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 500; ++round) {
    std::string bytes = files_.at("tmh.checkpoint");
    bytes[random() % 4096] ^= static_cast<char>(1 + random() % 255);
    bytes[4096 + random() % 4096] ^= static_cast<char>(1 + random() % 255);
    write_file(checkpoint_path(rig_.folder()), bytes);
    RecoveryReport report;
    ASSERT_EQ(rig_.recover_only(&report), Errc::kCorrupt);
  }
}

// Several files, large and small transactions; damage of every size and kind.
TEST(LogMutationTest, RandomMutationsOfALargeLog) {
  const std::uint64_t mutations =
      environment_number("TMH_LOG_MUTATIONS", 300 / std::min(build_slowdown(), 10U));
  std::mt19937_64 random(seed());
  const MemoryFolder folder;
  LogRig rig(folder.path());
  while (rig.end() < 5 * LogRig::kFileBytes / 2) {
    std::vector<LogRig::Write> writes(random() % (random() % 10 == 0 ? 4000 : 50));
    for (LogRig::Write &write : writes)
      write = {static_cast<std::uint32_t>(random() % 2), random() % LogRig::kPages,
               static_cast<std::uint32_t>(random() % 512), random()};
    rig.commit(writes, random() % 3 == 0 ? 2000 : kRecordBytesMax);
    if (random() % 5 == 0) rig.sync();
  }
  const LogRig::Files files = rig.snapshot();
  std::uint64_t refused = 0, recovered = 0;
  for (std::uint64_t round = 0; round < mutations; ++round) {
    rig.restore(files);
    const std::uint64_t index = random() % 3;
    std::string bytes = files.at(log_file_name(index));
    const std::size_t at = random() % bytes.size();
    const std::size_t length =
        std::min<std::size_t>(bytes.size() - at, 1 + random() % (1ull << random() % 16));
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes.replace(at, length, length, '\0');
        break;
      case 2:
        std::generate_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length,
                        [&] { return static_cast<char>(random()); });
        break;
      case 3:
        bytes.replace(at, length, bytes, random() % (bytes.size() - length + 1), length);
        break;
      default:
        bytes.resize(at);
    }
    write_file(rig.log_path(index), bytes);
    if (random() % 50 == 0) fs::remove(rig.log_path(index));
    // What lies in front of the first changed byte, or is proved by what lies behind the last, is
    // there.
    const std::string &whole = files.at(log_file_name(index));
    std::size_t first = 0;
    while (first < bytes.size() && bytes[first] == whole[first]) ++first;
    std::size_t behind = whole.size();
    while (bytes.size() == whole.size() && behind > first && bytes[behind - 1] == whole[behind - 1])
      --behind;
    if (!fs::exists(rig.log_path(index))) first = 0, behind = whole.size();
    Lsn durable = 0;
    for (const LogRig::Record &record : rig.records()) {
      if (record.end <= index * LogRig::kFileBytes + first ||
          record.at >= index * LogRig::kFileBytes + behind)
        durable = std::max(durable, record.durable_before);
    }
    RecoveryReport report;
    RecoveryOptions options;
    options.threads = 2;
    const Errc error = rig.recover_only(&report, options);
    if (error != Errc::kOk) {
      ASSERT_TRUE(error == Errc::kLogDamaged || error == Errc::kLogMissing)
          << message(error) << ", round " << round;
      ++refused;
      continue;
    }
    ++recovered;
    const std::size_t kept = rig.count_before(report.end_lsn);
    ASSERT_GE(kept, rig.count_before(durable)) << "round " << round << " of seed " << seed();
    ASSERT_TRUE(rig.home() == rig.expected(kept)) << "round " << round << " of seed " << seed();
  }
  EXPECT_GT(refused, mutations / 4);
  EXPECT_GT(recovered, mutations / 100) << "behind the log's end, or in its last group";
}

}  // namespace
}  // namespace tmh::test
