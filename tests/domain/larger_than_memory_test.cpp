// tests/domain/larger_than_memory_test.cpp -- a durable segment four times as large as the memory
// its processes may use (docs/design.md D2, D6).
// Shape:     a memory cgroup (version 1 or 2) with a limit; the writers and the one who recovers
//            run inside it. Data files are mapped, so the kernel writes their pages back and drops
//            them whenever it needs room: only what is durable may be there.
#include <gtest/gtest.h>

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kLimitBytes = 48u << 20;
constexpr std::uint64_t kSegmentBytes = 4 * kLimitBytes;
constexpr std::uint64_t kPages = kSegmentBytes / kPageBytes;
constexpr std::uint64_t kPagesPerCommit = 512;

class MemoryCgroup {
 public:
  MemoryCgroup() {
    for (const char *root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      const bool is_v1 = std::string(root) == "/sys/fs/cgroup/memory";
      path_ = std::string(root) + "/tmh-test-" + std::to_string(getpid());
      if (mkdir(path_.c_str(), 0755) != 0) continue;
      if (put(is_v1 ? "/memory.limit_in_bytes" : "/memory.max", std::to_string(kLimitBytes)))
        return;
      rmdir(path_.c_str());
    }
    path_.clear();
  }
  ~MemoryCgroup() {
    if (!path_.empty()) rmdir(path_.c_str());
  }
  MemoryCgroup(const MemoryCgroup &) = delete;
  MemoryCgroup &operator=(const MemoryCgroup &) = delete;
  [[nodiscard]] explicit operator bool() const noexcept { return !path_.empty(); }
  [[nodiscard]] bool enter() const { return put("/cgroup.procs", std::to_string(getpid())); }

 private:
  [[nodiscard]] bool put(const char *file, const std::string &text) const {
    std::ofstream out(path_ + file);
    out << text << std::flush;
    return out.good();
  }
  std::string path_;
};

struct Opened {
  explicit Opened(const std::string &folder) {
    DomainOptions options;
    options.durability = Durability::kBuffered;
    options.log_file_bytes = 4u << 20;
    options.checkpoint_bytes = 8u << 20;
    domain = Domain::open(folder, options);
    SegmentOptions raw;
    raw.size_bytes = kSegmentBytes;
    raw.layout = Layout::kRaw;
    segment = domain.map("large.db", raw);
  }
  [[nodiscard]] std::uint64_t &word(std::uint64_t page) const {
    return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
  }
  Domain domain;
  Segment segment;
};

// Commits with number `round` all over the segment; the last ones are durable when it returns.
void fill(const Opened &large, std::uint64_t round) {
  for (std::uint64_t first = 0; first < kPages; first += kPagesPerCommit) {
    atomically(large.domain, [&] {
      for (std::uint64_t page = first; page < first + kPagesPerCommit; ++page) {
        std::uint64_t *words = &large.word(page);
        for (int i = 0; i < 16; ++i) words[i * 32] = round * kPages + page;
      }
    });
  }
  large.domain.flush();
}

void expect_round(const Opened &large, std::uint64_t round) {
  std::uint64_t wrong = 0;
  query(large.domain, [&] {
    for (std::uint64_t page = 0; page < kPages; ++page) {
      const std::uint64_t *words = &large.word(page);
      for (int i = 0; i < 16; ++i) {
        if (words[i * 32] == round * kPages + page) continue;
        if (++wrong <= 5)
          ADD_FAILURE() << "page " << page << ", word " << i * 32 << " holds " << words[i * 32]
                        << ", not " << round * kPages + page;
      }
    }
  });
  EXPECT_EQ(wrong, 0u);
}

bool is_in_memory(const std::string &folder) {
  struct statfs info {};
  return statfs(folder.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC;
}

TEST(LargerThanMemoryTest, ASegmentOfFourTimesTheLimitWorksAndRecovers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer's shadow of the segment is larger than the segment, and cannot "
                  "be dropped";
#endif
  const MemoryCgroup group;
  if (!group)
    GTEST_SKIP() << "no memory cgroup can be made here (needs root and a writable /sys/fs/cgroup)";
  const TempFolder folder;
  if (is_in_memory(folder.path()))
    GTEST_SKIP() << "the temporary folder is in memory (tmpfs): TMPDIR names one on a disk";
  // Tells our SIGKILL from that of a kernel without memory.
  Shared<std::atomic<std::uint64_t>> done;
  for (std::uint64_t round = 1; round <= 2; ++round) {
    const ChildEnd writer = run_in_child("writer", [&] {
      ASSERT_TRUE(group.enter());
      const Opened large(folder / "domain");
      fill(large, round);
      done->store(round);
      die_unless_failed();
    });
    ASSERT_EQ(writer.signal, SIGKILL) << "exit code " << writer.exit_code;
    ASSERT_EQ(done->load(), round)
        << "killed by the kernel: more memory than the limit is in use for good";
    const ChildEnd reader = run_in_child("reader", [&] {
      ASSERT_TRUE(group.enter());
      const Opened large(folder / "domain");
      expect_round(large, round);
    });
    EXPECT_TRUE(reader.succeeded());
  }
}

}  // namespace
}  // namespace tmh::test
