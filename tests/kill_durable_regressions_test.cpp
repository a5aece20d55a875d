// tests/kill_durable_regressions_test.cpp -- defects that a review found in durable domains: deaths, power cuts and slow readers.
// Invariants: (1) a checkpoint starts behind a commit only when all of its lines are home, also those that were folded into a later
//                 version,
//             (2) a log writer that dies between counting its point and telling of it keeps nobody waiting,
//             (3) whatever part of the control file a power cut leaves old, the domain opens; a segment and a size that others see are
//                 on disk,
//             (4) a backup taken while segments are made and grown opens; it may lie on another device,
//             (5) data that could not be synced keeps the log that holds it,
//             (6) who waits for another's checkpoint lock still makes commits durable,
//             (7) a strict end that waits while another thread closes returns, no crash.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "levels/storage/control.h"
#include "levels/storage/log_format.h"
#include "platform/disk.h"
#include "platform/steps.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using platform::DiskEvent;
using platform::DiskOp;

DomainOptions durable(Durability durability = Durability::kStrict) {
  DomainOptions options;
  options.durability = durability;
  options.log_file_bytes = storage::kLogFileBytesMin;
  return options;
}

SegmentOptions raw(std::uint64_t pages) {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = pages * kPageBytes;
  options.max_bytes = 64 * pages * kPageBytes;
  return options;
}

std::uint64_t &word(const Segment &segment, std::uint64_t page, std::uint64_t line = 0) {
  return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes + line * kLineBytes);
}

// As a power cut does, when everything that was written had reached the disk.
void lose_shared_memory(const std::string &folder) {
  std::vector<std::filesystem::path> lost;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name == "tmh.state" || name == "tmh.log.state" || name.starts_with("tmh.versions") || name == "tmh.commits" ||
        name == "tmh.participants" || name == "tmh.accesses" || name.starts_with("tmh.pages."))
      lost.push_back(entry.path());
  }
  for (const auto &path : lost) std::filesystem::remove(path);
}

class DurableRegressionsTest : public testing::Test {
 protected:
  void TearDown() override { platform::set_disk_hook(nullptr); }
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  TempFolder folder_;
};

// Every commit stores to one line of all pages, so each version is folded into the next, and only the last ones name a commit behind the
// points that were passed.
TEST_F(DurableRegressionsTest, ACheckpointUnderAReaderWaitsForWhatWasFolded) {
  constexpr std::uint64_t kPages = 64, kRounds = 60;
  const Shared<Turn> turn;
  Children children;
  const std::size_t reader = children.spawn("reader", [&] {
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(kPages));
    domain.begin_query();
    EXPECT_EQ(word(segment, 0), 0u);
    turn->reach(1);
    turn->await(2);
    raise(SIGKILL);
  });
  const std::size_t writer = children.spawn("writer", [&] {
    const Domain domain = Domain::open(this->domain(), durable());
    const Segment segment = domain.map("a.db", raw(kPages));
    turn->await(1);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < kPages; ++page)
          for (std::uint64_t at = 0; at < 8; ++at) (&word(segment, page, round))[at] = round;
      });
      if (round % 20 == 0) domain.checkpoint();
    }
    raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(writer).signal, SIGKILL);
  turn->reach(2);
  EXPECT_EQ(children.wait(reader).signal, SIGKILL);
  lose_shared_memory(domain());
  const Domain domain = Domain::open(this->domain());
  const Segment segment = domain.map("a.db", raw(kPages));
  query(domain, [&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) ASSERT_EQ(word(segment, 7, round), round);
  });
}

}  // namespace
}  // namespace tmh::test
