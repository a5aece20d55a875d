// tests/storage/archive_test.cpp -- what an archive of log files holds already is never replaced by
// something else.
// Invariants: (1) another domain's log file is refused, and both stay as they were,
//             (2) so is another history of the same domain, which begins when a copy is restored as
//                 of a moment and goes on,
//             (3) a copy of a file that was still being written is replaced by the whole one,
//             (4) where a file cannot be renamed into the archive it is copied.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "storage/log/log_files.h"
#include "storage/log/log_format.h"
#include "tests/support/code_of.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

DomainOptions kept() {
  DomainOptions options;
  options.durability = Durability::kBuffered;
  options.log_file_bytes = storage::kLogFileBytesMin;
  options.keep_log = true;
  return options;
}

SegmentOptions raw() {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = 16 * kPageBytes;
  return options;
}

// Fills about `files` log files.
void work(const Domain &domain, const Segment &segment, std::uint64_t files, std::uint64_t value) {
  constexpr std::uint64_t kWords = 16 * kPageBytes / 8;
  auto *const words = reinterpret_cast<std::uint64_t *>(segment.data());
  for (std::uint64_t i = 0; i < files * storage::kLogFileBytesMin / (kWords * 8); ++i) {
    atomically(domain, [&] {
      for (std::uint64_t at = 0; at < kWords; ++at) words[at] = value + i + at;
    });
  }
  domain.flush();
}

std::map<std::string, std::string> log_files(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    if (!storage::log_file_index(entry.path().filename().string())) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

class ArchiveTest : public testing::Test {
 protected:
  // A checkpoint, and something for the next one, which archive() takes: so the older of both needs
  // only the last files.
  static void checkpoint(const Domain &domain, const Segment &segment) {
    domain.checkpoint();
    atomically(domain, [&] { ++*reinterpret_cast<std::uint64_t *>(segment.data()); });
  }
  static std::size_t archive(const Domain &domain, const Segment &segment, const std::string &to) {
    checkpoint(domain, segment);
    return domain.archive(to).size();
  }
  MemoryFolder folder_;
  const std::string archive_ = folder_ / "archive";
};

TEST_F(ArchiveTest, AnotherDomainsLogFilesAreNotReplaced) {
  {
    const Domain domain = Domain::open(folder_ / "one", kept());
    const Segment segment = domain.map("a.db", raw());
    work(domain, segment, 3, 1);
    EXPECT_GE(archive(domain, segment, archive_), 2u);
  }
  const auto before = log_files(archive_);
  Domain domain = Domain::open(folder_ / "other", kept());
  const Segment segment = domain.map("a.db", raw());
  work(domain, segment, 3, 1000);
  checkpoint(domain, segment);
  EXPECT_THROW((void)domain.archive(archive_), Error);
  EXPECT_TRUE(log_files(archive_) == before);
  EXPECT_TRUE(log_files(folder_ / "other").contains(storage::log_file_name(0)));
  EXPECT_GE(archive(domain, segment, folder_ / "own"), 2u);
}

// With log files of its own it is refused for them; once it has used those again it would do so
// with whatever lies before.
TEST_F(ArchiveTest, AnotherDomainsFolderIsNoArchive) {
  const std::string path = folder_ / "one", other_path = folder_ / "other";
  DomainOptions reused = kept();
  reused.keep_log = false;
  const auto go_on = [&] {
    const Domain other = Domain::open(other_path, reused);
    const Segment segment = other.map("a.db", raw());
    for (int i = 0; i < 4; ++i) {
      work(other, segment, 2, 1000);
      checkpoint(other, segment);
    }
  };
  go_on();
  ASSERT_FALSE(log_files(other_path).contains(storage::log_file_name(0))) << "used again";
  {
    const Domain domain = Domain::open(path, kept());
    const Segment segment = domain.map("a.db", raw());
    work(domain, segment, 3, 1);
    checkpoint(domain, segment);
    const auto before = log_files(path);
    EXPECT_EQ(code_of([&] { (void)domain.archive(other_path); }), Errc::kNotADomain);
    for (const auto &[name, content] : before) EXPECT_TRUE(log_files(path).contains(name)) << name;
  }
  go_on();
}

TEST_F(ArchiveTest, AnotherHistoryOfTheDomainIsNotArchivedOverIt) {
  const std::string base = folder_ / "base";
  {
    Domain domain = Domain::open(folder_ / "domain", kept());
    const Segment segment = domain.map("a.db", raw());
    work(domain, segment, 1, 1);
    domain.backup(base);
    work(domain, segment, 4, 1000);
    EXPECT_GE(archive(domain, segment, archive_), 3u);
  }
  const auto before = log_files(archive_);
  RecoverOptions until;
  until.log_folder = archive_;
  until.until_lsn = 5 * storage::kLogFileBytesMin / 2;
  (void)recover(base, until);
  const Domain restored = Domain::open(base, kept());
  const Segment segment = restored.map("a.db", raw());
  work(restored, segment, 4, 2000);
  checkpoint(restored, segment);
  EXPECT_THROW((void)restored.archive(archive_), Error);
  EXPECT_TRUE(log_files(archive_) == before);
  EXPECT_GE(archive(restored, segment, folder_ / "own"), 2u);
}

TEST_F(ArchiveTest, ACopyOfAFileInUseIsReplacedByTheWholeFile) {
  const std::string path = folder_ / "domain";
  std::filesystem::create_directory(archive_);
  {
    Domain domain = Domain::open(path, kept());
    const Segment segment = domain.map("a.db", raw());
    work(domain, segment, 2, 1);
    domain.close();
  }
  for (const auto &[name, content] : log_files(path))
    std::filesystem::copy(path + "/" + name, archive_ + "/" + name);
  const auto copied = log_files(archive_);
  const Domain domain = Domain::open(path, kept());  // a generation opens in the last file
  const Segment segment = domain.map("a.db", raw());
  work(domain, segment, 4, 1000);
  EXPECT_GE(archive(domain, segment, archive_), copied.size());
  EXPECT_FALSE(log_files(archive_) == copied);
}

// All that was archived, and what the closed domain still has.
void gather(const std::string &domain, const std::string &archive) {
  std::filesystem::create_directories(archive);
  for (const auto &[name, content] : log_files(domain))
    std::filesystem::copy(domain + "/" + name, archive + "/" + name,
                          std::filesystem::copy_options::skip_existing);
}

TEST_F(ArchiveTest, ABackupFromBeforeSegmentsHaveGrownIsBroughtToALaterMoment) {
  using Numbers = std::vector<std::uint64_t, allocator<std::uint64_t>>;
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    DomainOptions options = kept();
    options.levels = levels;
    options.line = LineChoice::kSoftware;
    const std::string name = to_string(levels), path = folder_ / name, base = path + ".base",
                      archive = path + ".log";
    SegmentOptions grows = raw();
    grows.max_bytes = 64 * kPageBytes;
    std::uint64_t heap_bytes = 0;
    {
      Domain domain = Domain::open(path, options);
      const Segment heap = domain.map("heap"), segment = domain.map("a.db", grows);
      auto *const numbers = heap.root<Numbers>("numbers");
      atomically(domain, [&] { numbers->push_back(0); });
      domain.backup(base);
      atomically(domain, [&] {
        for (std::uint64_t i = 1; i < 700'000; ++i) numbers->push_back(i);
      });
      segment.grow(40 * kPageBytes);
      atomically(domain, [&] { segment.data()[30 * kPageBytes] = std::byte{30}; });
      // Nobody stores to it, but the heap reaches behind it.
      void *const block = atomically(domain, [&] { return heap.allocate(20 << 20); });
      atomically(domain, [&] { *heap.root_cell("block") = block; });
      heap_bytes = heap.size_bytes();
      domain.close();
    }
    gather(path, archive);
    RecoverOptions all;
    all.log_folder = archive;
    (void)recover(base, all);
    Domain domain = Domain::open(base, options);
    const Segment heap = domain.map("heap"), segment = domain.map("a.db", grows);
    EXPECT_GT(heap.size_bytes(), 20u << 20);
    EXPECT_LE(heap.size_bytes(), heap_bytes);
    EXPECT_GE(segment.size_bytes(), 31 * kPageBytes);
    atomically(domain, [&] {
      EXPECT_EQ(storage::heap_check(heap.data(), heap.size_bytes()), Errc::kOk);
      auto *const numbers = static_cast<Numbers *>(*heap.root_cell("numbers"));
      ASSERT_EQ(numbers->size(), 700'000u);
      for (std::uint64_t i = 0; i < numbers->size(); i += 1000) EXPECT_EQ((*numbers)[i], i);
      heap.deallocate(*heap.root_cell("block"), 20 << 20);
      EXPECT_EQ(segment.data()[30 * kPageBytes], std::byte{30});
    });
    domain.close();
  }
}

TEST_F(ArchiveTest, ABackupFromBeforeASegmentWasMadeIsBroughtToMomentsBeforeThat) {
  const std::string path = folder_ / "domain", base = folder_ / "base";
  {
    Domain domain = Domain::open(path, kept());
    const Segment segment = domain.map("a.db", raw());
    domain.backup(base);
    work(domain, segment, 2, 1000);
    const Segment later = domain.map("later", raw());
    work(domain, later, 1, 1);
    domain.close();
  }
  gather(path, archive_);
  RecoverOptions until;
  until.log_folder = archive_;
  EXPECT_EQ(code_of([&] { (void)recover(base, until); }), Errc::kBadArgument);
  until.until_lsn = storage::kLogFileBytesMin;
  EXPECT_GT(recover(base, until).transactions, 0u);
  const Domain restored = Domain::open(base, kept());
  const Segment segment = restored.map("a.db", raw());
  EXPECT_GE(query(restored, [&] { return *reinterpret_cast<std::uint64_t *>(segment.data()); }),
            1000u);
}

// As between two bind mounts of one device, which a container has for the domain and for the
// archive.
int refuse_to_rename_between_folders(const platform::DiskEvent &event) {
  namespace fs = std::filesystem;
  const bool is_far = event.op == platform::DiskOp::kRename &&
                      fs::path(event.path).parent_path() != fs::path(event.path2).parent_path();
  return is_far ? EXDEV : 0;
}

TEST_F(ArchiveTest, AnArchiveUnderAnotherMountOfTheSameDeviceTakesCopies) {
  const std::string path = folder_ / "domain";
  const Domain domain = Domain::open(path, kept());
  const Segment segment = domain.map("a.db", raw());
  work(domain, segment, 3, 1);
  const auto before = log_files(path);
  checkpoint(domain, segment);
  platform::set_disk_hook(refuse_to_rename_between_folders);
  std::vector<std::string> moved;
  EXPECT_NO_THROW(moved = domain.archive(archive_));
  platform::set_disk_hook(nullptr);
  EXPECT_GE(moved.size(), 2u);
  for (const std::string &file : moved) {
    const std::string name = std::filesystem::path(file).filename();
    EXPECT_TRUE(log_files(archive_)[name] == before.at(name)) << name;
    EXPECT_FALSE(log_files(path).contains(name)) << name;
  }
}

}  // namespace
}  // namespace tmh::test
