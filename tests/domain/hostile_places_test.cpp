// tests/domain/hostile_places_test.cpp -- domains in containers and sandboxes, shared by users, and
// at the kernel's limits.
// Invariants: (1) who cannot tell whether the others live is refused, and they go on undisturbed:
//                 another pid namespace, /proc of another one, a boot id that is hidden, shared
//                 memory in use on another machine. What the dead of another pid namespace have
//                 left is taken over.
//             (2) all files of a domain are for whom its control file is for, whatever umask their
//                 makers had.
//             (3) a file size limit is the trouble of the process that has it, not its neighbours'.
//                 Blocked signals are nobody's.
//             (4) a full disk is an error on file systems that copy on write, too.
//             (5) who drops privileges behind the open may use the domain in threads that begin
//                 later, too.
//             (6) who no longer reaches the folder keeps nobody else from the log.
//             (7) where the kernel gives no more areas (vm.max_map_count) nothing is lost, and
//                 nothing goes unnoticed.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "levels/page/shared/layout.h"
#include "observe/steps.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/durable_folder.h"
#include "tests/support/sanitizers.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

#include <tmh/tmh.hpp>

namespace tmh::test {
namespace {

constexpr std::uint64_t kPages = 64;
constexpr int kCannot = 77;

SegmentOptions raw(std::uint64_t pages = kPages) {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = pages * kPageBytes;
  return options;
}

std::uint64_t &word(const Segment &segment, std::uint64_t page) {
  return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
}

bool has_own_mounts() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

enum class Proc : std::uint8_t { kOwn, kOfTheParent };

// Not by Children: who asks whether its parent lives has no pid of it there.
int end_of_fork(const std::function<void()> &body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// In a child in a new pid namespace. 77: that is not permitted here.
ChildEnd run_in_container(Proc proc, const std::function<void()> &body) {
  return run_in_child("outside", [&] {
    if (!has_own_mounts() || unshare(CLONE_NEWPID) != 0) _exit(kCannot);
    constexpr int kKilled = 100;
    const int status = end_of_fork([&] {
      if (proc == Proc::kOwn && mount("proc", "/proc", "proc", 0, nullptr) != 0) _exit(kCannot);
      // The first process of a namespace cannot be killed from inside.
      const int inner = end_of_fork(body);
      _exit(WIFSIGNALED(inner) ? kKilled + WTERMSIG(inner) : WEXITSTATUS(inner));
    });
    const int code = WEXITSTATUS(status);
    if (code > kKilled) raise(code - kKilled);
    _exit(code);
  });
}

#define TMH_SKIP_IF_NOT_PERMITTED(end)                         \
  if ((end).exit_code == kCannot)                              \
  GTEST_SKIP() << "needs the right to make namespaces and to " \
                  "mount"

// Somebody in the domain who has stored to page 0 and not committed yet.
class Neighbour {
 public:
  explicit Neighbour(const std::string &folder) : folder_(folder) {
    index_ = children_.spawn("neighbour", [this] {
      const Domain domain = Domain::open(folder_);
      const Segment segment = domain.map("a.db", raw());
      atomically(domain, [&] { word(segment, 1) = 1; });
      domain.begin();
      word(segment, 0) = 1;
      turn_->reach(1);
      turn_->await(2);
      EXPECT_EQ(domain.end(), Status::kCommitted);
      EXPECT_EQ(domain.counters().participants_reaped, 0U);
    });
    turn_->await(1);
  }
  void expect_undisturbed() {
    turn_->reach(2);
    EXPECT_TRUE(children_.wait(index_).succeeded());
    const Domain domain = Domain::open(folder_);
    const Segment segment = domain.map("a.db", raw());
    EXPECT_EQ(query(domain, [&] { return word(segment, 0) + word(segment, 1); }), 2U);
  }

 private:
  std::string folder_;
  const Shared<Turn> turn_;
  Children children_;
  std::size_t index_ = 0;
};

void expect_refused(const std::string &folder, Errc code, const std::string &why) {
  try {
    (void)Domain::open(folder);
    ADD_FAILURE() << "opened";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(HostilePlaces, ADomainOfAnotherPidNamespaceIsInUse) {
  const MemoryFolder folder;
  Neighbour neighbour(folder / "domain");
  const ChildEnd end = run_in_container(Proc::kOwn, [&] {
    expect_refused(folder / "domain", Errc::kDomainInUse, "namespace");
    EXPECT_EQ(code_of([&] { (void)recover(folder / "domain"); }), Errc::kNotDurable);
  });
  neighbour.expect_undisturbed();
  TMH_SKIP_IF_NOT_PERMITTED(end);
  EXPECT_TRUE(end.succeeded());
}

TEST(HostilePlaces, WhatTheDeadOfAnotherPidNamespaceLeftIsTakenOver) {
  const MemoryFolder folder;
  const std::string path = folder / "domain";
  const ChildEnd end = run_in_container(Proc::kOwn, [&] {
    const Domain domain = Domain::open(path);
    const Segment segment = domain.map("a.db", raw());
    atomically(domain, [&] { word(segment, 0) = 1; });
    domain.begin();
    word(segment, 0) = 2;
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kCommitLocked), 1);
    static_cast<void>(domain.end());
  });
  TMH_SKIP_IF_NOT_PERMITTED(end);
  EXPECT_EQ(end.signal, SIGKILL);
  const Domain domain = Domain::open(path);
  EXPECT_EQ(domain.participants().size(), 1U);
  const Segment segment = domain.map("a.db", raw());
  EXPECT_EQ(query(domain, [&] { return word(segment, 0); }), 1U);
  atomically(domain, [&] { ++word(segment, 0); });
}

TEST(HostilePlaces, ProcOfAnotherPidNamespaceIsNotBelieved) {
  const MemoryFolder folder;
  const ChildEnd end = run_in_container(Proc::kOfTheParent, [&] {
    expect_refused(folder / "domain", Errc::kIo, "/proc shows another");
  });
  TMH_SKIP_IF_NOT_PERMITTED(end);
  EXPECT_TRUE(end.succeeded());
  EXPECT_NE(access((folder / "domain/tmh.control").c_str(), F_OK), 0)
      << "the refused open left a domain";
}

TEST(HostilePlaces, WithoutProcADomainIsRefused) {
  const MemoryFolder folder;
  const ChildEnd end = run_in_child("without /proc", [&] {
    if (!has_own_mounts() || mount("none", "/proc", "tmpfs", 0, nullptr) != 0) _exit(kCannot);
    expect_refused(folder / "domain", Errc::kIo, "/proc");
  });
  TMH_SKIP_IF_NOT_PERMITTED(end);
  EXPECT_TRUE(end.succeeded());
}

// As systemd's ProcSubset=pid and sandboxes do.
TEST(HostilePlaces, AProcessThatCannotReadTheBootIdTakesNothingAway) {
  const MemoryFolder folder;
  write_file(folder / "empty", "");
  Neighbour neighbour(folder / "domain");
  const ChildEnd end = run_in_child("sandboxed", [&] {
    const char *const boot_id = "/proc/sys/kernel/random/boot_id";
    if (!has_own_mounts() ||
        mount((folder / "empty").c_str(), boot_id, nullptr, MS_BIND, nullptr) != 0)
      _exit(kCannot);
    expect_refused(folder / "domain", Errc::kIo, boot_id);
  });
  neighbour.expect_undisturbed();
  TMH_SKIP_IF_NOT_PERMITTED(end);
  EXPECT_TRUE(end.succeeded());
}

// On a network's file system: the kernel of the other machine has another boot id, and its locks
// are seen here.
TEST(HostilePlaces, ADomainInUseUnderAnotherBootIdIsLeftAlone) {
  const MemoryFolder folder;
  const std::string path = folder / "domain";
  const Shared<Turn> turn;
  Children children;
  children.spawn("on the other machine", [&] {
    const Domain domain = Domain::open(path);
    const Segment segment = domain.map("a.db", raw());
    patch_file(path + "/tmh.state", offsetof(page::DomainState, boot_id), "another boot");
    forget_this_boot(path);
    turn->reach(1);
    turn->await(2);
    atomically(domain, [&] { word(segment, 0) = 1; });
  });
  turn->await(1);
  expect_refused(path, Errc::kDomainInUse, "another machine");
  turn->reach(2);
  children.expect_success();
  const Domain domain = Domain::open(path);
  const Segment segment = domain.map("a.db", raw());
  EXPECT_EQ(query(domain, [&] { return word(segment, 0); }), 1U);
}

// Turns: 1 the first has the domain open, 2 the second has made and changed what it wants to.
class SharedByUsers : public testing::TestWithParam<Durability> {
 protected:
  static constexpr gid_t kGroup = 65532;
  static constexpr uid_t kFirst = 65533, kSecond = 65531;
  static void become(uid_t user, mode_t mask) {
    const gid_t groups[] = {kGroup};
    // Its own group is another one, so what it makes is of that one at first.
    if (setgroups(1, groups) != 0 || setresgid(user, user, user) != 0 ||
        setresuid(user, user, user) != 0)
      _exit(kCannot);
    umask(mask);
  }
  [[nodiscard]] static DomainOptions options() {
    DomainOptions options;
    options.durability = GetParam();
    options.log_file_bytes = 1u << 20;
    return options;
  }
};

TEST_P(SharedByUsers, FilesOfADomainAreForAllWhomItsControlFileIsFor) {
  const TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const std::string path = folder / "domain";
  ASSERT_EQ(mkdir(path.c_str(), 0770), 0);
  if (chown(path.c_str(), kFirst, kGroup) != 0 || chmod(path.c_str(), 02770) != 0)
    GTEST_SKIP() << "needs the right to give files to other users";
  const Shared<Turn> turn;
  Children children;
  const std::size_t first = children.spawn("first", [&] {
    become(kFirst, 007);
    Domain domain = Domain::open(path, options());
    const Segment segment = domain.map("a.db", raw());
    atomically(domain, [&] { word(segment, 0) = 1; });
    turn->reach(1);
    turn->await(2);
    atomically(domain, [&] { ++word(segment, 0); });
    const Segment other = domain.map("b.db", raw());
    for (int i = 0; i < 100; ++i) atomically(domain, [&] { ++word(other, 0); });
    domain.close();
  });
  turn->await(1);
  const std::size_t second = children.spawn("second", [&] {
    become(kSecond, 077);
    const Domain domain = Domain::open(path, options());
    const Segment segment = domain.map("a.db", raw()), other = domain.map("b.db", raw());
    // Enough for several log files.
    for (int i = 0; i < 100; ++i) {
      atomically(domain, [&] {
        ++word(segment, 0);
        for (std::uint64_t page = 0; page < kPages; ++page)
          std::memset(&word(other, page) + 1, i + 1, kPageBytes - 8);
      });
    }
    if (GetParam() != Durability::kNone) domain.checkpoint();
    turn->reach(2);
    turn->await(3);
  });
  turn->await(2);
  const ChildEnd first_end = children.wait(first);
  turn->reach(3);
  const ChildEnd second_end = children.wait(second);
  TMH_SKIP_IF_NOT_PERMITTED(first_end);
  EXPECT_TRUE(first_end.succeeded());
  EXPECT_TRUE(second_end.succeeded());
  expect_child("first, later", [&] {
    become(kFirst, 007);
    const Domain domain = Domain::open(path, options());
    const Segment segment = domain.map("a.db", raw()), other = domain.map("b.db", raw());
    EXPECT_EQ(query(domain, [&] { return word(segment, 0); }), 102U);
    EXPECT_EQ(query(domain, [&] { return word(other, 0); }), 100U);
  });
}

INSTANTIATE_TEST_SUITE_P(All, SharedByUsers,
                         testing::Values(Durability::kNone, Durability::kStrict),
                         [](const auto &way) { return std::string(to_string(way.param)); });

// btrfs writes what changes elsewhere, unless it was told otherwise when the file was empty.
TEST(HostilePlaces, AFullDiskIsNoSignalOnAFileSystemThatCopiesOnWrite) {
  if (std::system("command -v mkfs.btrfs >/dev/null") != 0)
    GTEST_SKIP() << "needs mkfs.btrfs (btrfs-progs)";
  const MemoryFolder folder;
  const ChildEnd end = run_in_child("mounts", [&] {
    const std::string image = folder / "image", mounted = folder / "mounted",
                      quiet = " >/dev/null 2>&1";
    write_file(image, "");
    ASSERT_EQ(truncate(image.c_str(), 128 << 20), 0);
    ASSERT_EQ(mkdir(mounted.c_str(), 0700), 0);
    if (!has_own_mounts() || std::system(("mkfs.btrfs -q " + image + quiet).c_str()) != 0 ||
        std::system(("mount -o loop " + image + " " + mounted + quiet).c_str()) != 0)
      _exit(kCannot);
    const Domain domain = Domain::open(mounted + "/domain");
    const Segment segment = domain.map("a.db", raw());
    for (std::uint64_t page = 0; page < kPages; ++page)
      atomically(domain, [&] { word(segment, page) = 1; });
    const int fill = open((mounted + "/fill").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fill, 0);
    ASSERT_EQ(syncfs(fill), 0);
    const std::vector<char> piece(1u << 20, 'x');
    for (std::size_t bytes = piece.size(); bytes >= kPageBytes;)
      if (write(fill, piece.data(), bytes) <= 0) bytes /= 2;
    (void)syncfs(fill);
    // Stores find their places, or the instance none: both are answers.
    for (std::uint64_t page = 0; page < kPages; ++page) {
      const Errc code = code_of([&] { atomically(domain, [&] { ++word(segment, page); }); });
      EXPECT_TRUE(code == Errc::kOk || code == Errc::kDiskFull) << static_cast<int>(code);
    }
    EXPECT_GE(query(domain, [&] { return word(segment, 0); }), 1U);
    close(fill);
  });
  if (end.exit_code == kCannot)
    GTEST_SKIP() << "needs the right to mount btrfs through a loop device";
  EXPECT_TRUE(end.succeeded());
}

TEST(HostilePlaces, ANewDomainIsOpenedOnASmallStack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's frames are larger";
#endif
  const MemoryFolder folder;
  expect_child("small", [&] {
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, 64u << 10), 0);
    const auto opens = [](void *path) -> void * {
      const Domain domain = Domain::open(*static_cast<const std::string *>(path));
      const Segment segment = domain.map("a.db", raw());
      atomically(domain, [&] { word(segment, 0) = 1; });
      return nullptr;
    };
    std::string path = folder / "domain";
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, &attributes, opens, &path), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
  });
}

enum class Apart : std::uint8_t { kByRoot, kByRights, kByName };
class NoLongerThere : public testing::TestWithParam<Apart> {};

// In the next log file, which somebody else has made.
TEST_P(NoLongerThere, KeepsNobodyElseFromTheLog) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to take another root directory, or become another user";
  const TempFolder parent;
  const std::string folder = parent / "domain", renamed = parent / "renamed";
  DomainOptions options;
  options.durability = Durability::kStrict;
  options.log_file_bytes = 1u << 20;
  const auto fill = [](const Domain &domain, const Segment &segment, std::uint64_t value) {
    atomically(domain, [&] {
      for (std::uint64_t page = 1; page < kPages; ++page)
        for (std::uint64_t i = 0; i < kPageBytes / 8; ++i) (&word(segment, page))[i] = value + i;
    });
  };
  const Shared<Turn> turn;
  Children children;
  const std::size_t apart = children.spawn("apart", [&] {
    const Domain domain = Domain::open(folder, options);
    const Segment segment = domain.map("a.db", raw());
    atomically(domain, [&] { word(segment, 0) = 1; });
    if (GetParam() == Apart::kByRoot) {
      ASSERT_EQ(chroot((folder + "/..").c_str()), 0);
    }
    if (GetParam() == Apart::kByRights) {
      ASSERT_EQ(setuid(65534), 0);
    }
    if (GetParam() == Apart::kByName) {
      ASSERT_EQ(rename(folder.c_str(), renamed.c_str()), 0);
    }
    turn->reach(1);
    turn->await(2);
    EXPECT_THROW(atomically(domain, [&] { ++word(segment, 0); }), Error);
    turn->reach(3);
    turn->await(4);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });
  expect_child("there", [&] {
    turn->await(1);
    const Domain domain = Domain::open(GetParam() == Apart::kByName ? renamed : folder, options);
    const Segment segment = domain.map("a.db", raw());
    // 3 MiB
    for (std::uint64_t value = 1; value < 12; ++value) fill(domain, segment, value * 1000);
    turn->reach(2);
    turn->await(3);
    fill(domain, segment, 77000);
    domain.flush();
    turn->reach(4);
  });
  EXPECT_TRUE(children.wait(apart).succeeded());
}
INSTANTIATE_TEST_SUITE_P(Ways, NoLongerThere,
                         testing::Values(Apart::kByRoot, Apart::kByRights, Apart::kByName));

class LaterThreads : public testing::TestWithParam<Levels> {};

// A thread's faults are listed by a descriptor of its own, which the process may not open any more.
TEST_P(LaterThreads, OfADaemonThatHasDroppedPrivilegesCanUseADomain) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  constexpr std::uint32_t kRounds = 3;
  const MemoryFolder folder;
  DomainOptions options;
  options.levels = GetParam();
  options.line = LineChoice::kSoftware;
  const Shared<Turn> turn;
  Children children;
  const std::size_t neighbour = children.spawn("neighbour", [&] {
    const Domain domain = Domain::open(folder.path(), options);
    const Segment segment = domain.map("a.db", raw());
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      turn->await(2 * round + 1);
      atomically(domain, [&] { ++word(segment, 5); });
      turn->reach(2 * round + 2);
    }
  });
  expect_child("daemon", [&] {
    const Domain domain = Domain::open(folder.path(), options);
    const Segment segment = domain.map("a.db", raw());
    const auto add = [&] {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < 64; ++page) ++word(segment, page);
      });
    };
    add();
    ASSERT_EQ(setgid(65534), 0);
    ASSERT_EQ(setuid(65534), 0);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      add();
      std::thread(add).join();
      turn->reach(2 * round + 1);
      turn->await(2 * round + 2);
    }
    query(domain, [&] {
      for (std::uint64_t page = 0; page < 64; ++page)
        EXPECT_EQ(word(segment, page), 2 * kRounds + 1 + (page == 5 ? kRounds : 0)) << page;
    });
  });
  EXPECT_TRUE(children.wait(neighbour).succeeded());
}
INSTANTIATE_TEST_SUITE_P(Levels, LaterThreads, testing::Values(Levels::kPage, Levels::kHybrid));

class BlockedSignals : public testing::TestWithParam<Tracking> {};

// As worker threads of daemons do, which leave signals to one thread.
TEST_P(BlockedSignals, DoNotKeepAThreadFromItsPages) {
  const MemoryFolder folder;
  expect_child("daemon", [&] {
    DomainOptions options;
    options.tracking = GetParam();
    const Domain domain = Domain::open(folder / "domain", options);
    const Segment segment = domain.map("a.db", raw());
    sigset_t all;
    sigfillset(&all);
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
    std::thread([&] {
      for (std::uint64_t page = 0; page < kPages; ++page)
        atomically(domain, [&] { ++word(segment, page); });
      sigset_t now;
      ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
      EXPECT_EQ(sigismember(&now, SIGTERM), 1) << "others stay blocked";
      query(domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page)
          EXPECT_EQ(word(segment, page), 1U) << page;
      });
    }).join();
  });
}

INSTANTIATE_TEST_SUITE_P(All, BlockedSignals,
                         testing::Values(Tracking::kSignal, Tracking::kSignalHot, Tracking::kAuto),
                         [](const auto &way) {
                           std::string name = to_string(way.param);
                           std::erase(name, '-');
                           return name;
                         });

class FileSizeLimit : public testing::TestWithParam<std::tuple<Durability, Levels>> {};

// The log is written by whoever comes; this one may not write where it ends.
TEST_P(FileSizeLimit, IsTheTroubleOfTheProcessThatHasIt) {
  const TempFolder folder;
  const std::string path = folder / "domain";
  DomainOptions options;
  std::tie(options.durability, options.levels) = GetParam();
  options.log_file_bytes = 1u << 20;
  const Shared<Turn> turn;
  Children children;
  children.spawn("limited", [&] {
    signal(SIGXFSZ, SIG_IGN);
    Domain domain = Domain::open(path, options);
    const Segment segment = domain.map("a.db", raw());
    turn->reach(1);
    turn->await(2);
    const rlimit limit{kPageBytes, kPageBytes};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ(code_of([&] {
                atomically(domain, [&] { ++word(segment, 0); });
                domain.flush();
              }),
              Errc::kIo);
    turn->reach(3);
    turn->await(4);
    EXPECT_GE(query(domain, [&] { return word(segment, 1); }), 1U);
  });
  turn->await(1);
  {
    const Domain domain = Domain::open(path, options);
    const Segment segment = domain.map("a.db", raw());
    // The log ends behind the other one's limit.
    for (std::uint64_t i = 1; i < kPages; ++i)
      atomically(domain, [&] { std::memset(&word(segment, i), 1, kPageBytes); });
    domain.flush();
    turn->reach(2);
    turn->await(3);
    for (int i = 0; i < 10; ++i) atomically(domain, [&] { ++word(segment, 1); });
    domain.flush();
    domain.checkpoint();
    turn->reach(4);
    children.expect_success();
    EXPECT_EQ(query(domain, [&] { return word(segment, 0); }), 1U)
        << "what the limited one has published";
  }
  const Domain domain = Domain::open(path, options);
  EXPECT_TRUE(domain.recovery().was_clean);
}

INSTANTIATE_TEST_SUITE_P(All, FileSizeLimit,
                         testing::Combine(testing::Values(Durability::kBuffered,
                                                          Durability::kStrict),
                                          testing::Values(Levels::kPage, Levels::kHybrid)),
                         [](const auto &way) {
                           return std::string(to_string(std::get<0>(way.param))) + "_" +
                                  to_string(std::get<1>(way.param));
                         });

// All areas that the kernel gives a process are used.
class Areas {
 public:
  Areas() {
    const auto memory = [](std::size_t bytes) {
      return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    };
    pages_ = static_cast<std::byte *>(memory(kAreasMax * kPageBytes));
    if (pages_ == MAP_FAILED) return;
    // Every second page otherwise than its neighbours: two areas each.
    while (used_ < kAreasMax && mprotect(pages_ + used_ * kPageBytes, kPageBytes, PROT_READ) == 0)
      used_ += 2;
    is_full_ = used_ < kAreasMax;
    // And the last one, if that would have taken two.
    if (is_full_)
      (void)mprotect(pages_ + used_ * kPageBytes, (kAreasMax - used_) * kPageBytes, PROT_READ);
  }
  ~Areas() { munmap(pages_, kAreasMax * kPageBytes); }
  Areas(const Areas &) = delete;
  Areas &operator=(const Areas &) = delete;
  [[nodiscard]] bool is_full() const noexcept { return is_full_; }

 private:
  static constexpr std::size_t kAreasMax = 1u << 20;
  std::byte *pages_ = nullptr;
  std::size_t used_ = 0;
  bool is_full_ = false;
};

class AreasRunOut : public testing::TestWithParam<std::tuple<Tracking, Levels>> {};

TEST_P(AreasRunOut, NothingIsLostAndNothingGoesUnnoticed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs areas itself";
#endif
  const MemoryFolder folder;
  DomainOptions options;
  std::tie(options.tracking, options.levels) = GetParam();
  const Shared<Turn> turn;
  Children children;
  constexpr std::uint64_t kRounds = 2000, kWarmRounds = 40, kWarmPages = 8;
  const std::size_t poor = children.spawn("poor", [&] {
    const Domain domain = Domain::open(folder / "domain", options);
    const Segment segment = domain.map("a.db", raw());
    // Pages that stay open side by side, as one area: closing one of them would make it three.
    for (std::uint64_t i = 0; i < kWarmRounds; ++i) {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < kWarmPages; ++page) ++word(segment, page);
      });
    }
    const Areas areas;
    if (!areas.is_full()) _exit(kCannot);
    // Those between the first and the last are no longer kept, and then stored to again.
    for (std::uint64_t i = 0; i < kWarmRounds; ++i)
      atomically(domain, [&] { ++word(segment, 0), ++word(segment, kWarmPages - 1); });
    for (std::uint64_t page = 0; page < kWarmPages; ++page)
      atomically(domain, [&] { ++word(segment, page); });
    turn->reach(1);
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      atomically(domain, [&] {
        for (const std::uint64_t page : {i % kWarmPages, (i % 2) * (i * 7 % kPages)})
          ++word(segment, page);
      });
    }
  });
  const std::size_t rich = children.spawn("rich", [&] {
    const Domain domain = Domain::open(folder / "domain", options);
    const Segment segment = domain.map("a.db", raw());
    turn->await(1);
    for (std::uint64_t i = 0; i < kRounds; ++i)
      atomically(domain, [&] {
        for (const std::uint64_t page : {i % kWarmPages, i * 5 % kPages}) ++word(segment, page);
      });
  });
  const ChildEnd end = children.wait(poor);
  if (end.exit_code == kCannot) GTEST_SKIP() << "vm.max_map_count is too large to be used up";
  EXPECT_TRUE(end.succeeded());
  EXPECT_TRUE(children.wait(rich).succeeded());
  const Domain domain = Domain::open(folder / "domain", options);
  const Segment segment = domain.map("a.db", raw());
  std::uint64_t sum = 0;
  query(domain, [&] {
    sum = 0;
    for (std::uint64_t page = 0; page < kPages; ++page) sum += word(segment, page);
  });
  EXPECT_EQ(sum, kWarmRounds * (kWarmPages + 2) + kWarmPages + kRounds * 4);
}

INSTANTIATE_TEST_SUITE_P(All, AreasRunOut,
                         testing::Combine(testing::Values(Tracking::kSignal, Tracking::kSignalHot,
                                                          Tracking::kAuto),
                                          testing::Values(Levels::kPage, Levels::kHybrid)),
                         [](const auto &way) {
                           std::string name = to_string(std::get<0>(way.param));
                           std::erase(name, '-');
                           return name + "_" + to_string(std::get<1>(way.param));
                         });

}  // namespace
}  // namespace tmh::test
