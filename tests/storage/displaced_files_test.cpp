// tests/storage/displaced_files_test.cpp -- each file of a domain that is in use is removed,
// replaced by a copy or an older copy of itself, cut short or made a folder.
// Shape:      the user commits, the file is displaced, and then: another process joins; the user
//             goes on and closes; or the user is killed. At last the folder is opened again.
// Invariants: (1) no loss in silence: what was acknowledged is found, or somebody was told: a
//             commit, close() or an open was refused with a sentence that names a file, or the user
//             died of SIGBUS. (2) no process hangs. (3) a process that joins has the files of the
//             others, or is refused.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

struct Mode {
  const char *name;
  Durability durability;
  Levels levels;
};
constexpr Mode kModes[] = {{"Volatile", Durability::kNone, Levels::kPage},
                           {"Strict", Durability::kStrict, Levels::kPage},
                           {"Hybrid", Durability::kNone, Levels::kHybrid},
                           {"Buffered", Durability::kBuffered, Levels::kPage},
                           {"StrictHybrid", Durability::kStrict, Levels::kHybrid}};
// An older copy is put there after the file has gone, so that it may get the inode's number.
enum class Act : std::uint8_t { kRemoved, kCopied, kOlder, kCut, kFolder };
constexpr const char *kActs[] = {"removed", "copy", "older copy", "cut", "folder"};
enum class Then : std::uint8_t { kJoined, kGoesOn, kKilled };
constexpr const char *kThens[] = {"joined", "goes on", "killed"};

constexpr std::uint64_t kBefore = 4, kAfter = 4;
constexpr std::size_t kSentenceBytes = 512;

struct Report {
  Turn turn;
  // Commits that were acknowledged: durably, where the domain is durable.
  std::atomic<std::uint64_t> acknowledged;
  // Somebody was told.
  std::atomic<bool> is_told;
  char sentence[kSentenceBytes];
  char joined[kSentenceBytes];
};

class DisplacedFilesTest : public testing::TestWithParam<Mode> {
 protected:
  struct Case {
    std::string file;
    Act act;
    Then then;
  };

  [[nodiscard]] static DomainOptions options() {
    DomainOptions options = durable_options(GetParam().durability);
    options.levels = GetParam().levels;
    options.line = LineChoice::kSoftware;
    return options;
  }

  // One participant's commits, each of them acknowledged before the next.
  class User {
   public:
    explicit User(const std::string &folder)
        : domain_(Domain::open(folder, options())), segment_(domain_.map("a.db", raw_pages(64))) {
      if (GetParam().levels == Levels::kHybrid) site_.emplace(domain_, "lines", "never");
    }
    void commit(Report &report) {
      atomically(domain_, [&] { ++word_of(segment_, 0); });
      if (site_)
        atomically(*site_, [&](Fields) {
          auto &number = reinterpret_cast<field<std::uint64_t> &>(word_of(segment_, 1));
          number = number + 1;
        });
      if (GetParam().durability != Durability::kNone) domain_.flush();
      report.acknowledged.fetch_add(1);
    }
    [[nodiscard]] std::uint64_t value() {
      const auto [pages, lines] =
          query(domain_, [&] { return std::pair(word_of(segment_, 0), word_of(segment_, 1)); });
      return site_ ? std::min(pages, lines) : pages;
    }
    void close() { domain_.close(); }

   private:
    Domain domain_;
    Segment segment_;
    std::optional<Site> site_;
  };

  static void note(char (&to)[kSentenceBytes], const std::string &what) {
    to[what.copy(to, kSentenceBytes - 1)] = '\0';
  }
  static void tell(Report &report, const Error &error) {
    note(report.sentence, error.what());
    report.is_told.store(true);
  }

  // What the domain's folder has while it is in use.
  [[nodiscard]] static std::vector<std::string> files_in_use() {
    const MemoryFolder folder;
    Shared<Report> report;
    std::vector<std::string> files;
    expect_child("lists", [&] {
      User user(folder.path());
      user.commit(*report);
      std::string all;
      for (const auto &entry : fs::directory_iterator(folder.path()))
        all += entry.path().filename().string() + " ";
      note(report->sentence, all);
    });
    std::string name;
    for (const char *at = report->sentence; *at != '\0'; ++at) {
      if (*at != ' ') {
        name += *at;
        continue;
      }
      files.push_back(std::exchange(name, {}));
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  static void copy_sparse(const fs::path &from, const fs::path &to) {
    ASSERT_EQ(std::system(("cp --sparse=always " + from.string() + " " + to.string()).c_str()), 0);
  }
  static void displace(const fs::path &file, const fs::path &older, Act act) {
    const fs::path copy = file.string() + ".copy";
    switch (act) {
      case Act::kRemoved:
        fs::remove(file);
        break;
      case Act::kCopied:
        copy_sparse(file, copy);
        fs::rename(copy, file);
        break;
      case Act::kOlder:
        fs::remove(file);
        copy_sparse(older, file);
        break;
      case Act::kCut:
        fs::resize_file(file, 0);
        break;
      case Act::kFolder:
        fs::remove(file);
        fs::create_directory(file);
        break;
    }
  }

  // How it ended, in a word.
  static std::string play(const Case &one) {
    const TempFolder folder;  // on a disk, whose inodes get their numbers again
    const MemoryFolder aside;
    const fs::path file = fs::path(folder.path()) / one.file,
                   older = fs::path(aside.path()) / "old";
    Shared<Report> report;
    Children children;
    const std::size_t user = children.spawn("user", [&] {
      User self(folder.path());
      for (std::uint64_t i = 0; i < kBefore; ++i) {
        self.commit(*report);
        if (i == kBefore / 2) report->turn.reach(1);
        if (i == kBefore / 2) report->turn.await(2);
      }
      report->turn.reach(3);
      report->turn.await(4);
      try {
        for (std::uint64_t i = 0; i < kAfter; ++i) self.commit(*report);
        self.close();
      } catch (const Error &error) {
        tell(*report, error);
        _exit(0);
      }
    });
    report->turn.await(1);
    // A file that this process of the domain has not made yet has no older copy.
    const bool has_older =
        std::system(("cp --sparse=always " + file.string() + " " + older.string() + " 2>/dev/null")
                        .c_str()) == 0;
    report->turn.reach(2);
    report->turn.await(3);
    if (one.act == Act::kOlder && !has_older) {
      children.bury(user);
      return "-";
    }
    displace(file, older, one.act);
    if (one.then == Then::kJoined) {
      const ChildEnd end = run_in_child("joins", [&] {
        try {
          User self(folder.path());
          for (std::uint64_t i = 0; i < kAfter; ++i) self.commit(*report);
          self.close();
        } catch (const Error &error) {
          note(report->joined, error.what());
          _exit(0);
        }
      });
      EXPECT_TRUE(end.succeeded() || end.signal == SIGBUS) << one.file << " " << end.signal;
    }
    if (one.then == Then::kKilled) {
      children.bury(user);
    } else {
      report->turn.reach(4);
      const ChildEnd end = children.wait(user);
      if (end.signal == SIGBUS) report->is_told.store(true);
      EXPECT_TRUE(end.succeeded() || end.signal == SIGBUS) << one.file << " " << end.signal;
    }
    std::uint64_t found = 0;
    const ChildEnd end = run_in_child("opens", [&] {
      try {
        User last(folder.path());
        found = last.value();
        report->acknowledged.store(last.value() << 32 | report->acknowledged.load());
        last.close();
      } catch (const Error &error) {
        tell(*report, error);
        EXPECT_NE(std::string(error.what()).find("/"), std::string::npos) << error.what();
        _exit(0);
      }
    });
    EXPECT_TRUE(end.succeeded()) << one.file;
    const std::uint64_t both = report->acknowledged.load();
    found = both >> 32;
    const std::uint64_t acknowledged = both & 0xffff'ffff;
    if (report->is_told.load()) return report->joined[0] != '\0' ? "refused" : "told";
    EXPECT_GE(found, acknowledged) << one.file << ", " << kActs[static_cast<int>(one.act)] << ", "
                                   << kThens[static_cast<int>(one.then)] << ": lost in silence";
    return report->joined[0] != '\0' ? "refused" : "all there";
  }
};

TEST_P(DisplacedFilesTest, NothingIsLostInSilence) {
  const std::vector<std::string> files = files_in_use();
  ASSERT_GT(files.size(), 8U);
  for (const std::string &file : files) {
    std::string row = std::string(GetParam().name) + " | " + file;
    for (int act = 0; act < 5; ++act)
      for (int then = 0; then < 3; ++then)
        row += std::string(" | ") + play({file, static_cast<Act>(act), static_cast<Then>(then)});
    std::cout << row << std::endl;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, DisplacedFilesTest, testing::ValuesIn(kModes),
                         [](const auto &mode) { return std::string(mode.param.name); });

}  // namespace
}  // namespace tmh::test
