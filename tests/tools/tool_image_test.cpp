// tests/tools/tool_image_test.cpp -- tmh image: what it says of a backup at a moment, and what it
// writes.
// Invariants: (1) the files in the new folder are those of a recovery up to that moment. (2) the
//             folder has its name only when all is in it; what exists stays. (3) backup and archive
//             stay as they were. (4) wrong moments and words are refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "programs/json.h"
#include "tests/support/durable_folder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

class ToolImage : public ::testing::Test {
 protected:
  // A backup of the first 10 commits; the domain's own folder is the archive.
  void SetUp() override {
    DomainOptions options = durable_options();
    options.keep_log = true;
    Domain domain = Domain::open(folder_ / "domain", options);
    const Segment segment = domain.map("a.db", raw_pages(64));
    store(domain, segment, 10);
    domain.backup(backup());
    store(domain, segment, 20);
    (void)domain.keep("here");
    clock_ = domain.past().now;
    store(domain, segment, 30);
    domain.close();
  }
  // Each commit changes another page than the one before, and none stores what is there.
  void store(const Domain &domain, const Segment &segment, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ++number_;
      atomically(domain, [&] { word_of(segment, number_ % 64) = number_; });
    }
  }
  [[nodiscard]] std::string backup() const { return folder_ / "backup"; }
  [[nodiscard]] ProgramEnd run(std::vector<std::string> words) const {
    words.insert(words.begin(), {"image", backup(), "--logs", folder_ / "domain"});
    return run_tmh(words);
  }
  [[nodiscard]] Json document(std::vector<std::string> words, int exit_code = 0) const {
    words.emplace_back("--json");
    const ProgramEnd end = run(words);
    EXPECT_EQ(end.exit_code, exit_code) << end.out << end.err;
    return Json::parse(end.out, Json::IfBroken::kDiscard);
  }
  TempFolder folder_;
  std::uint64_t clock_ = 0, number_ = 0;
};

TEST_F(ToolImage, EachWayToNameAMomentIsTheSameOne) {
  const Json named = document({"--name", "here"});
  EXPECT_EQ(named["clock"], clock_);
  EXPECT_EQ(named["transactions"], 20);
  EXPECT_EQ(named["is_end"], false);
  EXPECT_EQ(named["segments"][0]["name"], "a.db");
  EXPECT_EQ(named["segments"][0]["changed_pages"], 20);
  const std::string lsn = std::to_string(named["lsn"].get<std::uint64_t>());
  EXPECT_EQ(document({"--clock", std::to_string(clock_)})["lsn"], named["lsn"]);
  EXPECT_EQ(document({"--lsn", lsn})["clock"], clock_);
  const Json end = document({});
  EXPECT_EQ(end["transactions"], 50);
  EXPECT_EQ(end["is_end"], true);
  const ProgramEnd text = run({"--name", "here"});
  EXPECT_NE(text.out.find("commit " + std::to_string(clock_)), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("20 pages changed"), std::string::npos) << text.out;
}

TEST_F(ToolImage, ItsFilesAreThoseOfARecovery) {
  const Json written = document({"--name", "here", "--to", folder_ / "old"});
  EXPECT_EQ(written["to"], folder_ / "old");
  fs::copy(backup(), folder_ / "restored");
  RecoverOptions how;
  how.log_folder = folder_ / "domain";
  how.until_lsn = written["lsn"];
  (void)recover(folder_ / "restored", how);
  EXPECT_EQ(read_file(folder_ / "old/a.db"), read_file(folder_ / "restored/a.db"));
  EXPECT_FALSE(fs::exists(folder_ / "old.incomplete"));
  EXPECT_EQ(document({"--to", folder_ / "old"}, 3)["error"], "kBadArgument");
  EXPECT_EQ(document({"--to", folder_ / "no/such"}, 3)["error"], "kIo");
}

TEST_F(ToolImage, WhatIsWrongIsRefused) {
  EXPECT_EQ(document({"--name", "nowhere"}, 3)["error"], "kNotHeld");
  EXPECT_EQ(document({"--clock", "1"}, 3)["error"], "kNotHeld");
  EXPECT_EQ(document({"--lsn", "1000000000"}, 3)["error"], "kNotHeld");
  EXPECT_EQ(document({"--time", "0"}, 3)["error"], "kNotHeld");
  for (const std::vector<std::string> &words : {std::vector<std::string>{"--clock", "x"},
                                                {"--lsn", "-1"},
                                                {"--time", "yesterday"},
                                                {"--name", ""},
                                                {"--name", "here", "--lsn", "4096"},
                                                {"--until-lsn", "4096"}})
    EXPECT_EQ(run(words).exit_code, 64) << words[0];
  EXPECT_EQ(run_tmh({"image", folder_ / "nowhere"}).exit_code, 3);
  patch_file(folder_ / "domain/tmh.log.0000000000", 0, "x");
  EXPECT_NE(run({"--name", "here"}).exit_code, 0);
}

}  // namespace
}  // namespace tmh::test
