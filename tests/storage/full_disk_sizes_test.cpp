// tests/storage/full_disk_sizes_test.cpp -- instances of every size, from one page to ten times the
// room that there is, on tmpfs and ext4; in all ways of tracking, durabilities and levels. While
// they run the kernel drops what it may drop, and others take the blocks.
// Invariants: (1) never a signal: such an instance commits or ends with kDiskFull, (2) it has done
//             all or nothing, which queries see on the full disk, (3) with room again the same
//             domain goes on, and it closes and opens.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/modes.h"
#include "tests/support/small_device.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using Word = field<std::uint64_t>;
constexpr std::uint64_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);

// What the instances are: plain ones of level 2, or of a site that begins at level 1.
enum class Body { kPlain, kFields };
struct Filling {
  Mode mode;
  Body body = Body::kPlain;
};
const Filling kFillings[] = {
    {{"PagesSignal", Detection::kLazy, Tracking::kSignal}},
    {{"PagesSignalHot", Detection::kLazy, Tracking::kSignalHot}},
    {{"PagesKernel", Detection::kLazy, Tracking::kKernel}},
    {{"PagesKernelHot", Detection::kLazy, Tracking::kKernelHot}},
    {{"HybridSignal", Detection::kLazy, Tracking::kSignal, Levels::kHybrid}},
    {{"HybridSignalHot", Detection::kLazy, Tracking::kSignalHot, Levels::kHybrid}},
    {{"HybridKernel", Detection::kLazy, Tracking::kKernel, Levels::kHybrid}},
    {{"HybridKernelHot", Detection::kLazy, Tracking::kKernelHot, Levels::kHybrid}},
    {{"FieldsSignalHot", Detection::kLazy, Tracking::kSignalHot, Levels::kHybrid}, Body::kFields},
    {{"FieldsKernelHot", Detection::kLazy, Tracking::kKernelHot, Levels::kHybrid}, Body::kFields},
};

struct Size {
  std::uint64_t pages;
  std::uint64_t stride;  // every so many pages
  bool fits;
};
// A domain has 2 to 5 MiB of the room, the ballast 1.
constexpr std::uint64_t room_mib(Device device) { return device == Device::kTmpfs ? 8 : 32; }
constexpr std::uint64_t kBallastBytes = 1u << 20;

class Play {
 public:
  Play(const std::string &device, const DomainOptions &options, Body body, const Size &size)
      : ballast_(device + "/ballast"),
        folder_(device + "/domain"),
        options_(options),
        body_(body),
        size_(size) {
    raw_.layout = Layout::kRaw;
    raw_.size_bytes = (1 + size.pages * size.stride) * kPageBytes;
    const int fd = open(ballast_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    EXPECT_EQ(posix_fallocate(fd, 0, kBallastBytes), 0);
    close(fd);
  }

  void run() {
    open_domain();
    ASSERT_EQ(update([&] { tally() = 7; }), Errc::kOk);
    const Errc error = update([&] {
      for (std::uint64_t i = 0; i < size_.pages; ++i) {
        if (i == size_.pages * 3 / 4) drop();
        word(i) = 1;
      }
    });
    EXPECT_EQ(error, size_.fits ? Errc::kOk : Errc::kDiskFull) << message(error);
    if (error == Errc::kOk) value_ = 1;
    expect_right("after it");
    const Errc small = update([&] { word(0) = value_; });
    EXPECT_TRUE(small == Errc::kOk || small == Errc::kDiskFull) << message(small);
    ASSERT_EQ(unlink(ballast_.c_str()), 0);
    ASSERT_EQ(update([&] { tally() = 8; }), Errc::kOk) << "with room again";
    tally_ = 8;
    expect_right("with room again");
    close_domain();
    open_domain();
    expect_right("opened again");
    ASSERT_EQ(update([&] { word(0) = value_; }), Errc::kOk) << "opened again";
    close_domain();
  }

 private:
  template <class Stores>
  Errc update(const Stores &stores) {
    return code_of([&] {
      if (body_ == Body::kFields)
        atomically(*site_, [&](Fields) { stores(); });
      else
        atomically(domain_, stores);
    });
  }
  void expect_right(const char *when) {
    std::uint64_t sum = 0, tally_seen = 0;
    EXPECT_EQ(code_of([&] {
                query(domain_, [&] {
                  sum = 0;
                  tally_seen = tally();
                  for (std::uint64_t i = 0; i < size_.pages; ++i) {
                    if (i == size_.pages / 2) drop();
                    sum += word(i);
                  }
                });
              }),
              Errc::kOk)
        << when;
    EXPECT_EQ(tally_seen, tally_) << when;
    EXPECT_EQ(sum, value_ * size_.pages) << when;
  }
  // Plain code that touches no segment.
  void drop() {
    const bool is_separate =
        options_.levels == Levels::kHybrid && options_.durability != Durability::kNone;
    (void)drop_unstored_pages(folder_ + (is_separate ? "/tmh.home.0" : "/sizes.raw"));
  }
  void open_domain() {
    domain_ = Domain::open(folder_, options_);
    segment_ = domain_.map("sizes.raw", raw_);
    if (options_.levels == Levels::kHybrid) site_ = std::make_unique<Site>(domain_, "sizes");
  }
  void close_domain() {
    site_.reset();
    domain_.close();
  }
  [[nodiscard]] Word &tally() { return reinterpret_cast<Word *>(segment_.data())[0]; }
  [[nodiscard]] Word &word(std::uint64_t i) {
    return reinterpret_cast<Word *>(segment_.data())[(1 + i * size_.stride) * kWordsPerPage];
  }

  const std::string ballast_, folder_;
  const DomainOptions options_;
  const Body body_;
  const Size size_;
  SegmentOptions raw_;
  Domain domain_;
  Segment segment_;
  std::unique_ptr<Site> site_;
  std::uint64_t tally_ = 7, value_ = 0;
};

class FullDiskSizesTest : public testing::TestWithParam<std::tuple<Filling, Device, Durability>> {
 protected:
  void SetUp() override {
    const Mode &mode = std::get<0>(GetParam()).mode;
    if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  }
  // A child on a device of its own.
  template <class Work>
  void run_on_device(const std::string &when, const Work &work) {
    const MemoryFolder folder;
    const std::string place = folder / "device", image = folder / "image";
    ASSERT_EQ(mkdir(place.c_str(), 0777), 0);
    const auto device = std::get<1>(GetParam());
    const ChildEnd end = run_in_child(when, [&] {
      if (!mount_device(device, room_mib(device), image, place)) _exit(kMayNotMount);
      work(place);
    });
    if (end.exit_code == kMayNotMount) GTEST_SKIP() << "needs the right to mount, and mkfs.ext4";
    EXPECT_TRUE(end.succeeded()) << when << ", exit code " << end.exit_code << ", signal "
                                 << end.signal;
  }
  [[nodiscard]] static DomainOptions options() {
    DomainOptions options;
    options.levels = std::get<0>(GetParam()).mode.levels;
    options.line = LineChoice::kSoftware;
    options.tracking = std::get<0>(GetParam()).mode.tracking;
    options.durability = std::get<2>(GetParam());
    options.log_file_bytes = 1 << 20;
    return options;
  }
};

TEST_P(FullDiskSizesTest, InstanceCommitsOrFindsTheDiskFull) {
  const Body body = std::get<0>(GetParam()).body;
  const std::uint64_t room = (room_mib(std::get<1>(GetParam())) << 20) / kPageBytes;
  const Size sizes[] = {{1, 1, true},         {40, 1, true},    {room * 3 / 4, 1, false},
                        {room / 2, 3, false}, {room, 1, false}, {10 * room, 1, false}};
  for (const Size &size : sizes) {
    // What ext4 keeps for its own use differs; and only on tmpfs what is skipped is taken, too.
    if (size.pages < room && !size.fits && std::get<1>(GetParam()) == Device::kExt4) continue;
    run_on_device(std::to_string(size.pages) + " pages, every " + std::to_string(size.stride),
                  [&](const std::string &place) { Play(place, options(), body, size).run(); });
    if (HasFailure() || IsSkipped()) return;
  }
}

// A block of the heap, stored to by memset(), as programs do.
TEST_P(FullDiskSizesTest, AllocatedBlockFindsTheDiskFull) {
  run_on_device("memset", [&](const std::string &place) {
    const Domain domain = Domain::open(place + "/domain", options());
    Segment segment = domain.map("heap");
    const std::uint64_t bytes = room_mib(std::get<1>(GetParam())) << 21;
    segment.grow(bytes + (2u << 20));
    EXPECT_EQ(code_of([&] {
                atomically(domain, [&] { std::memset(segment.allocate(bytes), 1, bytes); });
              }),
              Errc::kDiskFull);
  });
}

using ScatteredSizesTest = FullDiskSizesTest;

// More isolated pages without a block than the process has areas for.
TEST_P(ScatteredSizesTest, InstanceFindsTheDiskFull) {
  const Body body = std::get<0>(GetParam()).body;
  run_on_device("scattered", [&](const std::string &place) {
    Play(place, options(), body, {36'000, 2, false}).run();
  });
}

std::string name_of(const testing::TestParamInfo<FullDiskSizesTest::ParamType> &info) {
  const auto &[way, device, durability] = info.param;
  return std::string(way.mode.name) + (device == Device::kTmpfs ? "Tmpfs" : "Ext4") +
         to_string(durability);
}

INSTANTIATE_TEST_SUITE_P(All, FullDiskSizesTest,
                         testing::Combine(testing::ValuesIn(kFillings),
                                          testing::Values(Device::kTmpfs, Device::kExt4),
                                          testing::Values(Durability::kNone, Durability::kBuffered,
                                                          Durability::kStrict)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, ScatteredSizesTest,
                         testing::Combine(testing::ValuesIn(kFillings),
                                          testing::Values(Device::kTmpfs),
                                          testing::Values(Durability::kNone)),
                         name_of);

}  // namespace
}  // namespace tmh::test
