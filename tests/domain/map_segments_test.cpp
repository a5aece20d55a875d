// tests/domain/map_segments_test.cpp -- map() and unmap() as a careless program calls them.
// Invariants: (1) map() replaces and removes no file but the empty one that it makes a heap of, (2)
//             a map() that is refused leaves nothing behind that the next one would be refused for,
//             (3) unmap() takes the segment that it was given, and no other.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "tests/support/children.h"
#include "tests/support/sanitizers.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {
class MapSegmentsTest : public testing::Test {
 protected:
  [[nodiscard]] Domain open(const std::string &name = "domain",
                            Durability durability = Durability{}) const {
    DomainOptions options;
    options.tracking = Tracking::kSignalHot;
    options.durability = durability;
    return Domain::open(folder_ / name, options);
  }
  static SegmentOptions part(std::uint64_t number, Layout layout = Layout::kRaw) {
    SegmentOptions options = raw_segment(kPartBytes);
    options.layout = layout;
    options.offset_bytes = number * kPartBytes;
    return options;
  }
  static bool works(const Domain &domain, const Segment &segment) {
    std::byte *const first = segment.data();
    if (first == nullptr) return false;
    atomically(domain, [&] { store(first[segment.size_bytes() - 1], std::byte{1}); });
    return true;
  }

  static constexpr std::uint64_t kPartBytes = 1 << 20;
  MemoryFolder folder_;
};

TEST_F(MapSegmentsTest, AHeapIsMadeBesideFilesOfSimilarNames) {
  write_file(folder_ / "mine.new", "precious");
  {
    const Domain domain = open();
    long *const kept = domain.map("a.new").root<long>();
    atomically(domain, [&] { *kept = 42; });
    EXPECT_TRUE(domain.map("a"));
    EXPECT_TRUE(domain.map(folder_ / "mine"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "domain/a.new"));
    EXPECT_EQ(read_file(folder_ / "mine.new"), "precious");
  }
  const Domain domain = open();
  const long *const kept = domain.map("a.new").root<long>();
  EXPECT_EQ(query(domain, [&] { return *kept; }), 42);
}

TEST_F(MapSegmentsTest, AHeapTakesNoIrregularFilesPlace) {
  const Domain domain = open();
  const std::string fifo = folder_ / "domain/fifo", link = folder_ / "domain/link";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", link);
  for (const char *name : {"fifo", "link"}) {
    expect_error(
        Errc::kBadArgument, [&] { static_cast<void>(domain.map(name)); }, name);
  }
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST_F(MapSegmentsTest, AHeapIsMadeWhereASymbolicLinkLeads) {
  const Domain domain = open();
  ASSERT_TRUE(std::filesystem::create_directory(folder_ / "elsewhere"));
  write_file(folder_ / "elsewhere/empty", "");
  for (const char *name : {"absent", "empty"}) {
    const std::string link = folder_ / "domain/" + name, target = folder_ / "elsewhere/" + name;
    std::filesystem::create_symlink(std::string("../elsewhere/") + name, link);
    EXPECT_TRUE(works(domain, domain.map(name)));
    EXPECT_TRUE(std::filesystem::is_symlink(link)) << name;
    EXPECT_TRUE(std::filesystem::is_regular_file(target)) << name;
  }
  std::filesystem::create_symlink("round", folder_ / "domain/round");
  expect_error(
      Errc::kIo, [&] { static_cast<void>(domain.map("round")); }, "round");
}

TEST_F(MapSegmentsTest, AHeapOnAFullDeviceIsAnErrorNotASignal) {
  constexpr int kMayNotMount = 77;
  const std::string device = folder_ / "device";
  ASSERT_TRUE(std::filesystem::create_directory(device));
  const ChildEnd end = run_in_child("mapper", [&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", device.c_str(), "tmpfs", 0, "size=64m") != 0)
      _exit(kMayNotMount);
    const Domain domain = open("device/domain");
    FILE *const filler = fopen((device + "/filler").c_str(), "w");
    ASSERT_NE(filler, nullptr);
    const std::string block(kPageBytes, 'f');
    while (write(fileno(filler), block.data(), block.size()) > 0) {
    }
    fclose(filler);
    expect_error(
        Errc::kDiskFull, [&] { static_cast<void>(domain.map("heap")); }, "heap");
    ASSERT_TRUE(std::filesystem::remove(device + "/filler"));
    EXPECT_FALSE(std::filesystem::exists(device + "/domain/tmh.new.heap"));
    EXPECT_TRUE(works(domain, domain.map("heap")));
  });
  if (end.exit_code == kMayNotMount) GTEST_SKIP() << "may not mount a file system";
  EXPECT_TRUE(end.succeeded()) << "signal " << end.signal;
}

TEST_F(MapSegmentsTest, AHeapKeepsTheModeOfItsEmptyFile) {
  const Domain domain = open();
  const std::string file = folder_ / "domain/secret";
  write_file(file, "");
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_TRUE(domain.map("secret"));
  struct stat info {};
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

std::mutex synced_mutex;
std::set<std::string> synced_folders;
int note_synced_folder(const platform::DiskEvent &event) {
  const std::scoped_lock guard(synced_mutex);
  if (event.op == platform::DiskOp::kFolderSync)
    synced_folders.insert(std::filesystem::path(event.path).lexically_normal());
  return 0;
}

TEST_F(MapSegmentsTest, TheFolderWhereASymbolicLinkLeadsIsSynced) {
  const Domain domain = open("domain", Durability::kStrict);
  ASSERT_TRUE(std::filesystem::create_directory(folder_ / "elsewhere"));
  for (const Layout layout : {Layout::kHeap, Layout::kRaw}) {
    const std::string name = layout == Layout::kHeap ? "heap" : "raw";
    std::filesystem::create_symlink("../elsewhere/" + name, folder_ / "domain/" + name);
    synced_folders.clear();
    platform::set_disk_hook(note_synced_folder);
    EXPECT_TRUE(domain.map(name, part(0, layout)));
    platform::set_disk_hook(nullptr);
    EXPECT_EQ(synced_folders.count(folder_ / "elsewhere"), 1U) << name;
  }
}

TEST_F(MapSegmentsTest, WhatIsNoHeapBecomesNoSegment) {
  const Domain domain = open();
  const std::string text(4 * kPartBytes, 't');
  write_file(folder_ / "domain/text", text);
  expect_error(
      Errc::kNotAHeap, [&] { static_cast<void>(domain.map("text")); }, "text");
  expect_error(
      Errc::kNotAHeap, [&] { static_cast<void>(domain.map("text", part(1, Layout::kHeap))); },
      "text");
  SegmentOptions small = part(0, Layout::kHeap);
  small.size_bytes = kPageBytes;
  small.offset_bytes = 8 * kPartBytes;
  expect_error(
      Errc::kBadArgument, [&] { static_cast<void>(domain.map("text", small)); }, "text");
  EXPECT_TRUE(works(domain, domain.map("text", raw_segment(0)))) << "it may be a raw segment still";
}

// As images of disks begin, and sparse files.
TEST_F(MapSegmentsTest, WhatBeginsWithZerosAndHoldsSomethingIsNoHeap) {
  const Domain domain = open();
  const std::string zeros(kPageBytes, '\0');
  for (const std::uint64_t at : {kPageBytes, kPartBytes / 2, 2 * kPartBytes - 1}) {
    const std::string name = "image" + std::to_string(at);
    std::string image(2 * kPartBytes, '\0');
    image[at] = 'x';
    write_file(folder_ / ("domain/" + name), image);
    expect_error(
        Errc::kNotAHeap, [&] { static_cast<void>(domain.map(name)); }, name);
    EXPECT_TRUE(read_file(folder_ / ("domain/" + name)) == image) << name;
    EXPECT_TRUE(works(domain, domain.map(name, raw_segment(0)))) << name;
  }
  // What lies behind the part is not the heap's.
  write_file(folder_ / "domain/parts", std::string(kPartBytes, '\0') + "another part");
  EXPECT_TRUE(works(domain, domain.map("parts", part(0, Layout::kHeap))));
}

TEST_F(MapSegmentsTest, APartBeyondWhatFilesHaveIsRefused) {
  const Domain domain = open();
  for (const Layout layout : {Layout::kRaw, Layout::kHeap}) {
    for (const std::uint64_t offset :
         {~std::uint64_t{0} - kPageBytes + 1, std::uint64_t{1} << 63,
          (std::uint64_t{1} << 63) - kPageBytes, (std::uint64_t{1} << 63) - kPartBytes}) {
      SegmentOptions options = part(0, layout);
      options.offset_bytes = offset;
      expect_error(
          Errc::kBadArgument, [&] { static_cast<void>(domain.map("far", options)); }, "far");
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "domain/far"));
}

// Which may not write: it leaves a heap that names no address yet as it is, and the next map()
// binds it.
TEST_F(MapSegmentsTest, AHeapMayBeMappedInAQuery) {
  {
    const Domain domain = open();
    const Segment heap = query(domain, [&] { return domain.map("made"); });
    EXPECT_TRUE(works(domain, heap));
    const long *const root = heap.root<long>();
    EXPECT_EQ(query(domain, [&] { return *root; }), 0);
  }
  const Domain domain = open();
  EXPECT_EQ(query(domain,
                  [&] {
                    const Segment heap = domain.map("made");
                    return *static_cast<long *>(*heap.root_cell("root", sizeof(long)));
                  }),
            0);
  write_file(folder_ / "domain/zeros", std::string(2 * kPartBytes, '\0'));
  expect_error(
      Errc::kInstanceRunning,
      [&] { query(domain, [&] { static_cast<void>(domain.map("zeros")); }); }, "zeros");
  EXPECT_TRUE(works(domain, domain.map("zeros")));
}

TEST_F(MapSegmentsTest, AHeapThatWasCopiedFromElsewhereBecomesNoSegment) {
  const Domain domain = open();
  EXPECT_TRUE(domain.map("first"));
  std::filesystem::copy_file(folder_ / "domain/first", folder_ / "domain/copy");
  expect_error(
      Errc::kSegmentMismatch, [&] { static_cast<void>(domain.map("copy")); }, "copy");
  EXPECT_TRUE(works(domain, domain.map("copy", raw_segment(0))));
}

TEST_F(MapSegmentsTest, ASizeAboveTheMaximumIsRefusedTheFirstTime) {
  const Domain domain = open();
  SegmentOptions options;
  options.max_bytes = kPageBytes;
  for (int time = 0; time < 2; ++time) {
    expect_error(
        Errc::kBadArgument, [&] { static_cast<void>(domain.map("heap", options)); }, "heap");
  }
  EXPECT_TRUE(domain.map("heap"));
}

TEST_F(MapSegmentsTest, RefusedSegmentsTakeNoAddresses) {
  const Domain domain = open();
  const SegmentOptions options = raw_segment();
  for (int i = 0; i < 3000; ++i) {  // of 64 GiB each: more than there is room for
    std::error_code ec;
    ASSERT_FALSE(domain.map("no-such-folder/a.raw", options, ec));
    ASSERT_EQ(ec, make_error_code(Errc::kIo)) << i << ": " << domain.last_error();
  }
  EXPECT_TRUE(works(domain, domain.map("a.raw", options)));
}

TEST_F(MapSegmentsTest, AZeroFileThatIsRefusedInAnInstanceIsFormattedOutside) {
  const Domain domain = open();
  write_file(folder_ / "domain/zeros", std::string(2 * kPartBytes, '\0'));
  expect_error(
      Errc::kInstanceRunning,
      [&] { atomically(domain, [&] { static_cast<void>(domain.map("zeros")); }); }, "zeros");
  EXPECT_TRUE(works(domain, domain.map("zeros")));
}

// Its maker died between the record and the format.
TEST_F(MapSegmentsTest, AnUnformattedHeapThatIsRefusedInAnInstanceIsFormattedOutside) {
  const Domain domain = open();
  Segment segment = domain.map("heap");
  atomically(domain, [&] { std::fill_n(segment.data(), kPageBytes, std::byte{0}); });
  domain.unmap(segment);
  for (int time = 0; time < 2; ++time) {
    expect_error(
        Errc::kInstanceRunning,
        [&] { atomically(domain, [&] { static_cast<void>(domain.map("heap")); }); }, "heap");
  }
  segment = domain.map("heap");
  EXPECT_TRUE(works(domain, segment));
  expect_error(Errc::kSegmentInUse, [&] { static_cast<void>(domain.map("heap")); });
  domain.unmap(segment);
  EXPECT_TRUE(works(domain, domain.map("heap")));
}

// Leaves room for `left` more: below the limit, whatever gaps there are.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t left) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlim_t limit = 0;
    for (rlim_t free = 0; free < left || is_used(limit); ++limit) free += is_used(limit) ? 0U : 1U;
    limit_to(limit);
  }
  ~FewDescriptors() { limit_to(before_.rlim_cur); }
  FewDescriptors(const FewDescriptors &) = delete;
  FewDescriptors &operator=(const FewDescriptors &) = delete;

 private:
  static bool is_used(rlim_t descriptor) {
    return fcntl(static_cast<int>(descriptor), F_GETFD) >= 0;
  }
  void limit_to(rlim_t count) const {
    const rlimit limit{count, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  rlimit before_{};
};

// Each of the files that a segment takes is the one for which there is no descriptor.
TEST_F(MapSegmentsTest, WhatIsRefusedForWantOfDescriptorsIsMappedByTheNextCall) {
  if (const std::string why = why_descriptors_must_stay(); !why.empty()) GTEST_SKIP() << why;
  for (const bool is_durable : {false, true}) {
    for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
      DomainOptions options;
      options.tracking = Tracking::kSignalHot;
      options.levels = levels;
      options.line = LineChoice::kSoftware;
      if (is_durable) options.durability = Durability::kStrict;
      const std::string name =
          std::string(is_durable ? "durable " : "volatile ") + to_string(levels);
      const Domain domain = Domain::open(folder_ / name, options);
      const Site site(domain, "site");
      int refused = 0;
      for (const bool is_inside : {false, true}) {
        for (rlim_t left = 0; left < 12; ++left) {
          SCOPED_TRACE(name + (is_inside ? ", in an instance, " : ", ") + std::to_string(left) +
                       " descriptors left");
          const std::string file = (is_inside ? "inside " : "outside ") + std::to_string(left);
          const auto map = [&] {
            std::error_code error;
            const FewDescriptors few(left);
            const Segment segment = domain.map(file, raw_segment(), error);
            return !segment;
          };
          refused += (is_inside ? atomically(domain, map) : map()) ? 1 : 0;
          std::error_code error;
          const Segment segment = domain.map(file, raw_segment(), error);
          if (error) {
            EXPECT_EQ(error, make_error_code(Errc::kSegmentInUse)) << domain.last_error();
            continue;
          }
          EXPECT_TRUE(works(domain, segment));
          auto &word = *reinterpret_cast<field<std::uint64_t> *>(segment.data());
          atomically(site, [&](Fields) { word = 7; });
          EXPECT_EQ(query(domain, [&] { return word.load(); }), 7U);
          domain.unmap(segment);
        }
      }
      EXPECT_GT(refused, 4);
    }
  }
}

TEST_F(MapSegmentsTest, UnmappingOnePartOfAFileLeavesTheOthers) {
  const Domain domain = open();
  const Segment first = domain.map("parts", part(0)), second = domain.map("parts", part(1));
  domain.unmap(first);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_TRUE(works(domain, second));
  expect_error(Errc::kNotMapped, [&] { domain.unmap(first); });
  EXPECT_TRUE(works(domain, domain.map("parts", part(0))));
  std::error_code ec;
  EXPECT_FALSE(domain.unmap("parts", ec)) << "by its name: all parts";
  EXPECT_EQ(second.data(), nullptr);
}

TEST_F(MapSegmentsTest, APartThatIsNoHeapLeavesTheOthersMapped) {
  const Domain domain = open();
  write_file(folder_ / "domain/parts", std::string(4 * kPartBytes, 't'));
  const Segment first = domain.map("parts", part(0));
  expect_error(Errc::kNotAHeap,
               [&] { static_cast<void>(domain.map("parts", part(1, Layout::kHeap))); });
  // One that is a segment already, and whose header was damaged since.
  Segment heap = domain.map("heaps", part(0, Layout::kHeap));
  const Segment second = domain.map("heaps", part(1));
  atomically(domain, [&] { store(heap.data()[0], std::byte{0}); });
  domain.unmap(heap);
  expect_error(Errc::kNotAHeap,
               [&] { static_cast<void>(domain.map("heaps", part(0, Layout::kHeap))); });
  EXPECT_TRUE(works(domain, first));
  EXPECT_TRUE(works(domain, second));
}

TEST_F(MapSegmentsTest, UnmappingTakesNoOtherSegmentOfThatName) {
  const Domain domain = open(), other = open("other");
  SegmentOptions relocatable = raw_segment();
  relocatable.relocatable = true;
  const Segment segment = domain.map("a.raw", raw_segment()),
                theirs = other.map("a.raw", relocatable);
  expect_error(Errc::kNotMapped, [&] { other.unmap(segment); });
  EXPECT_TRUE(works(other, theirs));
  domain.unmap(segment);
  const Segment again = domain.map("a.raw", raw_segment());
  expect_error(Errc::kNotMapped, [&] { domain.unmap(segment); });
  EXPECT_TRUE(works(domain, again));
}

// The kernel gives the addresses of a relocatable one to whoever asks next, and its memory is the
// program's own.
TEST_F(MapSegmentsTest, MemoryOfOursWhereASegmentWasIsPlainForLevel1) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  const Domain domain = Domain::open(folder_ / "domain", options);
  const Site lines(domain, "lines", "never");
  const Segment segment = domain.map("a.raw", raw_segment());
  using Words = field<std::uint64_t>;
  auto *const words = reinterpret_cast<Words *>(segment.data());
  atomically(lines, [&](Fields) { words[0] = words[1] + 1; });
  domain.unmap(segment);
  void *const ours = mmap(words, kPageBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(ours, words);
  words[0] = 5;
  const std::uint64_t seen = atomically(lines, [&](Fields) {
    const std::uint64_t first = words[0];
    words[1] = 6;
    return first;
  });
  EXPECT_EQ(seen, 5U);
  EXPECT_EQ(words[1].load(), 6U);
  munmap(ours, kPageBytes);
}

}  // namespace
}  // namespace tmh::test
