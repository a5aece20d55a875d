// tests/storage/disk_full_test.cpp -- a device that fills up under a running domain, at every kind
// of file: tmpfs, where a load from a hole takes a block, too, and ext4; levels, ways of tracking
// and durabilities; with many amounts of space that is left, so that it ends at different places.
// Invariants: (1) never a signal: an instance that finds no block ends with kDiskFull, (2) aborted
//             ones have done nothing, committed ones all: the words always sum up to the tally, for
//             queries on the full disk as well, (3) with space again work goes on in the same
//             process, and the domain closes, opens and holds what was committed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/rtm_table.h"
#include "tests/support/shared.h"
#include "tests/support/small_device.h"
#include "tests/support/stray_allowed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kPages = 1024;
// Instances go to every 37th in turn: 600 to 600 pages. More than the 512 of one page table.
constexpr std::uint64_t kBookPages = 640;
constexpr std::uint64_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);
using Word = field<std::uint64_t>;

struct Way {
  const char *name;
  Levels levels;
  LineChoice line;
  Tracking tracking;
  Detection detection;
  const char *escalation;
};
const Way kWays[] = {
    {"Pages", Levels::kPage, LineChoice::kAuto, Tracking::kAuto, Detection::kLazy, ""},
    {"PagesSignal", Levels::kPage, LineChoice::kAuto, Tracking::kSignal, Detection::kLazy, ""},
    {"PagesEager", Levels::kPage, LineChoice::kAuto, Tracking::kSignal, Detection::kEager, ""},
    {"Hybrid", Levels::kHybrid, LineChoice::kSoftware, Tracking::kAuto, Detection::kLazy,
     "adaptive"},
    {"HybridLines", Levels::kHybrid, LineChoice::kSoftware, Tracking::kAuto, Detection::kLazy,
     "never"},
    {"HybridSignal", Levels::kHybrid, LineChoice::kSoftware, Tracking::kSignalHot, Detection::kLazy,
     "adaptive"},
    {"HybridRtm", Levels::kHybrid, LineChoice::kRtm, Tracking::kAuto, Detection::kLazy, "adaptive"},
};

constexpr std::uint64_t device_mib(Device device) { return device == Device::kTmpfs ? 64 : 96; }

// Everything but so many KiB is taken, byte by byte where blocks are too coarse a promise.
class Filler {
 public:
  Filler(const std::string &folder, std::uint64_t left_kib) : path_(folder + "/filler") {
    struct statvfs info {};
    EXPECT_EQ(statvfs(folder.c_str(), &info), 0);
    const std::uint64_t free = info.f_bavail * info.f_frsize, left = left_kib << 10;
    const int fd = open(path_.c_str(), O_CREAT | O_RDWR, 0600);
    const std::uint64_t begin = free > left ? free - left : 0;
    if (begin != 0) (void)!posix_fallocate(fd, 0, static_cast<off_t>(begin));
    // What statvfs() held back: the last block by block.
    if (left_kib == 0)
      for (off_t at = static_cast<off_t>(begin); fallocate(fd, 0, at, 1024) == 0;) at += 1024;
    close(fd);
  }
  ~Filler() { std::remove(path_.c_str()); }

 private:
  std::string path_;
};

class FullDeviceTest : public testing::TestWithParam<std::tuple<Device, Way, tmh::Durability>> {
 protected:
  [[nodiscard]] static DomainOptions options() {
    const Way &way = std::get<1>(GetParam());
    DomainOptions options;
    options.levels = way.levels;
    options.line = way.line;
    options.tracking = way.tracking;
    options.policies.detection = way.detection;
    options.policies.escalation = way.escalation;
    options.durability = std::get<2>(GetParam());
    options.log_file_bytes = 1 << 20;
    return options;
  }
  MemoryFolder folder_;
};

// One domain on the device, and what it must hold.
class Books {
 public:
  Books(const std::string &folder, const DomainOptions &options)
      : domain_(Domain::open(folder, options)), is_hybrid_(options.levels == Levels::kHybrid) {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = kBookPages * kPageBytes;
    segment_ = domain_.map("books.raw", raw);
    if (is_hybrid_) site_ = std::make_unique<Site>(domain_, "book");
  }
  // The error of the attempt.
  Errc book(std::uint64_t i) {
    const auto body = [&] {
      Word &tally = word(0);
      tally = tally + 1;
      Word &one = word((1 + i * 37 % (kBookPages - 1)) * kWordsPerPage + i % kWordsPerPage);
      one = one + 1;
    };
    try {
      if (is_hybrid_)
        atomically(*site_, [&](Fields) { return body(); });
      else
        atomically(domain_, body);
    } catch (const Error &error) {
      return error.errc();
    }
    ++booked_;
    return Errc::kOk;
  }
  // Looks at a share of the pages, also such as nobody has touched, and at the tally.
  void expect_right(const std::string &when) {
    std::uint64_t tally = 0, sum = 0;
    query(domain_, [&] {
      tally = word(0);
      sum = 0;
      for (std::uint64_t page = 1; page < kBookPages; ++page)
        for (std::uint64_t at = 0; at < kWordsPerPage; ++at) sum += word(page * kWordsPerPage + at);
    });
    EXPECT_EQ(tally, booked_) << when;
    EXPECT_EQ(sum, booked_) << when;
  }
  void close() {
    site_.reset();
    domain_.close();
  }
  void was_booked(std::uint64_t count) { booked_ = count; }
  [[nodiscard]] std::uint64_t booked() const { return booked_; }

 private:
  [[nodiscard]] Word &word(std::uint64_t index) {
    return reinterpret_cast<Word *>(segment_.data())[index];
  }
  Domain domain_;
  Segment segment_;
  std::unique_ptr<Site> site_;
  const bool is_hybrid_;
  std::uint64_t booked_ = 0;
};

struct Case {
  std::uint64_t left_kib;
  // All pages in order: what the kernel reads ahead of shares large folios with holes.
  bool reads_first;
};
const Case kCases[] = {{0, false},   {12, false}, {40, false}, {136, false},
                       {520, false}, {40, true},  {520, true}};

void fill_up(const std::string &device, const DomainOptions &options, const Case &now) {
  const std::uint64_t left_kib = now.left_kib;
  const std::string when =
      std::to_string(left_kib) + " KiB left" + (now.reads_first ? ", read first" : "");
  const std::string folder = device + "/domain";
  std::uint64_t refused = 0, at = 0;
  Books books(folder, options);
  if (now.reads_first) books.expect_right("before anything was written");
  for (; at < 20; ++at) ASSERT_EQ(books.book(at), Errc::kOk);
  {
    const Filler filler(device, left_kib);
    for (; at < 600; ++at) {
      const Errc error = books.book(at);
      if (error == Errc::kOk) continue;
      ASSERT_EQ(error, Errc::kDiskFull) << message(error) << ", " << when;
      ++refused;
      if (refused % 100 == 1) books.expect_right("on the full disk, " + when);
    }
    EXPECT_GT(refused, 0U) << when;
    books.expect_right("on the full disk, at last, " + when);
  }
  for (; at < 700; ++at) ASSERT_EQ(books.book(at), Errc::kOk) << "with space again, " << when;
  books.expect_right("with space again, " + when);
  books.close();
  Books again(folder, options);
  again.was_booked(books.booked());
  again.expect_right("opened again, " + when);
  ASSERT_EQ(again.book(at), Errc::kOk);
  again.close();
}

TEST_P(FullDeviceTest, NeverKillsAndLosesNothing) {
  const Device device = std::get<0>(GetParam());
  if (std::get<1>(GetParam()).line == LineChoice::kRtm)
    if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  const std::string place = folder_ / "device", image = folder_ / "image";
  ASSERT_EQ(mkdir(place.c_str(), 0777), 0);
  for (const Case &now : kCases) {
    // It has no holes any more once they have been read.
    if (now.reads_first && device == Device::kTmpfs) continue;
    const ChildEnd end = run_in_child("writer", [&] {
      if (!mount_device(device, device_mib(device), image, place)) _exit(kMayNotMount);
      fill_up(place, options(), now);
    });
    if (end.exit_code == kMayNotMount) GTEST_SKIP() << "needs the right to mount, and mkfs.ext4";
    EXPECT_TRUE(end.succeeded()) << now.left_kib << " KiB left, reads first: " << now.reads_first
                                 << ", exit code " << end.exit_code << ", signal " << end.signal;
    if (HasFailure()) break;
  }
}

// A hybrid domain with level 1 in software, kPages raw pages, and a site that never leaves level 1.
struct SoftwareLines {
  explicit SoftwareLines(const std::string &folder, Levels levels = Levels::kHybrid)
      : domain(open(folder, levels)),
        segment(domain.map("lines.raw", raw_pages())),
        site(domain, "lines", levels == Levels::kHybrid ? "never" : "") {}
  static Domain open(const std::string &folder, Levels levels) {
    DomainOptions options;
    options.levels = levels;
    options.line = LineChoice::kSoftware;
    return Domain::open(folder + "/domain", options);
  }
  static SegmentOptions raw_pages() {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = kPages * kPageBytes;
    return raw;
  }
  [[nodiscard]] Word &first_word_of(std::uint64_t page) const {
    return reinterpret_cast<Word *>(segment.data())[page * kWordsPerPage];
  }
  const Domain domain;
  const Segment segment;
  const Site site;
};

// A query reads a page that no block can be had for, then there is room, and level 1 commits to
// that page and to another one, which the query reads next.
void read_around_a_commit(const std::string &folder) {
  const SoftwareLines lines(folder);
  const Domain &domain = lines.domain;
  const Site &site = lines.site;
  Word &one = lines.first_word_of(0);
  Word &without_block = lines.first_word_of(kPages / 2);
  atomically(site, [&](Fields) { one = 1; });
  auto filler = std::make_unique<Filler>(folder, 0);
  query(domain, [&] {
    EXPECT_EQ(without_block.load(), 0U);
    std::thread([&] {
      filler.reset();
      atomically(site, [&](Fields) { one = without_block = 7; });
    }).join();
    EXPECT_EQ(one.load(), 1U) << "the other page still reads " << without_block.load();
  });
  query(domain, [&] { EXPECT_EQ(one.load() + without_block.load(), 14U); });
}

// A query reads a page that no block can be had for, then one that has all it needs beside it, in
// the same 2 MiB that this process had nothing of before: making that accessible leaves alone what
// stands in for the first.
void read_beside_what_has_no_block(const std::string &folder) {
  const StrayAllowed allowed;
  const SoftwareLines lines(folder);
  Word &one = lines.first_word_of(0);
  Word &without_block = lines.first_word_of(300);
  atomically(lines.site, [&](Fields) { one = 1; });
  const Filler filler(folder, 0);
  const auto read = [&](bool writes) {
    EXPECT_EQ(without_block.load(), 0U);
    EXPECT_EQ(one.load(), 1U);
    EXPECT_EQ(without_block.load(), 0U);
    if (writes) without_block = 2;
  };
  EXPECT_EQ(code_of([&] { query(lines.domain, [&] { read(true); }); }), Errc::kQueryWrote);
  query(lines.domain, [&] { read(false); });
}

// A query that has touched many pages goes on in larger ranges. One of them holds a page that no
// block could be had for, and that it stores to then.
void write_to_what_has_no_block(const std::string &folder) {
  const StrayAllowed allowed;
  // Domains of one process share its areas of memory.
  constexpr std::uint64_t kTouched = 512, kDomains = 32;
  const MemoryFolder elsewhere;
  std::vector<Domain> others;
  for (std::uint64_t i = 0; i < kDomains; ++i)
    others.push_back(Domain::open(elsewhere / "other" + std::to_string(i), DomainOptions{}));
  DomainOptions options;
  options.levels = Levels::kPage;
  options.tracking = Tracking::kSignal;
  const Domain domain = Domain::open(folder + "/domain", options);
  const Segment segment = domain.map("pages.raw", SoftwareLines::raw_pages());
  const auto word_of = [&](std::uint64_t page) -> Word & {
    return reinterpret_cast<Word *>(segment.data())[page * kWordsPerPage];
  };
  atomically(domain, [&] {
    for (std::uint64_t page = 0; page < kTouched; ++page) word_of(page) = 1;
  });
  const Filler filler(folder, 0);
  constexpr std::uint64_t kWithoutBlock = kTouched + 100;
  const auto write = [&] {
    EXPECT_EQ(word_of(kWithoutBlock).load(), 0U);
    for (std::uint64_t page = 0; page < kTouched; ++page) EXPECT_EQ(word_of(page).load(), 1U);
    EXPECT_EQ(word_of(kWithoutBlock + 1).load(), 0U);
    word_of(kWithoutBlock) = 2;
  };
  EXPECT_EQ(code_of([&] { query(domain, write); }), Errc::kQueryWrote);
  EXPECT_EQ(query(domain, [&] { return word_of(kWithoutBlock).load(); }), 0U);
}

// A query sleeps until a page changes that no block could be had for. Then there is room, and in a
// hybrid domain the page is level 1's: no commit at level 2 tells.
void retry_what_has_no_block(const std::string &folder, Levels levels) {
  const SoftwareLines lines(folder, levels);
  const Domain &domain = lines.domain;
  const Site &site = lines.site;
  Word &other = lines.first_word_of(0);
  Word &flag = lines.first_word_of(kPages / 2);
  std::unique_ptr<Filler> filler;
  std::atomic<bool> is_read{false}, is_ready{false};
  std::thread setter([&] {
    atomically(site, [&](Fields) { other = 1; });  // takes what a thread of level 1 needs
    is_ready = true;
    EXPECT_TRUE(poll_until([&] { return is_read.load(); }));
    filler.reset();
    atomically(site, [&](Fields) { flag = 1; });
  });
  EXPECT_TRUE(poll_until([&] { return is_ready.load(); }));
  filler = std::make_unique<Filler>(folder, 0);
  query(domain, [&] {
    const std::uint64_t seen = flag;
    is_read = true;
    if (seen == 0) retry();
  });
  setter.join();
  EXPECT_EQ(query(domain, [&] { return flag.load(); }), 1U);
}

// The heir of a lock looks at the page of each slot, also of those that were never used: they name
// page 0, which nobody has ever had here.
void inherit_on_a_full_disk(const std::string &folder) {
  DomainOptions options;
  options.levels = Levels::kPage;
  options.tracking = Tracking::kSignal;
  options.policies.detection = Detection::kEager;
  const auto word_of = [](const Domain &domain) -> Word & {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = 2 * kPages * kPageBytes;
    return reinterpret_cast<Word *>(
        domain.map("far.raw", raw).data())[3 * kPages / 2 * kWordsPerPage];
  };
  const Domain domain = Domain::open(folder + "/domain", options);
  Word &word = word_of(domain);
  atomically(domain, [&] { word = 1; });
  Shared<std::atomic<bool>> is_ready, is_full;
  Children children;
  const std::size_t victim = children.spawn("victim", [&] {
    const Domain own = Domain::open(folder + "/domain", options);
    Word &mine = word_of(own);
    atomically(own, [&] { mine = 2; });
    is_ready->store(true);
    ASSERT_TRUE(poll_until([&] { return is_full->load(); }));
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kCommitLogged), 1);
    atomically(own, [&] { mine = 3; });
  });
  ASSERT_TRUE(poll_until([&] { return is_ready->load(); }));
  const Filler filler(folder, 0);
  is_full->store(true);
  ASSERT_EQ(children.wait(victim).signal, SIGKILL);
  atomically(domain, [&] { word = word + 8; });
  EXPECT_EQ(query(domain, [&] { return word.load(); }), 10U);
}

// The ring of commits gets its file as it is used. Where there is no room for it, commits end with
// kDiskFull; who has become irrevocable has all of it.
void fill_the_ring(const std::string &folder) {
  constexpr std::uint64_t kCommits = 5000;
  DomainOptions options;
  options.levels = Levels::kPage;
  const Domain domain = Domain::open(folder + "/domain", options);
  Word &word =
      reinterpret_cast<Word *>(domain.map("ring.raw", SoftwareLines::raw_pages()).data())[0];
  std::uint64_t committed = 0;
  const auto commit = [&] {
    const Errc error = code_of([&] { atomically(domain, [&] { word = word + 1; }); });
    if (error == Errc::kOk) ++committed;
    return error;
  };
  ASSERT_EQ(commit(), Errc::kOk);
  auto filler = std::make_unique<Filler>(folder, 0);
  Errc error = Errc::kOk;
  while (error == Errc::kOk && committed < kCommits) error = commit();
  EXPECT_EQ(error, Errc::kDiskFull);
  EXPECT_GT(committed, 500U) << "there was room for that many";
  EXPECT_EQ(query(domain, [&] { return word.load(); }), committed);
  EXPECT_EQ(code_of([&] { atomically(domain, [] { become_irrevocable(); }); }), Errc::kDiskFull);
  filler.reset();
  atomically(domain, [&] {
    become_irrevocable();
    if (filler == nullptr) filler = std::make_unique<Filler>(folder, 0);
    word = word + 1;
  });
  ++committed;
  do error = commit();
  while (error == Errc::kOk && committed < 2 * kCommits);
  EXPECT_EQ(error, Errc::kOk);
  EXPECT_EQ(query(domain, [&] { return word.load(); }), committed);
}

// An update of level 1 for which there is no block goes up, where it is told why; the site says
// that this was the need.
void go_up_for_a_block(const std::string &folder) {
  const SoftwareLines lines(folder);
  const Site site(lines.domain, "goes up", "on-capacity");
  atomically(site, [&](Fields) { lines.first_word_of(0) = 1; });
  const Filler filler(folder, 0);
  EXPECT_EQ(
      code_of([&] { atomically(site, [&](Fields) { lines.first_word_of(kPages / 2) = 1; }); }),
      Errc::kDiskFull);
  const SiteReport report = site.report();
  EXPECT_EQ(report.escalations_by_need[static_cast<std::size_t>(Need::kNoSpace)], 1U);
  EXPECT_EQ(report.escalations_needs_pages, 1U);
}

// The first update beside a snapshot needs blocks for the words that it replaces. The snapshot's
// query looks for such words of everybody, also of who has none.
void update_beside_a_snapshot(const std::string &folder) {
  const SoftwareLines lines(folder);
  Word &one = lines.first_word_of(0), &other = lines.first_word_of(1);
  std::atomic<int> turn{0};
  const auto await = [&](int wanted) {
    while (turn < wanted) std::this_thread::yield();
  };
  std::unique_ptr<Filler> filler;
  std::thread updates([&] {
    atomically(lines.site, [&](Fields) { one = other = 1; });
    filler = std::make_unique<Filler>(folder, 0);
    turn = 1;
    await(2);
    EXPECT_EQ(code_of([&] { atomically(lines.site, [&](Fields) { other = 2; }); }),
              Errc::kDiskFull);
    filler.reset();
    atomically(lines.site, [&](Fields) { other = 3; });
    turn = 3;
  });
  await(1);
  query(lines.domain, [&] {
    turn = 2;
    await(3);
    std::uint64_t copied = 0;
    lines.domain.copy(&other, &copied, sizeof copied);
    EXPECT_EQ(copied, 1U);
  });
  updates.join();
  query(lines.domain, [&] { EXPECT_EQ(other.load(), 3U); });
}

class FullDeviceCaseTest : public testing::TestWithParam<Device> {
 protected:
  static void run_on_device(const std::function<void(const std::string &folder)> &work) {
    const MemoryFolder folder;
    const std::string place = folder / "device", image = folder / "image";
    ASSERT_EQ(mkdir(place.c_str(), 0777), 0);
    const ChildEnd end = run_in_child("worker", [&] {
      if (!mount_device(GetParam(), device_mib(GetParam()), image, place)) _exit(kMayNotMount);
      work(place);
    });
    if (end.exit_code == kMayNotMount) GTEST_SKIP() << "needs the right to mount, and mkfs.ext4";
    EXPECT_TRUE(end.succeeded()) << "exit code " << end.exit_code << ", signal " << end.signal;
  }
};

TEST_P(FullDeviceCaseTest, QuerySeesOneSnapshotOfWhatHasNoBlockAndTheRest) {
  run_on_device(read_around_a_commit);
}
TEST_P(FullDeviceCaseTest, QueryReadsBesideWhatHasNoBlock) {
  run_on_device(read_beside_what_has_no_block);
}
TEST_P(FullDeviceCaseTest, QueryIsSeenToStoreToWhatHasNoBlock) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "ThreadSanitizer leaves a program no room for 33 domains, of 350 GiB of addresses each";
#endif
  run_on_device(write_to_what_has_no_block);
}
TEST_P(FullDeviceCaseTest, AnUpdateBesideASnapshotIsToldThatTheDiskIsFull) {
  run_on_device(update_beside_a_snapshot);
}
TEST_P(FullDeviceCaseTest, RetryWakesForWhatHadNoBlock) {
  for (const Levels levels : {Levels::kHybrid, Levels::kPage})
    run_on_device([levels](const std::string &folder) { retry_what_has_no_block(folder, levels); });
}
TEST_P(FullDeviceCaseTest, AnUpdateThatGoesUpForABlockIsCountedSo) {
  run_on_device(go_up_for_a_block);
}
TEST_P(FullDeviceCaseTest, RingOfCommitsGrowsAsFarAsThereIsRoom) { run_on_device(fill_the_ring); }
TEST_P(FullDeviceCaseTest, LockIsInheritedFromTheDead) { run_on_device(inherit_on_a_full_disk); }

std::string device_name(const testing::TestParamInfo<Device> &info) {
  return info.param == Device::kTmpfs ? "Tmpfs" : "Ext4";
}

INSTANTIATE_TEST_SUITE_P(Devices, FullDeviceCaseTest,
                         testing::Values(Device::kTmpfs, Device::kExt4), device_name);

std::string name_of(const testing::TestParamInfo<FullDeviceTest::ParamType> &info) {
  const auto &[device, way, durability] = info.param;
  return std::string(device == Device::kTmpfs ? "Tmpfs" : "Ext4") + way.name +
         to_string(durability);
}

INSTANTIATE_TEST_SUITE_P(Devices, FullDeviceTest,
                         testing::Combine(testing::Values(Device::kTmpfs, Device::kExt4),
                                          testing::ValuesIn(kWays),
                                          testing::Values(tmh::Durability::kNone,
                                                          tmh::Durability::kBuffered,
                                                          tmh::Durability::kStrict)),
                         name_of);

}  // namespace
}  // namespace tmh::test
