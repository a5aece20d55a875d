// tests/storage/own_files_test.cpp -- something else stands under the name of a file of the
// domain's own.
// Invariants: (1) a symbolic link, a hard link, a FIFO or a folder in the place of any file tmh.*
//                 is refused with kForeignFile, which names it, or is replaced by a new file; where
//                 the domain was in use kFileReplaced may say so first. It is never followed: what
//                 it leads to keeps every byte, its mode and its times, and nothing is made where a
//                 dangling link leads. So for this user (root, mostly),
//                 and for a member of the group of a shared folder.
//             (2) the names that files have while they are made are no exception, nor are archives.
//             (3) a file of a user who may not write the folder is refused; in a folder that a
//                 group may write everybody's files are the domain's.
//             (4) a segment's link is followed, but not one that another member has put there.
// Method:     children make the domain, and die with it or close it; children of the user who is
//             meant open it. The member's half needs root.
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "storage/log/log_format.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOwner = 65534;   // makes the folder and opens the domain
constexpr uid_t kMember = 65533;  // may write the folder
constexpr gid_t kGroup = 65532;   // of both
constexpr const char *kNeedsRoot = "needs root to become two other users";

enum class Who { kThisUser, kMemberOfGroup };
enum class Kind { kLink, kDanglingLink, kHardLink, kFifo, kFolder };
enum class Left { kOpen, kClosed };  // how the domain was left

// Not to return from.
void become(uid_t user) {
  const gid_t group = kGroup;
  ASSERT_EQ(setgroups(1, &group), 0);
  ASSERT_EQ(setresgid(user, user, user), 0);
  ASSERT_EQ(setresuid(user, user, user), 0);
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1), 0);  // as in a process that was this user's from the start
  umask(007);
}

struct Sight {
  std::string bytes;
  struct stat info {};
  explicit Sight(const std::string &path) : bytes(read_file(path)) {
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  }
  [[nodiscard]] bool operator==(const Sight &other) const {
    return bytes == other.bytes && info.st_ino == other.info.st_ino &&
           info.st_mode == other.info.st_mode && info.st_uid == other.info.st_uid &&
           info.st_gid == other.info.st_gid && info.st_mtim.tv_sec == other.info.st_mtim.tv_sec &&
           info.st_mtim.tv_nsec == other.info.st_mtim.tv_nsec;
  }
};

DomainOptions options_of(Durability durability) {
  DomainOptions options;
  options.durability = durability;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  options.tracking = Tracking::kSignalHot;  // permitted everywhere
  options.log_file_bytes = storage::kLogFileBytesMin;
  return options;
}

// A world with one domain, and one secret of its user's, who opens it.
class World {
 public:
  explicit World(Who who) : who_(who) {
    EXPECT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    fs::create_directory(home());
    write_file(secret(), std::string(3 * kPageBytes + 77, 's'));
    EXPECT_EQ(chmod(secret().c_str(), 0600), 0);
    EXPECT_EQ(chmod(home().c_str(), 0711), 0);
    fs::create_directory(domain());
    if (who_ == Who::kThisUser) return;
    EXPECT_EQ(chown(secret().c_str(), kOwner, kOwner), 0);
    EXPECT_EQ(chown(home().c_str(), kOwner, kOwner), 0);
    EXPECT_EQ(chown(domain().c_str(), kOwner, kGroup), 0);
    EXPECT_EQ(chmod(domain().c_str(), 02770), 0);
  }
  [[nodiscard]] std::string domain() const { return folder_ / "shop"; }
  [[nodiscard]] std::string home() const { return folder_ / "home"; }
  [[nodiscard]] std::string secret() const { return home() + "/secret"; }
  [[nodiscard]] std::string nowhere() const { return home() + "/nowhere"; }

  // In a child of the user who opens it.
  [[nodiscard]] ChildEnd run(const std::string &name, const std::function<void()> &body) const {
    return run_in_child(name, [&] {
      if (who_ == Who::kMemberOfGroup) become(kOwner);
      if (!testing::Test::HasFailure()) body();
    });
  }
  void expect(const std::string &name, const std::function<void()> &body) const {
    const ChildEnd end = run(name, body);
    EXPECT_TRUE(end.succeeded()) << name << ", signal " << end.signal << (end.hung ? ", hung" : "");
  }
  void use(Durability durability = Durability::kBuffered) const {
    Domain shop = Domain::open(domain(), options_of(durability));
    const Segment segment = shop.map("a.raw", raw_segment(8 * kPageBytes));
    atomically(shop, [&] { *reinterpret_cast<std::uint64_t *>(segment.data()) += 1; });
    shop.flush();
    shop.close();
  }
  void make(Left left) const {
    const ChildEnd end = run("maker", [&] {
      if (left == Left::kClosed) return use();
      static Domain shop;
      shop = Domain::open(domain(), options_of(Durability::kBuffered));
      const Segment segment = shop.map("a.raw", raw_segment(8 * kPageBytes));
      atomically(shop, [&] { *reinterpret_cast<std::uint64_t *>(segment.data()) += 1; });
      shop.flush();
      die_unless_failed();
    });
    ASSERT_TRUE(left == Left::kOpen ? end.signal == SIGKILL : end.succeeded());
  }
  void put(Kind kind, const std::string &path) const {
    fs::remove_all(path);
    switch (kind) {
      case Kind::kLink:
        fs::create_symlink(secret(), path);
        break;
      case Kind::kDanglingLink:
        fs::create_symlink(nowhere(), path);
        break;
      case Kind::kHardLink:  // by a member, where fs.protected_hardlinks is off
        fs::create_hard_link(secret(), path);
        return;
      case Kind::kFifo:
        ASSERT_EQ(mkfifo(path.c_str(), 0660), 0);
        ASSERT_EQ(chmod(path.c_str(), 0660), 0);
        break;
      case Kind::kFolder:
        fs::create_directory(path);
        break;
    }
    if (who_ == Who::kMemberOfGroup) {
      ASSERT_EQ(lchown(path.c_str(), kMember, kGroup), 0);
    }
  }
  [[nodiscard]] std::set<std::string> own_files() const {
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(domain())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("tmh.")) names.insert(name);
    }
    return names;
  }

 private:
  const Who who_;
  const MemoryFolder folder_;
};

// Of these an open relies on what is there: no new file does.
bool is_relied_on(const std::string &name, Left left) {
  if (name == "tmh.control" || name == "tmh.lock" || name == "tmh.checkpoint" ||
      name == "tmh.log.0000000000")
    return true;
  return left == Left::kOpen &&
         (name == "tmh.state" || name == "tmh.participants" || name == "tmh.log.state");
}

bool is_refusal(Errc code, Left left) {
  return code == Errc::kForeignFile || (left == Left::kOpen && code == Errc::kFileReplaced);
}

class OwnFilesTest : public testing::TestWithParam<std::tuple<Who, Left, Kind>> {
 protected:
  void SetUp() override {
    if (who() == Who::kMemberOfGroup && geteuid() != 0) GTEST_SKIP() << kNeedsRoot;
  }
  [[nodiscard]] static Who who() { return std::get<0>(GetParam()); }
  [[nodiscard]] static Left left() { return std::get<1>(GetParam()); }
  [[nodiscard]] static Kind kind() { return std::get<2>(GetParam()); }
};

TEST_P(OwnFilesTest, WhatStandsInTheirPlaceIsNeverFollowed) {
  std::set<std::string> names;
  {
    const World model(who());
    model.make(left());
    names = model.own_files();
  }
  ASSERT_GE(names.size(), left() == Left::kClosed ? 4U : 15U);
  for (const std::string &name : names) {
    const World world(who());
    world.make(left());
    if (testing::Test::HasFatalFailure()) return;
    const std::string path = world.domain() + "/" + name;
    world.put(kind(), path);
    const Sight before(world.secret());
    const Shared<Errc> code;
    world.expect("opening with " + name, [&] {
      try {
        world.use();
      } catch (const Error &error) {
        *code = error.errc();
        EXPECT_TRUE(is_refusal(error.errc(), left())) << error.what();
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      }
    });
    if (is_relied_on(name, left())) {
      EXPECT_TRUE(is_refusal(*code, left())) << name;
    }
    EXPECT_TRUE(Sight(world.secret()) == before) << name;
    EXPECT_FALSE(fs::exists(world.nowhere()))
        << name << " was followed to a file that was not there";
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<Who, Left, Kind>> &info) {
  const char *const who[] = {"ThisUser", "MemberOfGroup"};
  const char *const left[] = {"Open", "Closed"};
  const char *const kind[] = {"Link", "DanglingLink", "HardLink", "Fifo", "Folder"};
  return std::string(who[static_cast<int>(std::get<0>(info.param))]) +
         left[static_cast<int>(std::get<1>(info.param))] +
         kind[static_cast<int>(std::get<2>(info.param))];
}
INSTANTIATE_TEST_SUITE_P(Places, OwnFilesTest,
                         testing::Combine(testing::Values(Who::kThisUser, Who::kMemberOfGroup),
                                          testing::Values(Left::kOpen, Left::kClosed),
                                          testing::Values(Kind::kLink, Kind::kDanglingLink,
                                                          Kind::kHardLink, Kind::kFifo,
                                                          Kind::kFolder)),
                         name_of);

class OwnFilesByUserTest : public testing::TestWithParam<Who> {
 protected:
  void SetUp() override {
    if (GetParam() == Who::kMemberOfGroup && geteuid() != 0) GTEST_SKIP() << kNeedsRoot;
  }
};

// The domain is made, opened again with homes of their own, and grows: every file gets its name by
// way of another one.
TEST_P(OwnFilesByUserTest, NamesOfFilesInTheMakingAreNotFollowed) {
  for (const Kind kind : {Kind::kLink, Kind::kDanglingLink, Kind::kHardLink}) {
    const World world(GetParam());
    const std::set<std::string> names = {"tmh.control.new", "tmh.checkpoint.new", "tmh.log.new",
                                         "tmh.home.0.new",  "tmh.home.1.new",     "tmh.new.h.db"};
    const auto put_all = [&] {
      for (const std::string &name : names) world.put(kind, world.domain() + "/" + name);
    };
    put_all();
    const std::string before = read_file(world.secret());
    world.expect("maker", [&] { world.use(); });
    put_all();
    world.expect("user", [&] {
      Domain shop = Domain::open(world.domain(), options_of(Durability::kBuffered));
      (void)shop.map("a.raw", raw_segment(8 * kPageBytes));
      (void)shop.map("h.db");
      shop.checkpoint();
      shop.close();
    });
    EXPECT_EQ(read_file(world.secret()), before);
    EXPECT_FALSE(fs::exists(world.nowhere()));
  }
}

TEST_P(OwnFilesByUserTest, AnArchivesFilesAreNotFollowed) {
  for (const Kind kind : {Kind::kLink, Kind::kDanglingLink, Kind::kHardLink}) {
    const World world(GetParam());
    const std::string archive = world.domain() + "/old";
    world.expect("maker", [&] {
      world.use();
      fs::create_directory(archive);
    });
    for (const char *name : {"tmh.log.0000000000", "tmh.log.0000000001", "tmh.log.new"})
      world.put(kind, archive + "/" + name);
    const std::string before = read_file(world.secret());
    world.expect("archiver", [&] {
      const Domain shop = Domain::open(world.domain(), options_of(Durability::kBuffered));
      const Segment segment = shop.map("a.raw", raw_segment(8 * kPageBytes));
      for (std::uint64_t i = 0; i < 600; ++i) {  // more than a log file
        atomically(shop, [&] {
          for (std::uint64_t at = 0; at < kPageBytes / 8; ++at)
            reinterpret_cast<std::uint64_t *>(segment.data())[at] = i + at;
        });
      }
      shop.flush();
      shop.checkpoint();
      shop.checkpoint();
      const Errc code = code_of([&] { (void)shop.archive(archive); });
      EXPECT_TRUE(code == Errc::kOk || code == Errc::kForeignFile || code == Errc::kNotADomain)
          << static_cast<int>(code);
    });
    EXPECT_EQ(read_file(world.secret()), before);
    EXPECT_FALSE(fs::exists(world.nowhere()));
  }
}

std::string user_name(const testing::TestParamInfo<Who> &user) {
  return user.param == Who::kThisUser ? "ThisUser" : "MemberOfGroup";
}
INSTANTIATE_TEST_SUITE_P(Users, OwnFilesByUserTest,
                         testing::Values(Who::kThisUser, Who::kMemberOfGroup), user_name);

// Archives are made with ln(1), too.
TEST(OwnFilesAndOwners, ALogFileOfThisDomainMayHaveMoreNames) {
  const World world(Who::kThisUser);
  world.make(Left::kClosed);
  fs::create_hard_link(world.domain() + "/tmh.log.0000000000", world.home() + "/kept");
  world.use();
}

TEST(OwnFilesAndOwners, AnOpenDomainsControlFileMayGetAnotherName) {
  const TempFolder folder, elsewhere;
  DomainOptions options = options_of(Durability::kStrict);
  const Domain domain = Domain::open(folder.path(), options);
  const Segment segment = domain.map("heap");
  fs::create_hard_link(folder.path() + "/tmh.control", elsewhere.path() + "/kept");
  EXPECT_NO_THROW(segment.grow(2 * segment.size_bytes()));
  EXPECT_NO_THROW((void)domain.map("another"));
}

TEST(OwnFilesAndOwners, AFileOfOneWhoMayNotWriteTheFolderIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << kNeedsRoot;
  for (const char *name : {"tmh.control", "tmh.lock", "tmh.checkpoint", "tmh.log.0000000000"}) {
    const World world(Who::kThisUser);
    world.make(Left::kClosed);
    ASSERT_EQ(chmod(world.domain().c_str(), 0755), 0);
    ASSERT_EQ(chown((world.domain() + "/" + name).c_str(), kMember, kGroup), 0);
    expect_error(
        Errc::kForeignFile, [&] { world.use(); }, "belongs to user 65533");
    ASSERT_EQ(chmod(world.domain().c_str(), 02770), 0);
    EXPECT_NO_THROW(world.use())
        << name << ": in a folder that a group may write everybody's files are the domain's";
  }
}

TEST(OwnFilesAndOwners, ASegmentsLinkIsFollowedUnlessAnotherMemberMadeIt) {
  if (geteuid() != 0) GTEST_SKIP() << kNeedsRoot;
  for (const uid_t maker : {uid_t{0}, kOwner, kMember}) {
    const World world(Who::kMemberOfGroup);
    world.make(Left::kClosed);
    const std::string file = world.domain() + "/a.raw", moved = world.home() + "/moved.raw";
    fs::rename(file, moved);
    fs::create_symlink("../home/moved.raw", file);
    ASSERT_EQ(lchown(file.c_str(), maker, kGroup), 0);
    const Sight before(moved);
    world.expect("user", [&] {
      if (maker == kMember) {
        expect_error(
            Errc::kForeignFile, [&] { world.use(); }, "a.raw is a symbolic link that user 65533");
      } else {
        EXPECT_NO_THROW(world.use()) << maker;
      }
    });
    if (maker == kMember) {
      EXPECT_TRUE(Sight(moved) == before);
    }
  }
}

}  // namespace
}  // namespace tmh::test
