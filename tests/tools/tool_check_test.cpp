// tests/tools/tool_check_test.cpp -- tmh check on sound, damaged, open and crashed domains.
// Invariants: (1) every part of a domain gets its right verdict, whatever is wrong with the others.
//             (2) a domain whose data files nobody has put in order is not called damaged. (3)
//             nothing is changed. (4) whatever the bytes are, the command ends by itself.
#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "programs/json.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/check.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

constexpr int kSound = 0, kTorn = 1, kDamaged = 2, kRefused = 3;

class ToolCheck : public ::testing::Test {
 protected:
  std::string domain() const { return folder_ / "domain"; }
  std::string heap() const { return domain() + "/h.db"; }

  // "a.db": raw pages; "h.db": a heap with a few blocks.
  void make(const DomainOptions &options, Ending ending = Ending::kClosed) {
    in_domain(domain(), options, ending, [](const Domain &d, const Segment &s) {
      const Segment heap = d.map("h.db");
      atomically(d, [&] {
        for (std::size_t i = 0; i < 50; ++i)
          *heap.root<std::byte *>("root" + std::to_string(i)) = heap.root<std::byte>("b");
      });
      commit(d, s, 20);
    });
  }
  Json check(int exit_code) {
    const ProgramEnd end = run_tmh({"check", domain(), "--json"});
    EXPECT_EQ(end.exit_code, exit_code) << end.out << end.err;
    const Json document = Json::parse(end.out, Json::IfBroken::kDiscard);
    EXPECT_FALSE(document.is_discarded()) << end.out;
    if (document.contains("parts")) expect_valid("check", document.dump());
    EXPECT_EQ(run_tmh({"check", domain()}).exit_code, exit_code);
    return document;
  }
  static std::string state(const Json &document, const std::string &part) {
    for (const Json &one : document.at("parts"))
      if (one.at("part") == part) return one.at("state");
    return "no such part";
  }
  void flip(const std::string &path, std::size_t offset) {
    const std::string bytes = read_file(path);
    ASSERT_LT(offset, bytes.size());
    patch_file(path, offset, std::string(1, static_cast<char>(~bytes[offset])));
  }

  MemoryFolder folder_;
};

TEST_F(ToolCheck, ClosedDomainsAreSoundAndStayAsTheyAre) {
  for (const bool is_durable : {false, true}) {
    fs::remove_all(domain());
    make(is_durable ? durable_options() : DomainOptions());
    std::map<std::string, std::string> before;
    for (const auto &entry : fs::directory_iterator(domain()))
      before[entry.path()] = read_file(entry.path());
    const Json document = check(kSound);
    EXPECT_EQ(document.at("state"), "sound");
    EXPECT_EQ(state(document, "structure"), "sound");
    EXPECT_EQ(state(document, "heap h.db"), "sound");
    EXPECT_EQ(state(document, "log"), is_durable ? "sound" : "no such part");
    EXPECT_EQ(state(document, "heap a.db"), "no such part") << "raw bytes are the user's";
    for (const auto &entry : fs::directory_iterator(domain()))
      EXPECT_TRUE(before.at(entry.path()) == read_file(entry.path())) << entry.path();
  }
}

TEST_F(ToolCheck, ADamagedHeapIsFound) {
  make({});
  flip(heap(), 4096 + 200);  // the map's page
  const Json document = check(kDamaged);
  EXPECT_EQ(state(document, "heap h.db"), "damaged");
  EXPECT_EQ(state(document, "structure"), "sound");
}

TEST_F(ToolCheck, AHeapThatIsCutGoneOrNoFileIsFound) {
  make({});
  const std::string whole = read_file(heap());
  fs::resize_file(heap(), 8192);
  EXPECT_EQ(state(check(kDamaged), "heap h.db"), "damaged");
  fs::remove(heap());
  EXPECT_EQ(state(check(kDamaged), "heap h.db"), "damaged");
  ASSERT_EQ(mkfifo(heap().c_str(), 0600), 0);  // opening it must not wait
  EXPECT_EQ(state(check(kDamaged), "heap h.db"), "damaged");
}

TEST_F(ToolCheck, ADomainInUseIsNotCalledDamaged) {
  make({});
  const Domain open = Domain::open(domain());
  const Segment segment = open.map("h.db");
  atomically(open, [&] { *segment.root<long>("more") = 1; });
  const Json document = check(kSound);
  EXPECT_EQ(document.at("state"), "unchecked");
  EXPECT_EQ(state(document, "heap h.db"), "unchecked");
}

TEST_F(ToolCheck, AFileThatWasReplacedUnderTheDeadIsNamedAndMayBeAccepted) {
  for (const bool is_durable : {false, true}) {
    fs::remove_all(domain());
    make(is_durable ? durable_options() : DomainOptions(), Ending::kKilled);
    fs::copy_file(heap(), folder_ / "copy");
    fs::rename(folder_ / "copy", heap());
    const Json document = check(kDamaged);
    EXPECT_EQ(state(document, "structure"), "damaged");
    EXPECT_NE(document.dump().find(heap() + " was replaced by another one"), std::string::npos)
        << document.dump();
    EXPECT_EQ(run_tmh({"recover", "--accept-files", domain()}).exit_code, 0);
    EXPECT_EQ(state(check(kSound), "structure"), "sound");
  }
}

// A heap is walked in a child of the command's: what happens between the look whether anybody is in
// the domain and the walk.
std::function<void()> &before_the_walk() {
  static std::function<void()> action;
  static const int registered = ::pthread_atfork(
      [] {
        if (const auto now = std::exchange(action, nullptr)) now();
      },
      nullptr, nullptr);
  EXPECT_EQ(registered, 0);
  return action;
}

TEST_F(ToolCheck, AHeapThatIsInUseWhileItIsWalkedIsNotCalledDamaged) {
  for (const bool is_closed_again : {false, true}) {
    fs::remove_all(domain());
    make({});
    const auto heap_state = [&] {
      for (const tools::Part &part : tools::check_domain(domain()))
        if (part.name == "heap h.db") return std::string(tools::to_string(part.state));
      return std::string("no such part");
    };
    EXPECT_EQ(heap_state(), "sound");
    const auto half_a_commit = [&] { flip(heap(), 4096 + 200); };
    Domain open;
    before_the_walk() = [&] {
      open = Domain::open(domain());
      half_a_commit();
      if (is_closed_again) open.close();
    };
    EXPECT_EQ(heap_state(), "unchecked") << is_closed_again;
    if (!is_closed_again) open.close();
    EXPECT_EQ(heap_state(), "damaged") << "nobody is there any more";
  }
}

TEST_F(ToolCheck, WhatRecoveryWillMendIsUnchecked) {
  make(durable_options(), Ending::kKilled);
  EXPECT_EQ(state(check(kSound), "heap h.db"), "unchecked");
  fs::remove_all(domain());
  make(durable_options(), Ending::kPowerCut);
  const Json document = check(kSound);
  EXPECT_EQ(state(document, "heap h.db"), "unchecked");
  EXPECT_EQ(state(document, "log"), "sound");
  ASSERT_EQ(run_tmh({"recover", domain()}).exit_code, 0);
  EXPECT_EQ(check(kSound).at("state"), "sound");
}

TEST_F(ToolCheck, TheLogsVerdictIsThatOfLogVerify) {
  make(durable_options(), Ending::kPowerCut);
  const std::string log = domain() + "/tmh.log.0000000000";
  const Json end = Json::parse(run_tmh({"log", "verify", domain(), "--json"}).out);
  const std::string whole = read_file(log);
  std::vector<Json> lines;
  std::istringstream dump(run_tmh({"log", "dump", domain(), "--json"}).out);
  for (std::string line; std::getline(dump, line);) lines.push_back(Json::parse(line));
  ASSERT_GT(lines.size(), 10u);
  flip(log, lines[lines.size() - 2].at("lsn").get<std::size_t>() + 70);
  EXPECT_EQ(state(check(kTorn), "log"), "torn");
  write_file(log, whole);
  flip(log, lines[5].at("lsn").get<std::size_t>() + 70);
  EXPECT_EQ(state(check(kDamaged), "log"), "damaged");
  write_file(log, whole);
  fs::remove(domain() + "/tmh.checkpoint");
  const Json document = check(kDamaged);
  EXPECT_EQ(state(document, "log"), "damaged");
  EXPECT_EQ(state(document, "structure"), "damaged");
}

TEST_F(ToolCheck, WhatIsNoDomainOrOfAnotherVersionIsRefused) {
  EXPECT_EQ(check(kRefused).at("error"), "kNotADomain");  // no such folder
  fs::create_directory(domain());
  EXPECT_EQ(check(kRefused).at("error"), "kNotADomain");
  make({});
  flip(domain() + "/tmh.control", 8);  // format version
  EXPECT_EQ(check(kRefused).at("error"), "kForeignVersion");
}

TEST_F(ToolCheck, WhatMayNotBeReadIsUnreadable) {
  make({});
  fs::remove(heap());
  fs::create_symlink("h.db", heap());  // ELOOP, for root, too
  const Json document = check(kDamaged);
  EXPECT_EQ(state(document, "structure"), "damaged");
  EXPECT_EQ(state(document, "heap h.db"), "unreadable");
  fs::remove_all(domain());
  make({}, Ending::kKilled);
  patch_file(domain() + "/tmh.state", 8, "x");  // shared memory of another version
  EXPECT_EQ(state(check(kRefused), "heap h.db"), "unreadable");
}

// Random bytes at random places of every file, and random cuts.
TEST_F(ToolCheck, HostileBytesNeverHangOrCrash) {
  std::mt19937_64 random(seed());
  make(durable_options());
  const std::string whole = folder_ / "whole";
  fs::copy(domain(), whole);
  for (int round = 0; round < 40; ++round) {
    fs::remove_all(domain());
    fs::copy(whole, domain());
    for (const char *name : {"/h.db", "/tmh.log.0000000000", "/tmh.checkpoint", "/tmh.control"}) {
      const std::string path = domain() + name;
      if (random() % 2 != 0) continue;
      // Where the heap's own pages lie.
      const std::size_t end = std::min<std::size_t>(fs::file_size(path), 80 * 4096);
      for (std::uint64_t count = random() % 8; count != 0; --count)
        patch_file(path, random() % (end - 8),
                   std::string(1 + random() % 8, static_cast<char>(random())));
      if (random() % 4 == 0) fs::resize_file(path, random() % end);
    }
    const ProgramEnd end = run_tmh({"check", domain(), "--json"});
    EXPECT_TRUE(end.exit_code >= kSound && end.exit_code <= kRefused) << end.exit_code << end.err;
    EXPECT_FALSE(Json::parse(end.out, Json::IfBroken::kDiscard).is_discarded()) << end.out;
  }
}

}  // namespace
}  // namespace tmh::test
