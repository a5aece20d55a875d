// tests/storage/log_sink_test.cpp -- the writer of the log and where it puts its bytes.
// Invariants: (1) what a sink is given, in order and by LSN, is the log: whole blocks within one
//             file, each behind or at the last one. (2) what it refuses is the commit's error; own
//             trouble is of this process alone.
#include "storage/log/log_sink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "platform/failure.h"
#include "storage/log/log_file_sink.h"
#include "storage/log/log_format.h"
#include "storage/log/log_sink_maker.h"
#include "tests/support/code_of.h"
#include "tests/support/durable_folder.h"
#include "tests/support/log_follower.h"
#include "tests/support/temp_folder.h"
#include "tests/support/watched_log.h"

namespace tmh::test {
namespace {

using storage::LogFileSink;
using storage::LogIdentity;
using storage::Lsn;

struct Write {
  Lsn lsn = 0;
  std::string bytes;
};
std::vector<Write> g_writes;
Errc g_refused = Errc::kOk;
bool g_is_own_trouble = false;

// Files, and a copy of what they get.
class CopyingSink final : public storage::LogSink {
 public:
  CopyingSink(const std::string &folder, const LogIdentity &log) : files_(folder, log) {}
  [[nodiscard]] Errc find_place(Lsn lsn) noexcept override { return files_.find_place(lsn); }
  [[nodiscard]] Errc write_durable(Lsn lsn, const std::byte *from,
                                   std::size_t bytes) noexcept override {
    if (g_refused != Errc::kOk) return platform::fail(g_refused, "the test's sink");
    g_writes.push_back({lsn, {reinterpret_cast<const char *>(from), bytes}});
    return files_.write_durable(lsn, from, bytes);
  }
  [[nodiscard]] bool is_own_trouble() const noexcept override { return g_is_own_trouble; }

 private:
  LogFileSink files_;
};

class LogSinkTest : public testing::Test {
 protected:
  void SetUp() override {
    g_writes.clear();
    storage::set_log_sink_maker(
        [](const std::string &folder, const LogIdentity &log) -> std::unique_ptr<storage::LogSink> {
          return std::make_unique<CopyingSink>(folder, log);
        });
  }
  void TearDown() override {
    g_refused = Errc::kOk;
    g_is_own_trouble = false;
    use_watched_log();
  }
  MemoryFolder folder_;
};

TEST_F(LogSinkTest, GetsTheWholeLog) {
  const Domain domain = Domain::open(folder_.path(), durable_options());
  const Segment segment = domain.map("a.db", raw_pages(64));
  for (int i = 0; i < 60; ++i)
    (void)count_up(domain, segment, Durability::kStrict, i % 4 == 0 ? 30'000 : 10);
  ASSERT_GT(g_writes.size(), 60u);
  Lsn end = 0;
  std::string log;
  for (const Write &write : g_writes) {
    EXPECT_EQ(write.lsn % storage::kLogBlockBytes, 0u);
    EXPECT_EQ(write.bytes.size() % storage::kLogBlockBytes, 0u);
    EXPECT_GE(write.lsn + storage::kLogBlockBytes, end) << "at most the last block once more";
    EXPECT_EQ(storage::file_of(write.lsn, kSmallLogBytes),
              storage::file_of(write.lsn + write.bytes.size() - 1, kSmallLogBytes));
    end = write.lsn + write.bytes.size();
    if (log.size() < end) log.resize(end);
    log.replace(write.lsn, write.bytes.size(), write.bytes);
  }
  EXPECT_GT(end, 2 * kSmallLogBytes);
  // The last one that there is: earlier ones may have been recycled.
  const std::uint64_t index = storage::file_of(end - 1, kSmallLogBytes);
  const std::string file = read_file(storage::log_file_path(folder_.path(), index));
  const std::size_t begin = index * kSmallLogBytes + storage::kLogBlockBytes;
  EXPECT_EQ(log.substr(begin, end - begin), file.substr(storage::kLogBlockBytes, end - begin));
}

TEST_F(LogSinkTest, WhatItRefusesTheCommitTells) {
  Domain domain = Domain::open(folder_.path(), durable_options());
  {
    const Segment segment = domain.map("a.db", raw_pages(64));
    const auto commit_one = [&] { (void)count_up(domain, segment, Durability::kStrict); };
    commit_one();
    g_refused = Errc::kDiskFull;
    g_is_own_trouble = true;
    EXPECT_EQ(code_of(commit_one), Errc::kDiskFull);
    g_refused = Errc::kOk;
    EXPECT_EQ(code_of(commit_one), Errc::kOk) << "only this process could not";
    g_refused = Errc::kIo;
    g_is_own_trouble = false;
    EXPECT_EQ(code_of(commit_one), Errc::kIo);
    g_refused = Errc::kOk;
    EXPECT_EQ(code_of(commit_one), Errc::kLogFailed);
  }
  EXPECT_NE(code_of([&] { domain.close(); }), Errc::kOk);
}

}  // namespace
}  // namespace tmh::test
