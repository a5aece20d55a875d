// tests/libxac/libxac_durable_test.cpp -- the C interface of durable domains: xFlush, xendAs,
// xCheckpoint, xArchive, xRecover, xBackup.
// Invariants: as libxac_test.cpp; and what xend or xFlush acknowledged survives the loss of
//             everything that is not on disk.
#include <gtest/gtest.h>
#include <xac.h>

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include <tmh/error.hpp>

#include "platform/disk.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

constexpr int code(Errc errc) { return -static_cast<int>(errc); }

class LibxacDurable : public ::testing::Test {
 protected:
  void TearDown() override { (void)xShutdown(); }
  std::string domain() const { return folder_ / "domain"; }
  void init(int flags = DURABLE) {
    ASSERT_EQ(xInit(domain().c_str(), flags), 0) << xStrError(xLastError());
  }
  static long *map() {
    void *address = xMmap("input.db", 16 * PAGESIZE);
    EXPECT_NE(address, MAP_FAILED) << xStrError(xLastError());
    return static_cast<long *>(address);
  }
  static void store(long *x, long value) {
    do {
      ASSERT_EQ(xbegin(), 0);
      x[0] = value;
    } while (xend() == ABORTED);
  }
  static long load(const long *x) {
    EXPECT_EQ(xbeginQuery(), 0);
    const long value = x[0];
    EXPECT_EQ(xendQuery(), 0);
    return value;
  }
  // body runs in a child that opens the domain with `flags` and dies; then the power fails.
  void cut_power_after(int flags, const std::function<void(long *)> &body) {
    const ChildEnd end = run_in_child("program", [&] {
      init(flags);
      body(map());
      die_unless_failed();
    });
    ASSERT_EQ(end.signal, SIGKILL);
    lose_shared_memory(domain());
  }

  TempFolder folder_;
};

// "For both nondurable and durable transactions, xShutdown automatically executes a xCheckpoint
// operation" (thesis, section 2.1).
TEST_F(LibxacDurable, AShutdownWritesTheFilesThoughOthersStay) {
  for (const char *levels : {"page", "hybrid"}) {
    const Shared<Turn> turn;
    Children children;
    children.spawn("stays", [&] {
      setenv("TMH_LEVELS", levels, 1);
      init();
      (void)map();
      turn->reach(1);
      turn->await(2);
      EXPECT_EQ(xShutdown(), 0) << xStrError(xLastError());
    });
    children.spawn("shuts down", [&] {
      setenv("TMH_LEVELS", levels, 1);
      turn->await(1);
      init();
      static std::atomic<bool> is_synced{false};
      platform::set_disk_hook([](const platform::DiskEvent &event) {
        if (event.op == platform::DiskOp::kSync &&
            std::string_view(event.path).ends_with("/input.db"))
          is_synced = true;
        return 0;
      });
      store(map(), 77);
      EXPECT_EQ(xShutdown(), 0) << xStrError(xLastError());
      platform::set_disk_hook(nullptr);
      EXPECT_TRUE(is_synced) << levels;
      EXPECT_EQ(read_file(domain() + "/input.db").at(0), '\x4d') << levels;
      turn->reach(2);
    });
    children.expect_success();
    fs::remove_all(domain());
  }
}

TEST_F(LibxacDurable, EveryCallBeforeInitIsRefused) {
  EXPECT_EQ(xFlush(), code(Errc::kNotInitialized));
  EXPECT_EQ(xendAs(XAC_DURABLE), code(Errc::kNotInitialized));
  EXPECT_EQ(xCheckpoint(), code(Errc::kNotInitialized));
  EXPECT_EQ(xArchive("to"), code(Errc::kNotInitialized));
  EXPECT_EQ(xBackup("to"), code(Errc::kNotInitialized));
  EXPECT_EQ(xLastError(), code(Errc::kNotInitialized));
}

TEST_F(LibxacDurable, AVolatileDomainRefusesThem) {
  init(NONDURABLE);
  EXPECT_EQ(xFlush(), code(Errc::kNotDurable));
  EXPECT_EQ(xCheckpoint(), code(Errc::kNotDurable));
  EXPECT_EQ(xArchive((folder_ / "to").c_str()), code(Errc::kNotDurable));
  EXPECT_EQ(xBackup((folder_ / "to").c_str()), code(Errc::kNotDurable));
  EXPECT_EQ(xLastError(), code(Errc::kNotDurable));
  EXPECT_FALSE(fs::exists(folder_ / "to"));
  ASSERT_EQ(xShutdown(), 0);
  EXPECT_EQ(xRecover(domain().c_str()), code(Errc::kNotDurable));
}

TEST_F(LibxacDurable, ADomainKeepsItsDurability) {
  init(DURABLE);
  ASSERT_EQ(xShutdown(), 0);
  EXPECT_EQ(xInit(domain().c_str(), XAC_DURABLE_BUFFERED), code(Errc::kDurabilityMismatch));
  EXPECT_EQ(xInit(domain().c_str(), NONDURABLE), code(Errc::kDurabilityMismatch));
  init(DURABLE);
  EXPECT_EQ(xend(), code(Errc::kEndWithoutBegin));
}

TEST_F(LibxacDurable, WhatXendAcknowledgedSurvivesAPowerCut) {
  cut_power_after(DURABLE, [](long *x) {
    for (long i = 1; i <= 50; ++i) store(x, i);
  });
  init();
  EXPECT_EQ(load(map()), 50);
}

TEST_F(LibxacDurable, BufferedCommitsAreDurableAfterFlush) {
  cut_power_after(XAC_DURABLE_BUFFERED, [](long *x) {
    for (long i = 1; i <= 50; ++i) store(x, i);
    ASSERT_EQ(xFlush(), 0) << xStrError(xLastError());
  });
  init(XAC_DURABLE_BUFFERED);
  EXPECT_EQ(load(map()), 50);
}

TEST_F(LibxacDurable, EndAsMakesOneCommitDurable) {
  cut_power_after(XAC_DURABLE_BUFFERED, [](long *x) {
    for (long i = 1; i <= 50; ++i) store(x, i);
    ASSERT_EQ(xbegin(), 0);
    x[0] = 51;
    ASSERT_EQ(xendAs(XAC_DURABLE), COMMITTED);
  });
  init(XAC_DURABLE_BUFFERED);
  EXPECT_EQ(load(map()), 51);
}

TEST_F(LibxacDurable, EndAsRefusesWhatIsNoDurabilityAndTheTransactionGoesOn) {
  init();
  long *x = map();
  EXPECT_EQ(xendAs(XAC_DURABLE), code(Errc::kEndWithoutBegin));
  ASSERT_EQ(xbegin(), 0);
  x[0] = 3;
  for (const int wrong : {-1, 3, 99}) EXPECT_EQ(xendAs(wrong), code(Errc::kBadArgument));
  EXPECT_EQ(xValidate(), PENDING);
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xendAs(XAC_DURABLE), PENDING) << "a nested end says nothing about durability";
  EXPECT_EQ(xendAs(XAC_DURABLE_BUFFERED), COMMITTED);
  EXPECT_EQ(load(x), 3);
}

TEST_F(LibxacDurable, CheckpointLeavesNothingToReplay) {
  cut_power_after(DURABLE, [](long *x) {
    for (long i = 1; i <= 50; ++i) store(x, i);
    ASSERT_EQ(xCheckpoint(), 0) << xStrError(xLastError());
    ASSERT_EQ(xCheckpoint(), 0) << "with nothing new";
  });
  EXPECT_EQ(recover(domain()).transactions, 0u);
  init();
  EXPECT_EQ(load(map()), 50);
}

TEST_F(LibxacDurable, ArchiveMovesLogFilesAndCountsThem) {
  init();
  long *x = map();
  EXPECT_EQ(xArchive(nullptr), code(Errc::kBadArgument));
  EXPECT_EQ(xArchive(""), code(Errc::kBadArgument));
  EXPECT_LT(xArchive((folder_ / "missing/to").c_str()), 0);
  // Two checkpoints behind the first log file: then nobody needs it.
  int moved = 0;
  for (long round = 1; moved == 0 && round <= 400; ++round) {
    ASSERT_EQ(xbegin(), 0);
    for (long i = 0; i < 16 * PAGESIZE / 8; ++i) x[i] = round + i;
    ASSERT_EQ(xend(), COMMITTED);
    if (round % 100 == 0) moved = xArchive((folder_ / "to").c_str());
  }
  ASSERT_GT(moved, 0) << xStrError(xLastError());
  int found = 0;
  for (const auto &entry : fs::directory_iterator(folder_ / "to"))
    found += entry.path().filename().string().starts_with("tmh.log.") ? 1 : 0;
  EXPECT_EQ(found, moved);
}

TEST_F(LibxacDurable, ABackupIsADomainOfItsOwn) {
  init();
  long *x = map();
  store(x, 7);
  EXPECT_EQ(xBackup(nullptr), code(Errc::kBadArgument));
  EXPECT_EQ(xBackup(""), code(Errc::kBadArgument));
  EXPECT_EQ(xBackup(folder_.path().c_str()), code(Errc::kBadArgument)) << "the folder must be new";
  ASSERT_EQ(xBackup((folder_ / "copy").c_str()), 0) << xStrError(xLastError());
  store(x, 8);
  ASSERT_EQ(xShutdown(), 0);
  ASSERT_EQ(xRecover((folder_ / "copy").c_str()), 0) << xStrError(xLastError());
  ASSERT_EQ(xInit((folder_ / "copy").c_str(), DURABLE), 0);
  EXPECT_EQ(load(map()), 7);
}

TEST_F(LibxacDurable, RecoverWantsAClosedDurableDomain) {
  EXPECT_EQ(xRecover(nullptr), code(Errc::kBadArgument));
  EXPECT_EQ(xRecover(""), code(Errc::kBadArgument));
  EXPECT_EQ(xRecover((folder_ / "nowhere").c_str()), code(Errc::kNotADomain));
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
  cut_power_after(DURABLE, [](long *x) { store(x, 9); });
  EXPECT_EQ(xRecover(domain().c_str()), 0) << xStrError(xLastError());
  EXPECT_EQ(xRecover(domain().c_str()), 0) << "again";
  init();
  EXPECT_EQ(xRecover(domain().c_str()), code(Errc::kDomainInUse));
  EXPECT_EQ(load(map()), 9);
}

TEST_F(LibxacDurable, RollbackLeavesNoTrace) {
  cut_power_after(DURABLE, [](long *x) {
    store(x, 1);
    ASSERT_EQ(xbegin(), 0);
    x[0] = 99;
  });
  init();
  EXPECT_EQ(load(map()), 1);
}

TEST(LibxacDurableErrors, EveryCodeHasItsSentence) {
  std::set<std::string> sentences;
  for (int errc = static_cast<int>(Errc::kOutOfMemory);
       errc <= static_cast<int>(Errc::kDomainInUse); ++errc)
    EXPECT_TRUE(sentences.insert(xStrError(-errc)).second) << -errc << ": " << xStrError(-errc);
}

}  // namespace
}  // namespace tmh::test
