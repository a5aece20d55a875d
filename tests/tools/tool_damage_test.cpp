// tests/tools/tool_damage_test.cpp -- the reading half of the tmh command on damaged domains.
// Invariants: (1) a torn tail, damage in front of the durable end, and a clean end are told apart,
//             as recovery does. (2) whatever the bytes are, the command ends, by itself, with one
//             of its exit codes.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "programs/json.h"
#include "tests/support/durable_folder.h"
#include "tests/support/program.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

ProgramEnd tmh(std::vector<std::string> words) {
  words.insert(words.begin(), TMH_TOOL);
  ProgramEnd end = run_program(words);
  EXPECT_FALSE(end.hung) << words[1];
  EXPECT_EQ(end.signal, 0) << words[1] << ": " << end.err;
  return end;
}

class ToolDamage : public ::testing::Test {
 protected:
  // 100 commits, then a power cut.
  void SetUp() override {
    in_domain(domain(), durable_options(), Ending::kPowerCut,
              [](const Domain &d, const Segment &s) { commit(d, s, 100); });
    std::istringstream stream(tmh({"log", "dump", domain(), "--json"}).out);
    for (std::string line; std::getline(stream, line);) lines_.push_back(Json::parse(line));
    ASSERT_EQ(lines_.size(), 102u);
  }
  std::string domain() const { return folder_ / "domain"; }
  std::string log() const { return domain() + "/tmh.log.0000000000"; }
  std::uint64_t lsn(std::size_t line) const { return lines_[line]["lsn"]; }
  void flip(const std::string &path, std::size_t offset) {
    const std::string bytes = read_file(path);
    patch_file(path, offset, std::string(1, static_cast<char>(~bytes[offset])));
  }
  void expect_verdict(int exit_code, const std::string &state, const std::string &errc) {
    const ProgramEnd plain = tmh({"log", "verify", domain()});
    EXPECT_EQ(plain.exit_code, exit_code) << plain.out << plain.err;
    EXPECT_EQ(plain.err.empty(), exit_code <= 1) << plain.err;
    EXPECT_NE(plain.err.find(errc), std::string::npos) << plain.err;
    const ProgramEnd machine = tmh({"log", "verify", domain(), "--json"});
    EXPECT_EQ(machine.exit_code, exit_code);
    const Json verdict = Json::parse(machine.out, Json::IfBroken::kDiscard);
    EXPECT_EQ(verdict.value("state", ""), state) << machine.out;
    EXPECT_EQ(verdict.value("error", ""), exit_code > 1 ? errc : "") << machine.out;
    EXPECT_EQ(tmh({"log", "dump", domain()}).exit_code, exit_code);
  }

  MemoryFolder folder_;
  std::vector<Json> lines_;  // the generation, 100 transactions, the end
};

TEST_F(ToolDamage, AnUntouchedLogEndsCleanly) { expect_verdict(0, "clean", ""); }

TEST_F(ToolDamage, ADamagedLastRecordIsATornTail) {
  flip(log(), lsn(100) + 70);
  expect_verdict(1, "torn", "");
  EXPECT_NE(
      tmh({"log", "verify", domain()}).out.find("torn tail at LSN " + std::to_string(lsn(100))),
      std::string::npos);
  const Json report = Json::parse(tmh({"recover", domain(), "--json"}).out);
  EXPECT_EQ(report["transactions"], 99) << "recovery agrees";
  EXPECT_EQ(report["tail_was_torn"], true);
}

TEST_F(ToolDamage, ADamagedRecordBeforeTheDurableEndIsDamageAndSaysWhere) {
  flip(log(), lsn(50) + 70);
  expect_verdict(2, "damaged", "kLogDamaged");
  const ProgramEnd end = tmh({"log", "verify", domain()});
  EXPECT_NE(end.err.find("offset " + std::to_string(lsn(50))), std::string::npos) << end.err;
  const ProgramEnd recover = tmh({"recover", domain()});
  EXPECT_EQ(recover.exit_code, 2) << "recovery agrees: " << recover.err;
  const std::string dump = tmh({"log", "dump", domain()}).out;
  EXPECT_EQ(std::count(dump.begin(), dump.end(), '\n'), 52)
      << "what lies before the damage is shown";
}

TEST_F(ToolDamage, AMissingLogFileIsDamage) {
  in_domain(domain(), {}, Ending::kPowerCut, [](const Domain &d, const Segment &s) {
    for (std::uint64_t i = 1; i <= 700; ++i)  // 2.8 MiB: three files
      atomically(d, [&] {
        for (std::uint64_t at = 0; at < 512; ++at) word_of(s, i % 64, at) = i + at;
      });
  });
  fs::remove(domain() + "/tmh.log.0000000001");
  expect_verdict(2, "damaged", "kLogMissing");
  EXPECT_EQ(tmh({"info", domain()}).exit_code, 0) << "info looks at what is there";
}

TEST_F(ToolDamage, ACutLogFileIsDamage) {
  fs::resize_file(log(), lsn(50) + 10);
  EXPECT_GE(tmh({"log", "verify", domain()}).exit_code, 1);
  EXPECT_EQ(tmh({"info", domain()}).exit_code, 2);
  EXPECT_NE(tmh({"info", domain()}).out.find("cut short"), std::string::npos);
}

TEST_F(ToolDamage, OneDamagedCheckpointSlotIsToldAndSurvived) {
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const std::string whole = read_file(domain() + "/tmh.checkpoint");
    flip(domain() + "/tmh.checkpoint", slot * 4096 + 50);
    const ProgramEnd info = tmh({"info", domain(), "--json"});
    EXPECT_EQ(info.exit_code, 2);
    EXPECT_EQ(Json::parse(info.out)["problems"].size(), 1u);
    const ProgramEnd verify = tmh({"log", "verify", domain()});
    EXPECT_EQ(verify.exit_code, 0) << verify.err;
    EXPECT_NE(verify.out.find("checkpoint slots is damaged"), std::string::npos);
    write_file(domain() + "/tmh.checkpoint", whole);
  }
}

TEST_F(ToolDamage, BothDamagedOrNoneAreErrors) {
  const auto code = [&](const char *what) { return tmh({"log", what, domain()}).exit_code; };
  flip(domain() + "/tmh.checkpoint", 50);
  flip(domain() + "/tmh.checkpoint", 4096 + 50);
  EXPECT_EQ(code("verify"), 2);
  EXPECT_EQ(code("dump"), 2);
  EXPECT_EQ(tmh({"info", domain()}).exit_code, 2);
  fs::remove(domain() + "/tmh.checkpoint");
  const ProgramEnd verify = tmh({"log", "verify", domain()});
  EXPECT_EQ(verify.exit_code, 2);
  EXPECT_NE(verify.err.find("kLogMissing"), std::string::npos) << verify.err;
  EXPECT_EQ(tmh({"info", domain()}).exit_code, 2);
}

// Killed before it had a checkpoint, with nothing in it: the next open goes on.
TEST_F(ToolDamage, ALogThatWasNeverMadeIsNoDamage) {
  const std::string fresh = folder_ / "fresh";
  Domain::open(fresh, durable_options()).close();
  for (const char *file : {"tmh.checkpoint", "tmh.log.0000000000", "tmh.log.0000000001"})
    fs::remove(fresh + "/" + file);
  for (const char *what : {"verify", "dump"}) {
    const ProgramEnd plain = tmh({"log", what, fresh});
    EXPECT_EQ(plain.exit_code, 0) << plain.err;
    EXPECT_NE(plain.out.find("its creation was cut off"), std::string::npos) << plain.out;
    const ProgramEnd machine = tmh({"log", what, fresh, "--json"});
    EXPECT_EQ(machine.exit_code, 0) << machine.out;
    EXPECT_EQ(Json::parse(machine.out, Json::IfBroken::kDiscard).value("state", ""), "empty")
        << machine.out;
  }
  EXPECT_EQ(tmh({"log", "dump", fresh, "--from", "1"}).exit_code, 3);
}

TEST_F(ToolDamage, ADamagedControlFileIsAnErrorOfEveryCommand) {
  flip(domain() + "/tmh.control", 60);
  for (const char *name : {"recover", "checkpoint", "info"})
    EXPECT_EQ(tmh({name, domain()}).exit_code, 2) << name;
  for (const char *name : {"archive", "backup", "copy"})
    EXPECT_EQ(tmh({name, domain(), folder_ / "to"}).exit_code, 2) << name;
  for (const char *name : {"dump", "verify"})
    EXPECT_EQ(tmh({"log", name, domain()}).exit_code, 2) << name;
}

TEST_F(ToolDamage, AMissingOrShortDataFileIsToldByInfo) {
  fs::resize_file(domain() + "/a.db", 4096);
  EXPECT_NE(tmh({"info", domain()}).out.find("shorter than its segment"), std::string::npos);
  fs::remove(domain() + "/a.db");
  const ProgramEnd end = tmh({"info", domain()});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_NE(end.out.find("missing"), std::string::npos);
}

TEST_F(ToolDamage, AFifoInAFilesPlaceIsNotWaitedFor) {
  for (const char *name : {"/tmh.log.0000000000", "/tmh.checkpoint", "/tmh.state",
                           "/tmh.participants", "/tmh.control"}) {
    fs::remove(domain() + name);
    ASSERT_EQ(mkfifo((domain() + name).c_str(), 0600), 0);
    for (const auto &words : std::vector<std::vector<std::string>>{
             {"info", domain()}, {"log", "verify", domain()}, {"log", "dump", domain()}}) {
      const ProgramEnd end = tmh(words);
      EXPECT_TRUE(end.exit_code == 2 || end.exit_code == 3)
          << name << ": " << end.exit_code << end.err;
    }
  }
}

// Random bytes at random places of every file that the reading commands use, and random cuts.
TEST_F(ToolDamage, HostileBytesNeverHangOrCrash) {
  std::mt19937_64 random(seed());
  const std::string whole = folder_ / "whole";
  fs::copy(domain(), whole);
  for (int round = 0; round < 40; ++round) {
    fs::remove_all(domain());
    fs::copy(whole, domain());
    for (const char *name : {"/tmh.log.0000000000", "/tmh.checkpoint", "/tmh.control"}) {
      const std::string path = domain() + name;
      if (random() % 3 != 0 && name != std::string("/tmh.log.0000000000")) continue;
      const std::size_t end = std::min<std::size_t>(fs::file_size(path), lsn(100) + 4096);
      for (std::uint64_t count = random() % 8; count != 0; --count)
        patch_file(path, random() % (end - 8),
                   std::string(1 + random() % 8, static_cast<char>(random())));
      if (random() % 4 == 0) fs::resize_file(path, random() % end);
    }
    for (const auto &words : std::vector<std::vector<std::string>>{
             {"info", domain(), "--json"},
             {"log", "verify", domain(), "--json"},
             {"log", "dump", domain(), "--pages", "--json"},
             {"log", "dump", domain(), "--from", "0", "--pages"}}) {
      const ProgramEnd end = tmh(words);
      EXPECT_TRUE(end.exit_code >= 0 && end.exit_code <= 3)
          << words[1] << ": " << end.exit_code << end.err;
      if (words.back() == "--json" && words[1] != "dump") {
        EXPECT_FALSE(Json::parse(end.out, Json::IfBroken::kDiscard).is_discarded()) << end.out;
      }
    }
  }
}

}  // namespace
}  // namespace tmh::test
