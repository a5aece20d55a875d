// tests/line/line_waiters_test.cpp -- how many threads wait for durability at level 1, as their
// participant's record says.
// Invariants: (1) each waiting thread counts once, and no longer when it has returned, or failed.
//             (2) those of a dead process count with nobody who has its slot afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "platform/files.h"
#include "storage/participants.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kThreads = 3;

// What the log's next writes meet.
struct Gate {
  std::atomic<bool> is_closed;
  std::atomic<int> error;
};
Gate *gate = nullptr;
int wait_at_gate(const platform::DiskEvent &event) {
  if (event.op != platform::DiskOp::kWriteDurable) return 0;
  (void)poll_until([] { return !gate->is_closed; });
  return gate->error;
}

class LineWaitersTest : public testing::Test {
 protected:
  void TearDown() override { platform::set_disk_hook(nullptr); }
  [[nodiscard]] Domain open() const {
    DomainOptions options = durable_options();
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;
    options.flush_interval_ms = 3'600'000;
    return Domain::open(folder_ / "domain", options);
  }
  // By slot, whoever has it.
  [[nodiscard]] std::vector<std::uint32_t> waiters() const {
    constexpr std::uint64_t kSlots = 4, kBytes = kSlots * sizeof(storage::Participant);
    platform::GrowingFile file;
    EXPECT_EQ(file.open(folder_ / "domain/tmh.participants", kBytes, kBytes,
                        platform::GrowingFile::Blocks::kSparse),
              Errc::kOk);
    const auto *records = reinterpret_cast<const storage::Participant *>(file.base());
    std::vector<std::uint32_t> found;
    for (std::uint64_t i = 0; i < kSlots; ++i) found.push_back(records[i].line_waiters.load());
    return found;
  }
  // Commits at level 1 in so many threads while the log's writes wait; `meanwhile` runs when all of
  // them do. How many commits failed.
  std::uint64_t commit_behind_gate(const Domain &domain, std::uint32_t slot,
                                   const std::function<void()> &meanwhile) const {
    auto *words = reinterpret_cast<field<std::uint64_t> *>(domain.map("a.db", raw_pages(8)).data());
    const Site site(domain, "waits", "never");
    atomically(site, [&](Fields) { ++words[0]; });
    EXPECT_EQ(waiters().at(slot), 0U);
    gate = &*gate_;
    gate->is_closed = true;
    platform::set_disk_hook(wait_at_gate);
    std::atomic<std::uint64_t> failed{0};
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        try {
          atomically(site, [&](Fields) { ++words[t * kPageBytes / sizeof words[0]]; });
        } catch (const Error &) {
          ++failed;
        }
      });
    }
    EXPECT_TRUE(poll_until([&] { return waiters().at(slot) == kThreads; }));
    meanwhile();
    gate->is_closed = false;
    threads.clear();
    platform::set_disk_hook(nullptr);
    EXPECT_EQ(waiters().at(slot), 0U);
    return failed;
  }

  TempFolder folder_;
  Shared<Gate> gate_;
};

TEST_F(LineWaitersTest, EachThreadCountsUntilItsCommitIsDurable) {
  expect_child("commits", [&] { EXPECT_EQ(commit_behind_gate(open(), 0, [] {}), 0U); });
}

TEST_F(LineWaitersTest, EachThreadCountsUntilTheLogHasFailed) {
  expect_child("fails", [&] {
    EXPECT_EQ(commit_behind_gate(open(), 0, [&] { gate_->error = EIO; }), kThreads);
  });
}

TEST_F(LineWaitersTest, OfTheDeadNobodyInheritsThem) {
  // All are children of a process without threads: TSan supports no others that start some.
  const Shared<Turn> turn;
  enum : std::uint32_t { kOpened = 1, kDead, kReaped, kSeen };
  Children children;
  children.spawn("survivor", role(*turn, [&] {
                   const Domain domain = open();
                   turn->reach(kOpened);
                   turn->await(kDead);
                   gate_->is_closed = false;
                   (void)domain.collect();  // reaps
                   turn->reach(kReaped);
                   turn->await(kSeen);
                 }));
  turn->await(kOpened);
  const ChildEnd end =
      run_in_child("victim", [&] { (void)commit_behind_gate(open(), 1, [] { raise(SIGKILL); }); });
  EXPECT_EQ(end.signal, SIGKILL);
  turn->reach(kDead);
  turn->await(kReaped);
  expect_child("next", [&] {
    const Domain next = open();
    EXPECT_EQ(next.participants().size(), 2U);
    EXPECT_EQ(waiters().at(1), 0U);
  });
  turn->reach(kSeen);
  children.expect_success();
}

}  // namespace
}  // namespace tmh::test
