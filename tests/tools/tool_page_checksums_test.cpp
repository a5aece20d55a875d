// tests/tools/tool_page_checksums_test.cpp -- tmh.checksums: what tmh check finds with it, and when
// it has nothing to say.
// Invariants: (1) in a closed domain with the option, and in a backup, every changed byte of a data
//             file is found, and named. (2) what is right is never called damaged, wherever a
//             process died. (3) damage of the table itself is told as such. (4) a page that nobody
//             changed keeps its checksum over later openings.
#include <gtest/gtest.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "programs/json.h"
#include "storage/page_checksums.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/check.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;
using tools::Part;
using tools::PartState;

constexpr const char *kTable = "page checksums";

DomainOptions with_checksums(PageChecksums use = PageChecksums::kOn,
                             Levels levels = Levels::kPage) {
  DomainOptions options = durable_options();
  options.page_checksums = use;
  options.levels = levels;
  return options;
}

class PageChecksumsTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  [[nodiscard]] std::string table() const { return storage::checksums_path(domain()); }
  [[nodiscard]] bool has_table() const { return fs::exists(table()); }

  // "a.db": 64 raw pages; "h.db": a heap; "sparse.db": one page of 3,000.
  static void make(const std::string &folder, const DomainOptions &options,
                   const std::string &backup = "") {
    in_domain(folder, options, Ending::kClosed, [&](const Domain &d, const Segment &s) {
      const Segment heap = d.map("h.db"), sparse = d.map("sparse.db", raw_pages(3'000));
      atomically(d, [&] {
        *heap.root<std::uint64_t>("root") = 7;
        word_of(sparse, 1'500) = 1;
      });
      commit(d, s, 80);
      if (!backup.empty()) d.backup(backup);
    });
  }
  // The parts that concern the checksums: of the table, and of pages.
  static std::vector<Part> look(const std::string &folder) {
    std::vector<Part> parts = tools::check_domain(folder);
    std::erase_if(parts, [](const Part &part) {
      return part.name != kTable && part.name.rfind("page ", 0) != 0;
    });
    return parts;
  }
  static void expect_sound(const std::string &folder) {
    const std::vector<Part> parts = look(folder);
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(parts[0].state, PartState::kSound) << parts[0].message;
  }
  static void flip(const std::string &path, std::size_t offset, unsigned by = 0xff) {
    const std::string byte = read_file(path).substr(offset, 1);
    ASSERT_EQ(byte.size(), 1U);
    patch_file(path, offset,
               std::string(1, static_cast<char>(static_cast<unsigned char>(byte[0]) ^ by)));
  }
  // Changes single bytes of the data files, one after the other: each is found, and named.
  static void expect_all_found(const std::string &folder, int changes) {
    std::mt19937_64 random(seed());
    for (int i = 0; i < changes; ++i) {
      const std::string name = i % 3 == 0 ? "h.db" : i % 3 == 1 ? "a.db" : "sparse.db";
      const std::string path = folder + "/" + name;
      const std::size_t offset = random() % fs::file_size(path);
      const unsigned by = 1 + static_cast<unsigned>(random() % 255);
      flip(path, offset, by);
      const std::vector<Part> parts = look(folder);
      ASSERT_EQ(parts.size(), 2U) << name << " at " << offset;
      EXPECT_EQ(parts[0].state, PartState::kDamaged);
      EXPECT_EQ(parts[1].state, PartState::kDamaged);
      EXPECT_EQ(parts[1].name, "page " + std::to_string(offset / kPageBytes) + " of " + name);
      flip(path, offset, by);
    }
    expect_sound(folder);
  }

  MemoryFolder folder_;
};

TEST_F(PageChecksumsTest, EveryChangedByteOfAClosedDomainIsFound) {
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    fs::remove_all(domain());
    make(domain(), with_checksums(PageChecksums::kOn, levels));
    expect_sound(domain());
    expect_all_found(domain(), 75);
  }
}

// The user decides what a segment's name leads to.
TEST_F(PageChecksumsTest, ASegmentMayBeALink) {
  for (const bool is_symbolic : {true, false}) {
    fs::remove_all(domain());
    make(domain(), with_checksums());
    const std::string far = folder_ / "far.db";
    fs::remove(far);
    if (is_symbolic) {
      fs::rename(domain() + "/a.db", far);
      fs::create_symlink(far, domain() + "/a.db");
    } else {
      fs::create_hard_link(domain() + "/a.db", far);
    }
    for (int round = 0; round < 2; ++round)
      in_domain(domain(), durable_options(), Ending::kClosed,
                [&](const Domain &d, const Segment &s) {
                  EXPECT_TRUE(d.recovery().was_clean);
                  commit(d, s, 5);
                });
    expect_all_found(domain(), 15);
  }
}

// A page that has gone bad since the domain was closed is not taken for a good one by an open that
// was refused.
TEST_F(PageChecksumsTest, ARefusedOpenLeavesTheTable) {
  make(domain(), with_checksums());
  flip(domain() + "/a.db", 9 * kPageBytes + 1);
  setenv("TMH_STRAY", "perhaps", 1);
  EXPECT_THROW((void)Domain::open(domain(), durable_options()), Error);
  unsetenv("TMH_STRAY");
  in_domain(domain(), durable_options(), Ending::kClosed, [](const Domain &, const Segment &) {});
  const std::vector<Part> parts = look(domain());
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].name, "page 9 of a.db");
  const std::string printed = run_tmh({"check", domain(), "--json"}).out;
  expect_valid("check", programs::Json::parse(printed).dump());
}

TEST_F(PageChecksumsTest, ABackupHasThemAlsoWhereTheDomainHasNot) {
  const std::string copy = folder_ / "copy";
  for (const PageChecksums use : {PageChecksums::kOff, PageChecksums::kOn}) {
    fs::remove_all(domain());
    fs::remove_all(copy);
    make(domain(), with_checksums(use), copy);
    EXPECT_EQ(has_table(), use == PageChecksums::kOn);
    expect_sound(copy);
    expect_all_found(copy, 15);
    // Once it has been opened it is a domain as the one it was made of.
    in_domain(copy, durable_options(), Ending::kClosed,
              [](const Domain &d, const Segment &s) { commit(d, s, 5); });
    EXPECT_EQ(fs::exists(storage::checksums_path(copy)), use == PageChecksums::kOn);
    if (use == PageChecksums::kOn) expect_sound(copy);
  }
}

TEST_F(PageChecksumsTest, WhoseRecoveryDiedInABackupIsNotCalledDamaged) {
  const std::string copy = folder_ / "copy";
  make(domain(), with_checksums(), copy);
  in_domain(copy, durable_options(), Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  const std::vector<Part> parts = look(copy);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].state, PartState::kUnchecked) << parts[0].message;
}

// Pages that nobody commits to are not read again at a close: what a disk has made of them
// meanwhile does not become right.
TEST_F(PageChecksumsTest, APageThatWentBadStaysBadOverLaterOpenings) {
  make(domain(), with_checksums());
  flip(domain() + "/a.db", 40 * kPageBytes + 100);
  for (int i = 0; i < 2; ++i) {
    in_domain(domain(), durable_options(), Ending::kClosed,
              [](const Domain &d, const Segment &s) { commit(d, s, 5); });
    const std::vector<Part> parts = look(domain());
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(parts[1].name, "page 40 of a.db");
  }
  // A commit that stores all of the page makes it right.
  in_domain(domain(), durable_options(), Ending::kClosed, [](const Domain &d, const Segment &s) {
    atomically(d, [&] { std::fill_n(&word_of(s, 40), kPageBytes / sizeof(std::uint64_t), 3); });
  });
  expect_sound(domain());
}

TEST_F(PageChecksumsTest, ADamagedTableIsToldAsSuch) {
  make(domain(), with_checksums());
  const std::string whole = read_file(table());
  std::mt19937_64 random(seed());
  const auto expect_told = [&](const std::string &what) {
    const std::vector<Part> parts = look(domain());
    ASSERT_EQ(parts.size(), 1U) << what;
    EXPECT_EQ(parts[0].state, PartState::kDamaged) << what;
    EXPECT_NE(parts[0].message.find("itself is damaged"), std::string::npos) << parts[0].message;
  };
  for (int i = 0; i < 50; ++i) {
    const std::size_t at = i == 0 ? 0 : random() % whole.size();
    flip(table(), at);
    expect_told("byte " + std::to_string(at));
    write_file(table(), whole);
  }
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{100}, std::size_t{4096}, whole.size() - 1}) {
    fs::resize_file(table(), bytes);
    expect_told(std::to_string(bytes) + " bytes");
    write_file(table(), whole);
  }
  expect_sound(domain());
  // Others can use the domain, and the next close makes a new one.
  flip(table(), 5000);
  in_domain(domain(), durable_options(), Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  expect_sound(domain());
}

std::atomic<std::uint64_t> operations{0};
std::uint64_t die_at = 0;
int die_at_operation(const platform::DiskEvent &) {
  if (operations.fetch_add(1) + 1 == die_at) (void)::kill(::getpid(), SIGKILL);
  return 0;
}

TEST_F(PageChecksumsTest, DeathAtEachFileOperationIsNeverCalledDamage) {
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    fs::remove_all(domain());
    const DomainOptions options = with_checksums(PageChecksums::kOn, levels);
    make(domain(), options);
    bool is_through = false;
    for (std::uint64_t at = 1; !is_through; ++at) {
      const ChildEnd end = run_in_child("dying", [&] {
        die_at = at;
        platform::set_disk_hook(die_at_operation);
        Domain d = Domain::open(domain(), options);
        const Segment s = d.map("a.db", raw_pages(64));
        commit(d, s, 10 + at % 7);
        d.checkpoint();
        commit(d, s, 10);
        d.close();
        platform::set_disk_hook(nullptr);
      });
      is_through = end.succeeded();
      ASSERT_TRUE(is_through || end.signal == SIGKILL);
      for (const Part &part : look(domain()))
        EXPECT_NE(part.state, PartState::kDamaged) << at << ": " << part.message;
      // The next close makes a table of it, every third time: so deaths follow each other, too.
      if (at % 3 != 0) continue;
      in_domain(domain(), options, Ending::kClosed,
                [](const Domain &d, const Segment &s) { commit(d, s, 3); });
      expect_sound(domain());
    }
  }
}

TEST_F(PageChecksumsTest, TheSettingStaysUntilSomebodyChangesIt) {
  make(domain(), durable_options());
  EXPECT_FALSE(has_table());
  EXPECT_TRUE(look(domain()).empty());
  const auto open_with = [&](PageChecksums use) {
    in_domain(domain(), with_checksums(use), Ending::kClosed,
              [](const Domain &d, const Segment &s) { commit(d, s, 2); });
  };
  open_with(PageChecksums::kOn);
  expect_sound(domain());
  open_with(PageChecksums{});
  expect_sound(domain());
  expect_child("second open in a process", [&] {
    Domain first = Domain::open(domain(), with_checksums(PageChecksums::kOff));
    EXPECT_FALSE(has_table());
    Domain second = Domain::open(domain(), with_checksums(PageChecksums::kOn));
    EXPECT_TRUE(has_table());
    second.close();
  });
  expect_sound(domain());
  open_with(PageChecksums::kOff);
  EXPECT_FALSE(has_table());
  ::setenv("TMH_PAGE_CHECKSUMS", "on", 1);
  open_with(PageChecksums{});
  ::unsetenv("TMH_PAGE_CHECKSUMS");
  expect_sound(domain());
}

TEST_F(PageChecksumsTest, WrongValuesAndVolatileDomainsAreRefused) {
  expect_child("refused", [&] {
    DomainOptions options = durable_options();
    options.page_checksums = static_cast<PageChecksums>(3);
    expect_error(
        Errc::kBadArgument, [&] { (void)Domain::open(domain(), options); },
        "right values: off, on");
    ::setenv("TMH_PAGE_CHECKSUMS", "yes", 1);
    expect_error(
        Errc::kBadArgument, [&] { (void)Domain::open(domain(), durable_options()); },
        "TMH_PAGE_CHECKSUMS='yes'; right values: off, on");
    ::setenv("TMH_PAGE_CHECKSUMS", "on", 1);
    DomainOptions is_volatile;
    is_volatile.page_checksums = PageChecksums::kOn;
    expect_error(
        Errc::kNotDurable, [&] { (void)Domain::open(domain(), is_volatile); }, "page checksums");
    EXPECT_FALSE(fs::exists(domain() + "/tmh.control")) << "a refused open leaves no domain";
    // The variable is of all domains that a program opens.
    Domain::open(domain(), DomainOptions{}).close();
    EXPECT_FALSE(has_table());
  });
}

}  // namespace
}  // namespace tmh::test
