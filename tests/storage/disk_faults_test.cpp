// tests/storage/disk_faults_test.cpp -- the disk is full, broken, read-only or forbidden, at every
// kind of operation; log files vanish in use.
// Invariants: (1) the error is a specific Errc of a call, never a signal or a hang, (2) nothing
//             that was acknowledged is lost: the next open finds a prefix with all of it, (3) a
//             full disk costs the commits that met it and no more: with space again, work goes on
//             in the same processes, (4) after an error of writing the log the domain takes commits
//             again once it is reopened.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "storage/log/log_files.h"
#include "tests/power/faults.h"
#include "tests/power/judge.h"
#include "tests/power/worker.h"
#include "tests/power/world.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {
namespace {

using platform::DiskOp;

// Transactions where the fault need not strike: between one and ten log files.
constexpr std::uint64_t kEnough = 1500;

struct Fault {
  const char *name;
  int error;
  Errc expected;
};
const Fault kFaults[] = {{"Full", ENOSPC, Errc::kDiskFull},
                         {"Broken", EIO, Errc::kIo},
                         {"ReadOnly", EROFS, Errc::kReadOnly},
                         {"Forbidden", EACCES, Errc::kPermission}};

struct Operation {
  const char *name;
  DiskOp op;
};
const Operation kOperations[] = {
    {"Write", DiskOp::kWrite},   {"WriteDurable", DiskOp::kWriteDurable},
    {"Sync", DiskOp::kSync},     {"Create", DiskOp::kCreate},
    {"Rename", DiskOp::kRename}, {"Truncate", DiskOp::kTruncate},
    {"Unlink", DiskOp::kUnlink}, {"FolderSync", DiskOp::kFolderSync}};

class DiskFaultsTest : public testing::Test {
 protected:
  // Opens, examines what is there against the journal, works a little, closes: all in a child. The
  // fault is lifted.
  void expect_whole(const std::string &when) {
    plan_->lift();
    const WorkerPlan worker_plan = plan_for_worker();
    expect_child("reopen " + when, [&] {
      World world(folder_.path(), options_, true);
      Promises promises;
      for (const Entry &entry : journal_.read()) promises.apply(entry);
      Model model;
      std::vector<std::uint64_t> ids;
      EXPECT_EQ(examine(&world, promises, &model, &ids), "") << when;
      journal_.note(Note::kRecovered, ids.size(), ids.data(), ids.size() * sizeof ids[0]);
      Worker worker(&world, &journal_, worker_plan);
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(worker.update(true));
      world.close();
    });
  }
  [[nodiscard]] WorkerPlan plan_for_worker() {
    WorkerPlan plan;
    plan.worker = next_worker_++;
    plan.seed = seed() + plan.worker;
    plan.errors_abort = errors_abort_;
    return plan;
  }
  void in_child(const std::string &name, const std::function<void(World &, Worker &)> &body) {
    const WorkerPlan plan = plan_for_worker();
    Children children;
    children.spawn(name, [&] {
      fail_as_planned(&*plan_);
      World world(folder_.path(), options_, true);
      Worker worker(&world, &journal_, plan);
      body(world, worker);
    });
    await_while_it_works(&children);
    children.expect_success();
  }
  // A thousand strict commits take a minute where each durable write takes 40 ms, as on a disk that
  // other tests use, too. Hung is who has noted nothing for as long.
  void await_while_it_works(Children *children) const {
    for (std::uint64_t noted = journal_.count();; noted = journal_.count()) {
      (void)poll_until([&] { return !children->running(0) || journal_.count() != noted; });
      if (!children->running(0) || journal_.count() == noted) return;
    }
  }
  // Updates until one fails, at most until the ledger is full. The failed one's intent stays open:
  // it may be there after the next open, or not.
  static Errc work_until_error(World &world, Worker &worker, std::uint64_t most = kCommitsMax) {
    try {
      for (std::uint64_t i = 0; i < most; ++i) {
        if (!worker.update(true)) break;
        if (i % 50 == 49) world.domain().checkpoint();
      }
    } catch (const Error &error) {
      EXPECT_FALSE(std::string(error.what()).empty());
      return error.errc();
    }
    return Errc::kOk;
  }
  void set_up_domain() {
    in_child("set-up", [](World &world, Worker &worker) {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(worker.update(true));
      world.close();
    });
  }

  MemoryFolder folder_;
  DomainOptions options_ = power_options();
  Journal journal_{1u << 18, 1ull << 31};
  Shared<FaultPlan> plan_;
  std::uint32_t next_worker_ = 0;
  bool errors_abort_ = false;
};

struct Case {
  Operation operation;
  Fault fault;
};
std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const Operation &operation : kOperations) {
    for (const Fault &fault : kFaults) all.push_back({operation, fault});
  }
  return all;
}
void PrintTo(const Case &one, std::ostream *out) { *out << one.operation.name << one.fault.name; }
std::string case_name(const testing::TestParamInfo<Case> &info) {
  return std::string(info.param.operation.name) + info.param.fault.name;
}

class DiskFaultsEverywhereTest : public DiskFaultsTest, public testing::WithParamInterface<Case> {
 protected:
  [[nodiscard]] bool is_right(Errc code) const {
    // The latter: somebody else met it first.
    return code == GetParam().fault.expected || code == Errc::kLogFailed;
  }
  // Opens with the fault armed behind the first `skip` operations. False: it never struck.
  bool open_fails(std::uint32_t skip) {
    plan_->arm(GetParam().operation.op, GetParam().fault.error, "", skip);
    const WorkerPlan worker_plan = plan_for_worker();
    expect_child("open", [&] {
      fail_as_planned(&*plan_);
      try {
        World world(folder_.path(), options_);
        Worker worker(&world, &journal_, worker_plan);
        static_cast<void>(worker.update(true));
        world.close();
      } catch (const Error &error) {
        EXPECT_TRUE(is_right(error.errc()))
            << error.what() << " after " << skip << " operations that passed";
        EXPECT_GT(plan_->failed.load(), 0u) << error.what();
      }
    });
    const bool struck = plan_->failed.load() != 0;
    plan_->lift();
    return struck;
  }
};

TEST_P(DiskFaultsEverywhereTest, CreatingADomainFailsAndCanBeRepeated) {
  std::uint32_t skip = 0;
  while (skip < 40 && open_fails(skip) && !HasFailure()) {
    ++skip;
    if (skip % 4 == 0) expect_whole("after creating failed at operation " + std::to_string(skip));
  }
  RecordProperty("operations", static_cast<int>(skip));
  expect_whole("at the end");
}

TEST_P(DiskFaultsEverywhereTest, RecoveryFailsAndCanBeRepeated) {
  for (std::uint32_t skip = 0; skip < 12 && !HasFailure(); ++skip) {
    plan_->lift();
    in_child("leaves a log", [](World &, Worker &worker) {
      for (int i = 0; i < 12; ++i) EXPECT_TRUE(worker.update(i % 4 != 0));
      _exit(0);  // without closing
    });
    if (!open_fails(skip)) break;
    expect_whole("after recovery failed at operation " + std::to_string(skip));
  }
}

TEST_P(DiskFaultsEverywhereTest, CommitOrCheckpointFailsAndNothingAcknowledgedIsLost) {
  set_up_domain();
  in_child("victim", [&](World &world, Worker &worker) {
    EXPECT_EQ(work_until_error(world, worker, 20), Errc::kOk);
    plan_->arm(GetParam().operation.op, GetParam().fault.error);
    const Errc first = work_until_error(world, worker, kEnough);
    const bool struck = plan_->failed.load() != 0;
    std::printf("%u operations failed, the calls said: %s\n", plan_->failed.load(), message(first));
    std::fflush(stdout);
    EXPECT_EQ(first != Errc::kOk && !struck, false) << message(first) << " without a fault";
    if (first != Errc::kOk) {
      EXPECT_TRUE(is_right(first)) << message(first);
    }
    EXPECT_EQ(world.domain().depth(), 0u) << "the instance is over";
    plan_->lift();
    const Errc then = work_until_error(world, worker, 20);
    if (then != Errc::kOk) {
      EXPECT_EQ(then, Errc::kLogFailed);
    }
    if (GetParam().operation.op != DiskOp::kWriteDurable &&
        GetParam().operation.op != DiskOp::kSync) {
      EXPECT_EQ(then, Errc::kOk) << "the fault met no commit, and is gone";
    }
    std::error_code ec;
    static_cast<void>(world.domain().close(ec));
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });
  expect_whole("after the fault");
}

INSTANTIATE_TEST_SUITE_P(Faults, DiskFaultsEverywhereTest, testing::ValuesIn(all_cases()),
                         case_name);

// --- a full disk
// -------------------------------------------------------------------------------------------------

TEST_F(DiskFaultsTest, FullDiskAbortsTheCommitAndWorkGoesOnWithSpaceAgain) {
  options_.keep_log = true;  // no file is used again: each needs space
  errors_abort_ = true;
  set_up_domain();
  in_child("victim", [&](World &world, Worker &worker) {
    for (int round = 0; round < 3; ++round) {
      plan_->arm(DiskOp::kCreate, ENOSPC, "tmh.log");
      const Errc full = work_until_error(world, worker);
      EXPECT_EQ(full, Errc::kDiskFull);
      EXPECT_EQ(work_until_error(world, worker), Errc::kDiskFull)
          << "small ones may have had room, the others not";
      plan_->lift();
      EXPECT_EQ(work_until_error(world, worker, 60), Errc::kOk) << "there is space again";
    }
    world.close();
  });
  expect_whole("after a full disk");
}

// Most commits are level 1's, which looks for room before it locks a line.
TEST_F(DiskFaultsTest, FullDiskAbortsTheCommitOfEitherLevelAndWorkGoesOnWithSpaceAgain) {
  options_.levels = Levels::kHybrid;
  options_.keep_log = true;
  errors_abort_ = true;
  set_up_domain();
  in_child("victim", [&](World &world, Worker &worker) {
    for (int round = 0; round < 3; ++round) {
      plan_->arm(DiskOp::kCreate, ENOSPC, "tmh.log");
      EXPECT_EQ(work_until_error(world, worker), Errc::kDiskFull);
      plan_->lift();
      EXPECT_EQ(work_until_error(world, worker, 60), Errc::kOk) << "there is space again";
    }
    EXPECT_GT(world.line_site()->report().line_commits, 0U);
    world.close();
  });
  expect_whole("after a full disk");
}

// The kernel tells of pages that could not be written once; the next sync of the same file would
// succeed.
TEST_F(DiskFaultsTest, SyncOfTheControlFileThatFailedOnceStaysFailedUntilAllHaveClosed) {
  set_up_domain();
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = 8 * kPageBytes;
  in_child("victim", [&](World &world, Worker &worker) {
    std::error_code ec;
    // A process asks once, before its first commit, whether sizes are durable.
    EXPECT_TRUE(worker.update(true));
    plan_->arm(DiskOp::kSync, EIO, "tmh.control");
    EXPECT_FALSE(world.domain().map("second.raw", raw, ec));
    EXPECT_EQ(ec, make_error_code(Errc::kIo));
    plan_->lift();
    for (const char *name : {"second.raw", "third.raw"}) {
      EXPECT_FALSE(world.domain().map(name, raw, ec)) << name;
      EXPECT_EQ(ec, make_error_code(Errc::kIo))
          << "the disk is whole again, what it lost is not there";
    }
    EXPECT_TRUE(worker.update(true)) << "segments that were durable before go on";
    world.close();
  });
  in_child("after", [&](World &world, Worker &worker) {
    EXPECT_TRUE(world.domain().map("second.raw", raw));
    EXPECT_TRUE(worker.update(true));
    world.close();
  });
}

TEST_F(DiskFaultsTest, LogFileWhoseNameIsNotDurableIsNotUsed) {
  options_.keep_log = true;
  errors_abort_ = true;
  set_up_domain();
  in_child("victim", [&](World &world, Worker &worker) {
    plan_->arm(DiskOp::kFolderSync, EIO);
    // Each time: a file that a failed attempt left under its final name is no better than none.
    std::vector<std::uint64_t> made[3];
    for (std::vector<std::uint64_t> &files : made) {
      EXPECT_EQ(work_until_error(world, worker), Errc::kIo)
          << plan_->failed.load() << " folder syncs failed";
      EXPECT_EQ(storage::list_log_files(folder_.path(), &files), Errc::kOk);
    }
    EXPECT_EQ(made[1], made[0]) << "it was written to, and another one was made";
    EXPECT_EQ(made[2], made[0]);
    plan_->lift();
    EXPECT_EQ(work_until_error(world, worker, 60), Errc::kOk);
    world.close();
  });
  expect_whole("after folder syncs failed");
}

// --- log files that vanish
// -------------------------------------------------------------------------------------------------

class LogFileLossTest : public DiskFaultsTest {
 protected:
  // The log file that was written last.
  [[nodiscard]] std::string current_log_file() const {
    std::string newest;
    std::filesystem::file_time_type time{};
    for (const auto &found : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = found.path().filename().string();
      if (!name.starts_with("tmh.log.") || name == "tmh.log.state") continue;
      if (newest.empty() || found.last_write_time() >= time) {
        newest = found.path().string();
        time = found.last_write_time();
      }
    }
    return newest;
  }
  // What happens to commits, and to the next open, when `damage` is done to the log under a running
  // domain.
  void lose(const std::function<void(const std::string &)> &damage) {
    set_up_domain();
    in_child("victim", [&](World &world, Worker &worker) {
      EXPECT_EQ(work_until_error(world, worker, 20), Errc::kOk);
      const std::string file = current_log_file();
      ASSERT_FALSE(file.empty());
      damage(file);
      const Errc error = work_until_error(world, worker);
      EXPECT_TRUE(error == Errc::kLogMissing || error == Errc::kLogFailed) << message(error);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    });
    // What the file held is gone for good, unless it was home already: then all is there; else the
    // open says so.
    expect_child("reopen", [&] {
      std::error_code ec;
      tmh::Domain domain = tmh::Domain::open(folder_.path(), options_, ec);
      if (ec) {
        EXPECT_TRUE(ec == make_error_code(Errc::kLogMissing) ||
                    ec == make_error_code(Errc::kLogDamaged))
            << ec.message();
        return;
      }
      domain.close();
      expect_whole("after the loss");
    });
  }
};

TEST_F(LogFileLossTest, DeletedLogFileIsNoticedByTheNextCommit) {
  lose([](const std::string &file) { ASSERT_EQ(unlink(file.c_str()), 0); });
}

TEST_F(LogFileLossTest, TruncatedLogFileIsNoticedByTheNextCommit) {
  lose([](const std::string &file) { ASSERT_EQ(truncate(file.c_str(), 0), 0); });
}

// The domain was not closed. All of its log files, which mostly is one, go while nobody looks.
class WholeLogLossTest : public DiskFaultsTest {
 protected:
  void crash_after(const std::function<void(World &, Worker &)> &body) {
    set_up_domain();
    in_child("victim", [&](World &world, Worker &worker) {
      body(world, worker);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    });
    for (const auto &found : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = found.path().filename().string();
      if (name.starts_with("tmh.log.") && name != "tmh.log.state")
        std::filesystem::remove(found.path());
    }
  }
  void expect_missing() {
    expect_child("reopen", [&] {
      std::error_code ec;
      const tmh::Domain domain = tmh::Domain::open(folder_.path(), options_, ec);
      EXPECT_EQ(ec, make_error_code(Errc::kLogMissing)) << ec.message();
    });
  }
};

TEST_F(WholeLogLossTest, AfterCommitsIsNoticedByTheNextOpen) {
  crash_after([](World &, Worker &worker) {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(worker.update(true));
  });
  expect_missing();
}

TEST_F(WholeLogLossTest, AfterACheckpointAndMoreCommitsIsNoticedByTheNextOpen) {
  crash_after([](World &world, Worker &worker) {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(worker.update(true));
    world.domain().checkpoint();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(worker.update(true));
  });
  expect_missing();
}

TEST_F(WholeLogLossTest, OfHybridDomainsIsNoticedByTheNextOpen) {
  options_.levels = Levels::kHybrid;
  crash_after([](World &, Worker &worker) {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(worker.update(true));
  });
  expect_missing();
}

TEST_F(WholeLogLossTest, AfterACleanCloseLosesNothing) {
  set_up_domain();
  for (const auto &found : std::filesystem::directory_iterator(folder_.path()))
    if (found.path().filename().string().starts_with("tmh.log."))
      std::filesystem::remove(found.path());
  expect_whole("without its log files");
}

// --- permissions
// -------------------------------------------------------------------------------------------------

constexpr uid_t kNobody = 65534;

class DiskPermissionTest : public DiskFaultsTest {
 protected:
  // As an ordinary user: root may do everything.
  static void become_ordinary() {
    if (geteuid() != 0) return;
    ASSERT_EQ(setgid(kNobody), 0);
    ASSERT_EQ(setuid(kNobody), 0);
  }
  void give_folder_away() {
    if (geteuid() != 0) return;
    for (const auto &found : std::filesystem::directory_iterator(folder_.path()))
      ASSERT_EQ(chown(found.path().c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(chown(folder_.path().c_str(), kNobody, kNobody), 0);
  }
  void expect_open_refused(const std::set<Errc> &codes) {
    expect_child("open", [&] {
      become_ordinary();
      std::error_code ec;
      EXPECT_FALSE(tmh::Domain::open(folder_.path(), options_, ec));
      EXPECT_TRUE(codes.contains(static_cast<Errc>(ec.value()))) << ec.message();
    });
  }
};

TEST_F(DiskPermissionTest, FolderWithoutWritePermissionIsRefusedAndUsableAfterwards) {
  set_up_domain();
  give_folder_away();
  ASSERT_EQ(chmod(folder_.path().c_str(), 0500), 0);
  expect_open_refused({Errc::kPermission});
  ASSERT_EQ(chmod(folder_.path().c_str(), 0700), 0);
  expect_whole("with permission again");
}

TEST_F(DiskPermissionTest, LogFileOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give files to another user";
  set_up_domain();
  give_folder_away();
  for (const auto &found : std::filesystem::directory_iterator(folder_.path())) {
    if (!found.path().filename().string().starts_with("tmh.log.")) continue;
    ASSERT_EQ(chown(found.path().c_str(), 0, 0), 0);
    ASSERT_EQ(chmod(found.path().c_str(), 0600), 0);
  }
  expect_open_refused({Errc::kPermission, Errc::kWrongOwner});
  expect_whole("as the owner");
}

TEST_F(DiskPermissionTest, DomainOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  set_up_domain();
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder_ / "tmh.control").c_str(), 0600), 0);
  expect_open_refused({Errc::kWrongOwner, Errc::kPermission});
  expect_whole("as the owner");
}

}  // namespace
}  // namespace tmh::test::power
