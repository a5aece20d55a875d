// tests/tp/tp_full_disk_test.cpp -- the disk is full at every operation of transactions, or fills
// while one grows.
// Invariants: (1) never a signal: a call ends with an error that has a sentence. (2) what has been
//             told is there, the rest is undone. (3) with room again, transactions that have not
//             ended are rolled back, and others go on, in the same process, unless the log has
//             failed, and in the next.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tp.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "tests/power/faults.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/small_device.h"
#include "tests/support/temp_folder.h"
#include "tests/tp/bank.h"

namespace tmh::test {
namespace {

using platform::DiskOp;

constexpr std::size_t kLeft = 0, kRight = 1, kAccounts = 2;
constexpr int kLogFailed = static_cast<int>(Errc::kLogFailed);

// Small log files: new ones are wanted often.
void make_domain(const std::string &folder) {
  DomainOptions options;
  options.durability = Durability::kStrict;
  options.levels = Levels::kHybrid;
  options.log_file_bytes = 1u << 20;
  Domain::open(folder, options).close();
}

// Of the last call, which has failed.
int told(int error) {
  EXPECT_NE(error, TP_OK);
  EXPECT_STRNE(tp_last_error(), "");
  return error;
}

// A step with a record of a page's before-image, all of which it changes.
int log_page(const Bank &bank, tp_txn *txn, unsigned how) {
  return bank.step(txn, how, [&](tp_step_t *running) {
    std::uint64_t *const page = bank.word(kRight);
    std::array<std::uint64_t, 511> words;
    words.fill(~load(running, page + 1));
    words[0] = load(running, page + 1) + 1;
    const int error = tp_log_bytes(running, page, 4096, nullptr);
    if (error == TP_OK) tp_store(running, page + 1, words.data(), sizeof words);
    return error;
  });
}

// Until an error, or for so many transactions. committed: how many were told so. *txn: the one that
// has not ended.
int work(const Bank &bank, int count, bool syncs, std::atomic<std::uint64_t> &committed,
         tp_txn **txn) {
  for (int i = 0; i < count; ++i) {
    if (const int error = tp_begin(bank.env(), txn); error != TP_OK) return error;
    const unsigned how = i % 2 == 0 ? TP_FIELDS : TP_PAGES;
    if (const int error = bank.add(*txn, kLeft, 1, how, i % 3 == 0); error != TP_OK) return error;
    if (const int error = bank.add_pinned(*txn, kRight, 1, i % 3 == 1); error != TP_OK)
      return error;
    // The file of the chains grows, too.
    for (int pages = !syncs && i % 100 == 20 ? 600 : 1; pages > 0; --pages)
      if (const int error = log_page(bank, *txn, how); error != TP_OK) return error;
    const bool aborts = i % 5 == 4;
    if (const int error = aborts ? tp_abort(*txn) : tp_commit(*txn); error != TP_OK) return error;
    if (!aborts) committed.fetch_add(1);
    *txn = nullptr;
    if (!syncs || i % 8 != 7) continue;
    if (const int error = tp_buf_sync(bank.env(), bank.fid()); error != TP_OK) return error;
  }
  return TP_OK;
}

void expect_whole(const Bank &bank, std::uint64_t committed, std::uint64_t perhaps) {
  const std::vector<std::uint64_t> all = bank.read_all();
  EXPECT_EQ(all[kLeft], all[kRight]);
  EXPECT_GE(all[kLeft], committed);
  EXPECT_LE(all[kLeft], committed + perhaps);
}

class TpFullDiskTest : public testing::TestWithParam<DiskOp> {
 protected:
  // Without checkpoints log files cannot be used again, and new ones are made.
  static bool syncs() {
    return GetParam() == DiskOp::kWrite || GetParam() == DiskOp::kWriteDurable;
  }
  // The disk is full from its n-th operation of the kind on. False: it has not so many.
  bool fill_at(std::uint32_t n) {
    const MemoryFolder folder;
    const std::string domain = folder / "domain";
    const Shared<power::FaultPlan> plan;
    const Shared<std::atomic<std::uint64_t>> committed;
    expect_child("creator", [&] {
      make_domain(domain);
      const Bank bank(domain, kAccounts);
    });
    expect_child("victim", [&] {
      power::fail_as_planned(&*plan);
      const Bank bank(domain, kAccounts);
      plan->arm(GetParam(), ENOSPC, "", n);
      tp_txn *txn = nullptr;
      const int error = work(bank, 300, syncs(), *committed, &txn);
      const bool has_struck = plan->failed != 0;
      plan->lift();
      if (error == TP_OK) return;
      told(error);
      EXPECT_TRUE(has_struck) << tp_last_error();
      if (error == kLogFailed) _exit(0);  // the next one goes on
      if (txn != nullptr && tp_txn_state(txn) == TP_COMMITTING) {
        EXPECT_EQ(tp_abort(txn), TP_EARGUMENT);
        const int again = tp_commit(txn);
        if (again == kLogFailed) _exit(0);
        EXPECT_EQ(again, TP_OK) << tp_last_error();
        committed->fetch_add(1);
      } else if (txn != nullptr) {
        EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
      }
      expect_whole(bank, *committed, 0);
      EXPECT_EQ(work(bank, 3, true, *committed, &txn), TP_OK) << tp_last_error();
    });
    expect_child("next", [&] {
      const Bank bank(domain, kAccounts);
      bank.expect_free(kAccounts);
      expect_whole(bank, *committed, 1);
    });
    return plan->failed != 0;
  }
};

TEST_P(TpFullDiskTest, AtEachOperation) {
  std::uint32_t n = 0;
  while (!HasFailure() && fill_at(n)) n += n < 20 ? 1 : 1 + n / 4;
  EXPECT_GT(n, 0u) << "it has no such operation";
}

std::string name_of(const testing::TestParamInfo<DiskOp> &info) {
  switch (info.param) {
    case DiskOp::kWrite:
      return "Write";
    case DiskOp::kWriteDurable:
      return "WriteDurable";
    case DiskOp::kTruncate:
      return "Truncate";
    default:
      return "Create";
  }
}
INSTANTIATE_TEST_SUITE_P(Operations, TpFullDiskTest,
                         testing::Values(DiskOp::kWrite, DiskOp::kWriteDurable, DiskOp::kTruncate,
                                         DiskOp::kCreate),
                         name_of);

// What runs then is given up, and the same process opens the domain anew.
TEST(TpFailedLogTest, IsLeftAndOpenedAnew) {
  const MemoryFolder folder;
  const std::string domain = folder / "domain";
  const Shared<power::FaultPlan> plan;
  expect_child("victim", [&] {
    power::fail_as_planned(&*plan);
    {
      Bank bank(domain, kAccounts);
      tp_txn *running[3] = {};
      for (tp_txn *&txn : running) {
        EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK) << tp_last_error();
        const tp_object object{1, static_cast<std::uint64_t>(&txn - running)};
        EXPECT_EQ(tp_lock(txn, object, TP_EXCLUSIVE, TP_TRY), TP_OK);
      }
      EXPECT_EQ(bank.add(running[0], kLeft, 1, TP_FIELDS, false), TP_OK);
      EXPECT_EQ(bank.add(running[1], kRight, 1, TP_FIELDS, true), TP_OK);
      plan->arm(DiskOp::kWriteDurable, EIO, "tmh.log.");
      told(tp_commit(running[0]));
      EXPECT_EQ(told(tp_commit(running[0])), kLogFailed);
      for (tp_txn *const txn : running)
        EXPECT_EQ(tp_detach(txn, nullptr), TP_OK) << tp_last_error();
      EXPECT_EQ(told(bank.close()), kLogFailed);
      plan->lift();
    }
    const Bank bank(domain, kAccounts);
    bank.expect_free(kAccounts + 1);
    const std::vector<std::uint64_t> all = bank.read_all();
    EXPECT_LE(all[kLeft], 1u);
    EXPECT_EQ(all[kRight], 0u);
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK) << tp_last_error();
    EXPECT_EQ(tp_commit(txn), TP_OK) << tp_last_error();
  });
}

class TpSmallDeviceTest : public testing::TestWithParam<std::pair<Device, unsigned>> {};

// Its undo records need more room than there is.
TEST_P(TpSmallDeviceTest, ATransactionThatGrowsIsRolledBack) {
  const MemoryFolder folder;
  const auto [device, how] = GetParam();
  const std::string place = folder / "device", image = folder / "image";
  ASSERT_EQ(mkdir(place.c_str(), 0777), 0);
  const ChildEnd end = run_in_child("victim", [&, device = device, how = how] {
    if (!mount_device(device, 48, image, place)) _exit(kMayNotMount);
    const std::string domain = place + "/domain", ballast = place + "/ballast";
    make_domain(domain);
    const int fd = open(ballast.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    EXPECT_EQ(posix_fallocate(fd, 0, 24 << 20), 0);
    close(fd);
    {
      const Bank bank(domain, kAccounts);
      tp_txn *txn = nullptr;
      EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK);
      EXPECT_EQ(tp_lock(txn, {1, kLeft}, TP_EXCLUSIVE, TP_TRY), TP_OK);
      int error = TP_OK;
      for (int i = 0; i < 100'000 && error == TP_OK; ++i) error = log_page(bank, txn, how);
      EXPECT_EQ(told(error), static_cast<int>(Errc::kDiskFull)) << tp_last_error();
      EXPECT_EQ(unlink(ballast.c_str()), 0);
      EXPECT_EQ(tp_abort(txn), TP_OK) << tp_last_error();
      expect_whole(bank, 0, 0);
      EXPECT_EQ(tp_begin(bank.env(), &txn), TP_OK);
      EXPECT_EQ(bank.add(txn, kLeft, 3, TP_FIELDS, true), TP_OK) << tp_last_error();
      EXPECT_EQ(tp_commit(txn), TP_OK) << tp_last_error();
    }
    const Bank bank(domain, kAccounts);
    EXPECT_EQ(bank.read_all()[kLeft], 3u);
  });
  if (end.exit_code == kMayNotMount) GTEST_SKIP() << "needs the right to mount, and mkfs.ext4";
  EXPECT_TRUE(end.succeeded()) << "exit code " << end.exit_code << ", signal " << end.signal;
}

INSTANTIATE_TEST_SUITE_P(Devices, TpSmallDeviceTest,
                         testing::Values(std::pair(Device::kTmpfs, unsigned{TP_FIELDS}),
                                         std::pair(Device::kTmpfs, unsigned{TP_PAGES}),
                                         std::pair(Device::kExt4, unsigned{TP_FIELDS})),
                         [](const auto &info) {
                           return std::string(info.param.first == Device::kTmpfs ? "Tmpfs"
                                                                                 : "Ext4") +
                                  (info.param.second == TP_FIELDS ? "Fields" : "Pages");
                         });

}  // namespace
}  // namespace tmh::test
