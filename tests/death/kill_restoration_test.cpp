// tests/death/kill_restoration_test.cpp -- the restoration of a moment dies at each of its
// operations on files, and is gone on with in all ways.
// Invariants: (1) the same moment and, until it is done, a later one can be restored then, exactly.
//             (2) an earlier moment, and the end of the log that the copy has itself, are refused
//             or exact; after a refusal (1) still holds. All of it across the end of a generation,
//             with shared memory and without.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/durable_folder.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kEach = 20;  // transactions of a generation
constexpr int kAll = static_cast<int>(2 * kEach), kDied = 99;
std::atomic<int> g_operations_left;

int die_at_operation(const platform::DiskEvent & /*event*/) {
  if (g_operations_left-- == 0) _exit(kDied);
  return 0;
}

// What transaction number n of all leaves in its page.
std::uint64_t page_of(std::uint64_t n) { return 1 + (n - 1) % kEach; }

class KillRestorationTest : public testing::Test {
 protected:
  // A backup, and two generations behind it; the domain's folder is the archive.
  void SetUp() override {
    for (std::uint64_t first = 1; first <= kEach + 1; first += kEach) {
      in_domain(live_, durable_options(), Ending::kKilled,
                [&](const Domain &domain, const Segment &segment) {
                  if (first == 1) domain.backup(base_);
                  for (std::uint64_t n = first; n < first + kEach; ++n)
                    atomically(domain, [&] { word_of(segment, page_of(n)) = n; });
                });
      copy_base();
      RecoverOptions all;
      all.log_folder = live_;
      (first == 1 ? first_end_ : second_end_) = recover(copy_, all).end_lsn;
    }
  }
  void copy_base() const {
    std::filesystem::remove_all(copy_);
    std::filesystem::copy(base_, copy_, std::filesystem::copy_options::recursive);
  }
  [[nodiscard]] RecoverOptions until(std::uint64_t lsn) const {
    RecoverOptions options;
    options.log_folder = live_;
    options.threads = 1;
    options.until_lsn = lsn;
    return options;
  }
  // False: it came to its end.
  [[nodiscard]] bool dies(int operation) const {
    const ChildEnd end = run_in_child("restoration", [&] {
      g_operations_left = operation;
      platform::set_disk_hook(die_at_operation);
      (void)recover(copy_, until(second_end_ - 8));
      platform::set_disk_hook(nullptr);
    });
    EXPECT_TRUE(end.succeeded() || end.exit_code == kDied);
    return end.exit_code == kDied;
  }
  // How many transactions the copy holds; -1: some of one and not of another before it.
  [[nodiscard]] int transactions() const {
    const Domain domain = Domain::open(copy_);
    const Segment segment = domain.map("a.db", raw_pages(64));
    return query(domain, [&] {
      std::uint64_t count = 0;
      for (std::uint64_t page = 1; page <= kEach; ++page)
        count = std::max(count, word_of(segment, page));
      for (std::uint64_t n = 1; n <= kEach; ++n) {
        const std::uint64_t newest = count >= n + kEach ? n + kEach : count >= n ? n : 0;
        if (word_of(segment, page_of(n)) != newest) return -1;
      }
      return static_cast<int>(count);
    });
  }
  [[nodiscard]] Errc recovers(const RecoverOptions &options) const {
    return code_of([&] { (void)recover(copy_, options); });
  }

  const MemoryFolder folder_;
  const std::string live_ = folder_ / "live", base_ = folder_ / "base", copy_ = folder_ / "copy";
  std::uint64_t first_end_ = 0, second_end_ = 0;
};

TEST_F(KillRestorationTest, IsRunToItsEnd) {
  bool is_cut = true;
  for (int operation = 0; is_cut; ++operation) {
    SCOPED_TRACE("operation " + std::to_string(operation));
    copy_base();
    is_cut = dies(operation);
    if (operation % 2 == 0) lose_shared_memory(copy_);
    ASSERT_EQ(recovers(until(second_end_ - 8)), Errc::kOk);
    EXPECT_EQ(transactions(), kAll - 1);
  }
}

// Until it is done: then the last transaction is gone for good.
TEST_F(KillRestorationTest, MayGoFurther) {
  int longest = kAll;
  for (int operation = 0;; ++operation) {
    SCOPED_TRACE("operation " + std::to_string(operation));
    copy_base();
    if (!dies(operation)) break;
    if (operation % 2 == 0) lose_shared_memory(copy_);
    ASSERT_EQ(recovers(until(second_end_)), Errc::kOk);
    const int found = transactions();
    EXPECT_TRUE(found == longest || found == kAll - 1) << found;
    longest = found;
  }
  EXPECT_EQ(longest, kAll - 1);
}

// Neither an earlier moment nor, without the archive, what the copy's own log has; its last file
// comes from the archive in the end.
TEST_F(KillRestorationTest, HasNoEarlierEnd) {
  for (const bool has_archive : {false, true}) {
    int refused = 0;
    for (int operation = 0;; ++operation) {
      SCOPED_TRACE("operation " + std::to_string(operation));
      copy_base();
      if (!dies(operation)) break;
      if (operation % 2 == 0) lose_shared_memory(copy_);
      const Errc other = recovers(has_archive ? until(first_end_) : RecoverOptions{});
      if (other == Errc::kOk) {
        const int found = transactions();
        const int before = has_archive ? static_cast<int>(kEach) : 0;
        EXPECT_TRUE(refused == 0 ? found == before
                                 : found == kAll - 1 || (!has_archive && found == kAll))
            << found;
        continue;
      }
      ++refused;
      EXPECT_TRUE(other == (has_archive ? Errc::kBadArgument : Errc::kLogDamaged) ||
                  other == Errc::kLogMissing);
      ASSERT_EQ(recovers(until(second_end_ - 8)), Errc::kOk);
      EXPECT_EQ(transactions(), kAll - 1);
    }
    EXPECT_GT(refused, 0);
  }
}

}  // namespace
}  // namespace tmh::test
