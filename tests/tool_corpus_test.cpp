// tests/tool_corpus_test.cpp -- tmh check and tmh log verify on the corpus of damaged domains of log_damage_test.
// Invariants: (1) of the log both say what recovery of the same bytes does: damaged where it refuses, torn where it cuts a tail off, else clean
//             (sound). (2) check calls nothing sound that recovery refuses; where recovery loses nothing, it names what is wrong with the
//             structure: a damaged checkpoint slot, a log file that is cut short. (3) a control file is refused by both exactly when
//             opening the domain would refuse it, and each change of it that matters is one of these.
// Method:     called as functions, for there are thousands of cases; tool_damage_test and tool_check_test run the programs. One table of
//             verdicts per kind of damage is printed. Under a sanitizer a sample of the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include <tmh/tmh.hpp>

#include "levels/storage/control.h"
#include "platform/failure.h"
#include "tests/support/durable_folder.h"
#include "tests/support/log_rig.h"
#include "tests/support/seed.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"
#include "tools/check.h"
#include "tools/domain_files.h"
#include "tools/exit_code.h"
#include "tools/failure.h"
#include "tools/log_verify.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;
using storage::ControlFile;
using tools::Part;
using tools::PartState;

std::string verify_verdict(const std::string &folder) {
  try {
    const auto control = tools::read_control(folder);
    return tools::state_word(tools::verify_log(folder, *control).end);
  } catch (const Error &error) {
    return tools::exit_of(error.errc()) == tools::Exit::kDamage ? "damaged" : "refused";
  }
}

struct CheckVerdict {
  std::string structure, log, worst;
};
CheckVerdict check_verdict(const std::string &folder) {
  CheckVerdict verdict;
  PartState worst = PartState::kSound;
  try {
    for (const Part &part : tools::check_domain(folder)) {
      worst = std::max(worst, part.state);
      if (part.name == "structure") verdict.structure = tools::to_string(part.state);
      if (part.name == "log") verdict.log = tools::to_string(part.state);
    }
    verdict.worst = tools::to_string(worst);
  } catch (const Error &error) {
    verdict.worst = tools::exit_of(error.errc()) == tools::Exit::kDamage ? "damaged" : "refused";
  }
  return verdict;
}

class ToolCorpus : public testing::Test {
 protected:
  void SetUp() override {
    storage::RecoveryReport report;
    rig_.commit({{0, 0, 0, 1}});
    rig_.sync();
    ASSERT_EQ(rig_.recover(&report), Errc::kOk);
    rig_.commit({{0, 1, 1, 2}, {1, 1, 9, 3}});
    rig_.sync();
    rig_.commit({{0, 2, 2, 4}, {0, 3, 3, 5}, {1, 4, 4, 6}}, 64);  // parts
    rig_.commit({{1, 0, 511, 7}});
    rig_.sync();
    rig_.commit({{0, 0, 0, 8}, {0, 0, 1, 9}, {0, 0, 2, 10}});
    rig_.commit({{0, 7, 100, 11}});
    ControlFile control = rig_.control();
    control.header.durability = static_cast<std::uint32_t>(Durability::kStrict);
    storage::seal(&control.header);
    write_file(rig_.folder() + "/tmh.control", std::string(reinterpret_cast<const char *>(&control), sizeof control));
    files_ = rig_.snapshot();
    log_ = files_.at("tmh.log.0000000000");
  }

  void TearDown() override {
    for (const auto &[kind, counts] : table_) {
      std::printf("%s:", kind.c_str());
      for (const auto &[verdict, count] : counts)
        std::printf(" %s %llu;", verdict.c_str(), static_cast<unsigned long long>(count));
      std::printf("\n");
    }
  }

  [[nodiscard]] bool is_in_sample() { return slowdown() <= 1 || random_() % slowdown() == 0; }
  [[nodiscard]] std::size_t used() const { return rig_.end() + 512; }

  // The tools first: recovery changes what it finds.
  void judge(const std::string &kind, const std::string &what) {
    const std::string log = verify_verdict(rig_.folder());
    const CheckVerdict check = check_verdict(rig_.folder());
    storage::RecoveryReport report;
    const Errc error = rig_.recover_only(&report);
    const std::string right = error != Errc::kOk ? "damaged" : report.tail_was_torn ? "torn" : "clean";
    ++table_[kind]["recovery " + right + ", log verify " + log + ", check " + check.worst];
    ASSERT_EQ(log, right) << what << ": " << message(error) << " " << platform::failure_detail();
    ASSERT_EQ(check.log, right == "clean" ? "sound" : right) << what;
    ASSERT_TRUE(check.worst == "damaged" || (check.structure == "sound" && check.worst == check.log))
        << what << ": structure " << check.structure << ", worst " << check.worst;
  }

  void put_back() {
    for (const auto &[name, bytes] : files_) {
      if (!name.starts_with("tmh.log.")) write_file(rig_.folder() + "/" + name, bytes);
    }
    if (!fs::exists(rig_.log_path(0)) || fs::file_size(rig_.log_path(0)) != log_.size())
      write_file(rig_.log_path(0), log_);
    else
      patch_file(rig_.log_path(0), 0, log_.substr(0, used() + 8192));  // and where recovery may have cut a tail off
  }

  void try_bytes(const std::string &kind, std::size_t at, const std::string &bytes) {
    if (log_.compare(at, bytes.size(), bytes) == 0) return;
    patch_file(rig_.log_path(0), at, bytes);
    judge(kind, kind + " at " + std::to_string(at));
    put_back();
  }

  TempFolder folder_{memory_folder()};
  LogRig rig_{folder_.path()};
  LogRig::Files files_;
  std::string log_;
  std::map<std::string, std::map<std::string, std::uint64_t>> table_;
  std::mt19937_64 random_{seed()};
};

TEST_F(ToolCorpus, Undamaged) {
  judge("undamaged", "nothing changed");
  EXPECT_EQ(table_["undamaged"].begin()->first, "recovery clean, log verify clean, check sound");
}

TEST_F(ToolCorpus, EveryFlippedByteOfTheLog) {
  for (std::size_t at = 0; at < used(); ++at) {
    if (!is_in_sample()) continue;
    try_bytes("flipped byte of the log", at, std::string(1, static_cast<char>(log_[at] ^ (1 << random_() % 8))));
    if (HasFatalFailure()) return;
  }
}

TEST_F(ToolCorpus, LogCutAtEveryLength) {
  for (std::size_t bytes = 0; bytes < used(); ++bytes) {
    if (!is_in_sample()) continue;
    fs::resize_file(rig_.log_path(0), bytes);
    judge("cut log", "log cut at " + std::to_string(bytes));
    if (HasFatalFailure()) return;
    put_back();
    write_file(rig_.log_path(0), log_);
  }
  for (const auto &[verdict, count] : table_["cut log"])
    EXPECT_TRUE(verdict.ends_with("check damaged")) << count << " cut files are not named: " << verdict;
}

TEST_F(ToolCorpus, EveryChunkDuplicatedOverItsNeighbour) {
  for (const std::size_t chunk : {std::size_t{8}, std::size_t{64}, std::size_t{512}}) {
    for (std::size_t at = 0; at + 2 * chunk <= used(); at += chunk) {
      if (!is_in_sample()) continue;
      try_bytes("duplicated chunk of the log", at + chunk, log_.substr(at, chunk));
      try_bytes("duplicated chunk of the log", at, log_.substr(at + chunk, chunk));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(ToolCorpus, TheLogFileIsGone) {
  fs::remove(rig_.log_path(0));
  judge("log file removed", "no log file");
}

TEST_F(ToolCorpus, EveryFlippedByteOfTheCheckpointFile) {
  const std::string whole = files_.at("tmh.checkpoint");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (!is_in_sample()) continue;
    patch_file(rig_.folder() + "/tmh.checkpoint", at,
               std::string(1, static_cast<char>(whole[at] ^ (1 << random_() % 8))));
    judge("flipped byte of the checkpoint file", "checkpoint byte " + std::to_string(at));
    if (HasFatalFailure()) return;
    put_back();
  }
  for (const auto &[verdict, count] : table_["flipped byte of the checkpoint file"])
    EXPECT_TRUE(verdict.starts_with("recovery clean") && verdict.ends_with("check damaged"))
        << count << ": " << verdict;
}

TEST_F(ToolCorpus, CheckpointFileCutOrWithBothSlotsDamaged) {
  for (std::size_t bytes = 0; bytes < 8192; bytes += 1 + random_() % 16) {
    fs::resize_file(rig_.folder() + "/tmh.checkpoint", bytes);
    judge("cut checkpoint file", "checkpoint cut at " + std::to_string(bytes));
    if (HasFatalFailure()) return;
    put_back();
  }
  for (int round = 0; round < 200; ++round) {
    std::string bytes = files_.at("tmh.checkpoint");
    bytes[random_() % 4096] ^= static_cast<char>(1 + random_() % 255);
    bytes[4096 + random_() % 4096] ^= static_cast<char>(1 + random_() % 255);
    write_file(rig_.folder() + "/tmh.checkpoint", bytes);
    judge("both checkpoint slots damaged", "both slots");
    if (HasFatalFailure()) return;
    put_back();
  }
  for (const auto &[verdict, count] : table_["both checkpoint slots damaged"])
    EXPECT_EQ(verdict, "recovery damaged, log verify damaged, check damaged") << count;
}

// Header and the records of segments that there are; free records are not looked at, and may hold anything but a state.
TEST_F(ToolCorpus, EveryFlippedByteOfTheControlFile) {
  const std::string whole = files_.at("tmh.control");
  const std::size_t in_use = sizeof(storage::ControlHeaderV1) + LogRig::kSegments * sizeof(storage::SegmentRecordV1);
  std::uint64_t silent = 0;
  for (std::size_t at = 0; at < in_use; ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
    patch_file(rig_.folder() + "/tmh.control", at, bytes.substr(at, 1));
    std::string why;
    const Errc error = storage::verify_control(bytes.data(), bytes.size(), &why);
    const std::string log = verify_verdict(rig_.folder());
    const CheckVerdict check = check_verdict(rig_.folder());
    ++table_["flipped byte of the control file"]
            ["opening: " + std::string(tools::errc_name(error)) + ", log verify " + log + ", check " + check.worst];
    if (error == Errc::kOk) {
      ++silent;
      EXPECT_EQ(check.log, "sound") << at;
    } else {
      const std::string refused = tools::exit_of(error) == tools::Exit::kDamage ? "damaged" : "refused";
      EXPECT_EQ(log, refused) << at << ": " << why;
      EXPECT_EQ(check.worst, refused) << at << ": " << why;
    }
    patch_file(rig_.folder() + "/tmh.control", at, whole.substr(at, 1));
  }
  EXPECT_LT(silent, in_use / 4) << "what every open stores anew, and sizes, of which there are two";
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 1 + random_() % 64) {
    fs::resize_file(rig_.folder() + "/tmh.control", bytes);
    const std::string verdict =
        "log verify " + verify_verdict(rig_.folder()) + ", check " + check_verdict(rig_.folder()).worst;
    ++table_["cut control file"][verdict];
    EXPECT_EQ(verdict, "log verify damaged, check damaged") << bytes;
    write_file(rig_.folder() + "/tmh.control", whole);
  }
}

// Every byte of the structs that heap_hostile_test knows is found by heap_check(); here the way from the file to the verdict, on a sample.
TEST(ToolCorpusHeap, FlippedBytesOfAHeapsOwnPages) {
  const TempFolder folder;
  const std::string domain = folder / "domain";
  in_domain(domain, durable_options(), Ending::kClosed, [](const Domain &d, const Segment &) {
    const Segment heap = d.map("h.db");
    atomically(d, [&] {
      for (std::size_t i = 0; i < 50; ++i)
        *heap.root<std::byte *>("root" + std::to_string(i)) = heap.root<std::byte>("b");
    });
  });
  const std::string path = domain + "/h.db", whole = read_file(path);
  ASSERT_EQ(check_verdict(domain).worst, "sound");
  std::mt19937_64 random(seed());
  std::map<std::string, std::uint64_t> verdicts;
  std::size_t nonzero = 0;
  for (const char byte : whole) nonzero += byte != 0 ? 1U : 0U;
  const std::size_t every = std::max<std::size_t>(1, nonzero / 300);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == 0 || random() % every != 0) continue;
    patch_file(path, at, std::string(1, static_cast<char>(whole[at] ^ (1 << random() % 8))));
    const CheckVerdict verdict = check_verdict(domain);
    ++verdicts["check " + verdict.worst + ", log " + verdict.log];
    EXPECT_EQ(verdict.structure, "sound") << "byte " << at;
    EXPECT_EQ(verdict.log, "sound") << "byte " << at;
    EXPECT_EQ(verify_verdict(domain), "clean") << "byte " << at;
    patch_file(path, at, whole.substr(at, 1));
  }
  std::printf("flipped byte of a heap that is not zero (%zu of them):", nonzero);
  for (const auto &[verdict, count] : verdicts)
    std::printf(" %s: %llu;", verdict.c_str(), static_cast<unsigned long long>(count));
  std::printf("\n");
  EXPECT_GT(verdicts["check damaged, log sound"], 0U);
}

}  // namespace
}  // namespace tmh::test
