// tests/api/bad_input_test.cpp -- whatever is wrong gets its own code and a sentence that names it;
// nothing crashes, nothing is changed.
// Invariants: every Errc of include/tmh/error.hpp that the C++ interface can return is returned
//             here by a call that deserves it (1, 2 and 26 belong to the C interface:
//             libxac_test.cpp). After a refusal the domain still works.
// Root:       wrong owner and wrong permission need a second user; without root those tests are
//             skipped and say so.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "storage/control.h"
#include "storage/participants.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using storage::ControlFile;
using storage::ControlHeaderV1;

class BadInputTest : public testing::Test {
 protected:
  BadInputTest() {
    for (const char *name : {"TMH_POLICY", "TMH_TRACKING", "TMH_DETECTION", "TMH_CRASH_AT"})
      unsetenv(name);
  }

  static DomainOptions plain() {
    DomainOptions options;
    options.tracking = Tracking::kSignalHot;  // permitted everywhere
    return options;
  }
  [[nodiscard]] Domain open() const { return Domain::open(folder_.path(), plain()); }
  [[nodiscard]] std::string control() const { return folder_ / "tmh.control"; }

  // A domain with one raw segment of 8 pages, closed properly.
  void make_domain() const {
    Actor self(folder_.path(), plain());
    self.commit(0, 1);
    self.domain.close();
  }
  // A refused domain must also be refused by the overload that does not throw, and left as it is.
  void expect_refused(Errc code, const std::string &part = "") const {
    const std::string before = read_file(control());
    expect_error(
        code, [&] { static_cast<void>(open()); }, part);
    std::error_code ec;
    EXPECT_FALSE(Domain::open(folder_.path(), plain(), ec));
    EXPECT_EQ(ec, make_error_code(code));
    EXPECT_TRUE(read_file(control()) == before) << "a refused control file was changed";
  }
  void patch_control(std::size_t offset, std::uint64_t value, std::size_t bytes,
                     bool seal_again) const {
    std::string file = read_file(control());
    file.replace(offset, bytes, std::string(reinterpret_cast<const char *>(&value), bytes));
    if (seal_again) {
      const std::uint32_t sum =
          storage::control_checksum(file.data(), offsetof(ControlHeaderV1, checksum));
      file.replace(offsetof(ControlHeaderV1, checksum), sizeof sum,
                   std::string(reinterpret_cast<const char *>(&sum), sizeof sum));
    }
    write_file(control(), file);
  }

  TempFolder folder_;
};

// --- the control file
// -------------------------------------------------------------------------------------------------

TEST_F(BadInputTest, ForeignFileIsNotADomain) {
  write_file(control(), std::string(storage::kControlBytes, 'x'));
  expect_refused(Errc::kNotADomain, "tmh.control");
}

TEST_F(BadInputTest, WrongMagicIsNotADomain) {
  make_domain();
  patch_control(offsetof(ControlHeaderV1, magic), 0, 1, true);
  expect_refused(Errc::kNotADomain, "tmh.control");
}

TEST_F(BadInputTest, ShortControlFileOfAnyLengthIsShort) {
  make_domain();
  const std::string whole = read_file(control());
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{63},
                                  std::size_t{4095}, std::size_t{4096}, whole.size() - 1}) {
    write_file(control(), whole.substr(0, bytes));
    expect_refused(Errc::kShortFile, "tmh.control");
  }
}

TEST_F(BadInputTest, ForeignVersionIsRefused) {
  make_domain();
  for (const std::uint32_t version : {storage::kControlVersion - 1, storage::kControlVersion + 1}) {
    patch_control(offsetof(ControlHeaderV1, format_version), version, 4, true);
    expect_refused(Errc::kForeignVersion, "format_version");
  }
}

TEST_F(BadInputTest, ForeignPageSizeIsRefused) {
  make_domain();
  patch_control(offsetof(ControlHeaderV1, page_bytes), 16384, 4, true);
  expect_refused(Errc::kForeignVersion, "page_bytes");
}

TEST_F(BadInputTest, UnknownFeatureIsRefused) {
  make_domain();
  patch_control(offsetof(ControlHeaderV1, features_incompat), 1, 4, true);
  expect_refused(Errc::kUnsupportedFeature, "features_incompat");
}

TEST_F(BadInputTest, DurableDomainIsRefusedByThisVersion) {
  make_domain();
  patch_control(offsetof(ControlHeaderV1, durability), 1, 4, true);
  expect_refused(Errc::kUnsupportedFeature, "durability");
}

TEST_F(BadInputTest, DamagedHeaderIsCorrupt) {
  make_domain();
  const auto old = static_cast<unsigned char>(
      read_file(control())[offsetof(ControlHeaderV1, domain_id)]);  // random
  patch_control(offsetof(ControlHeaderV1, domain_id), old ^ 0x55u, 1, false);
  expect_refused(Errc::kCorrupt, "checksum");
}

TEST_F(BadInputTest, DamagedSegmentTableIsCorrupt) {
  make_domain();
  patch_control(sizeof(ControlHeaderV1) + offsetof(storage::SegmentRecordV1, address), 0x1000, 8,
                false);
  expect_refused(Errc::kCorrupt, "segment 0 (first.raw): checksum");
}

TEST_F(BadInputTest, ReservedBytesMustBeZero) {
  make_domain();
  patch_control(offsetof(ControlHeaderV1, reserved_zero) + 100, 1, 1, false);
  expect_refused(Errc::kCorrupt, "reserved");
}

// Flips one to four random bytes, often in the parts that are not checksummed, and sometimes cuts
// the file.
TEST_F(BadInputTest, DamagedControlFilesAreRefusedOrHarmless) {
  make_domain();
  const std::string whole = read_file(control());
  std::mt19937_64 random(seed());
  constexpr int kTrials = 150;  // each opens a domain
  int refused = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::string damaged = whole;
    for (std::uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      const std::size_t used = sizeof(ControlHeaderV1) + 3 * sizeof(storage::SegmentRecordV1);
      damaged[random() % used] = static_cast<char>(random());
    }
    if (random() % 8 == 0) damaged.resize(random() % damaged.size());
    write_file(control(), damaged);
    const ChildEnd end = run_in_child("opener", [&] {
      std::error_code ec;
      Domain domain = Domain::open(folder_.path(), plain(), ec);
      if (!domain) _exit(ec.category() == category() ? 10 : 11);
      const Segment segment = domain.map("first.raw", raw_segment(), ec);
      if (segment) {
        query(domain, [&] { return load(segment.data()[0]); });
      } else if (ec.category() != category()) {
        _exit(11);
      }
    });
    ASSERT_TRUE(end.succeeded() || end.exit_code == 10)
        << "trial " << trial << " of seed " << seed() << ": exit code " << end.exit_code
        << ", signal " << end.signal;
    refused += end.exit_code == 10 ? 1 : 0;
  }
  EXPECT_GT(refused, kTrials / 10) << "the damage was too light to say anything";
}

TEST_F(BadInputTest, VerifyRefusesEveryFlippedByteOfTheCheckedParts) {
  make_domain();
  const std::string whole = read_file(control());
  std::string why;
  ASSERT_EQ(storage::verify_control(whole.data(), whole.size(), &why), Errc::kOk) << why;
  const auto refuses_flip_at = [&](std::size_t offset) {
    std::string damaged = whole;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 0x10);
    return storage::verify_control(damaged.data(), damaged.size(), &why) != Errc::kOk;
  };
  for (std::size_t offset = 0; offset < offsetof(ControlHeaderV1, detection); ++offset) {
    EXPECT_TRUE(refuses_flip_at(offset)) << "header byte " << offset;
  }
  for (std::size_t offset = 0; offset < offsetof(storage::SegmentRecordV1, size_bytes); ++offset) {
    EXPECT_TRUE(refuses_flip_at(sizeof(ControlHeaderV1) + offset))
        << "byte " << offset << " of the first segment's record";
  }
}

// --- folders, owners, permissions
// ------------------------------------------------------------------------------------------------

constexpr uid_t kNobody = 65534;

// Runs body as another user than the one who made the files.
void as_nobody(const std::function<void()> &body) {
  expect_child("nobody", [&] {
    ASSERT_EQ(setgid(kNobody), 0);
    ASSERT_EQ(setuid(kNobody), 0);
    ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1), 0);  // as in a process that was this user's from the start
    body();
  });
}

TEST_F(BadInputTest, FolderWithoutAccessIsAPermissionError) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  make_domain();
  ASSERT_EQ(chmod(folder_.path().c_str(), 0700), 0);
  as_nobody([&] {
    expect_error(
        Errc::kPermission, [&] { static_cast<void>(open()); }, folder_.path());
    expect_error(
        Errc::kPermission, [&] { static_cast<void>(recover(folder_.path())); }, "tmh.control");
  });
}

TEST_F(BadInputTest, DataFileWithoutAccessIsAPermissionError) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const std::string file = folder_ / "secret.raw";
  write_file(file, std::string(kPageBytes, 's'));
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  const std::string own = folder_ / "own";
  ASSERT_EQ(mkdir(own.c_str(), 0777), 0);
  ASSERT_EQ(chown(own.c_str(), kNobody, kNobody), 0);
  as_nobody([&] {
    const Domain domain = Domain::open(own, plain());
    expect_error(
        Errc::kPermission, [&] { static_cast<void>(domain.map(file, raw_segment(0))); },
        "secret.raw");
  });
}

TEST_F(BadInputTest, DomainOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  make_domain();
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  for (const char *name : {"tmh.control", "first.raw", "second.raw"})
    ASSERT_EQ(chmod((folder_ / name).c_str(), 0666), 0);
  as_nobody([&] {
    expect_error(
        Errc::kWrongOwner, [&] { static_cast<void>(open()); }, folder_.path());
  });
}

// Such a process may not read its own /proc/self files.
TEST_F(BadInputTest, DaemonThatDroppedPrivilegesCanUseADomain) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(chown(folder_.path().c_str(), kNobody, kNobody), 0);
  for (const Tracking tracking : {Tracking::kSignal, Tracking::kSignalHot, Tracking::kAuto}) {
    expect_child("daemon", [&] {
      ASSERT_EQ(setgid(kNobody), 0);
      ASSERT_EQ(setuid(kNobody), 0);
      DomainOptions options;
      options.tracking = tracking;
      const Actor self(folder_.path(), options);
      self.commit(1, 1);
      EXPECT_EQ(self.committed(1), 1U);
    });
  }
}

TEST_F(BadInputTest, EmptyFolderNameIsABadArgument) {
  expect_error(Errc::kBadArgument, [&] { static_cast<void>(Domain::open("", plain())); });
}

TEST_F(BadInputTest, FileInTheFoldersPlaceIsAnError) {
  write_file(folder_ / "file", "x");
  for (const std::string &path : {folder_ / "file", folder_ / "file/below"}) {
    std::error_code ec;
    EXPECT_FALSE(Domain::open(path, plain(), ec));
    EXPECT_EQ(ec, make_error_code(Errc::kIo)) << ec.message();
  }
}

TEST_F(BadInputTest, TooLongNamesAreRefused) {
  expect_error(Errc::kIo,
               [&] { static_cast<void>(Domain::open(folder_ / std::string(300, 'n'), plain())); });
  const Domain domain = open();
  expect_error(Errc::kBadArgument,
               [&] { static_cast<void>(domain.map(std::string(250, 'n'), raw_segment())); });
  expect_error(Errc::kBadArgument, [&] { static_cast<void>(domain.map("", raw_segment())); });
  const Segment heap = domain.map("heap.tmh");
  atomically(domain, [&] {
    expect_error(Errc::kBadArgument,
                 [&] { static_cast<void>(heap.root_cell(std::string(48, 'r'))); });
    expect_error(Errc::kBadArgument, [&] { static_cast<void>(heap.root_cell("")); });
    EXPECT_NE(heap.root_cell(std::string(47, 'r')), nullptr);
  });
}

TEST_F(BadInputTest, LongParticipantNameIsCutNotRefused) {
  DomainOptions options = plain();
  options.name = std::string(500, 'p');
  const Domain domain = Domain::open(folder_.path(), options);
  const std::string shown = domain.participants().front().name;
  EXPECT_FALSE(shown.empty());
  EXPECT_EQ(shown, options.name.substr(0, shown.size()));
}

// --- options and environment
// -------------------------------------------------------------------------------------------------

TEST_F(BadInputTest, WrongPolicyIsRefusedWithTheRightOnes) {
  DomainOptions options = plain();
  options.policies.conflict = "strongest-wins";
  expect_error(
      Errc::kBadPolicy, [&] { static_cast<void>(Domain::open(folder_.path(), options)); },
      "strongest-wins");
  expect_error(
      Errc::kBadPolicy, [&] { static_cast<void>(Domain::open(folder_.path(), options)); },
      policy_values());
  const Domain domain = open();
  expect_error(
      Errc::kBadPolicy, [&] { domain.set_policy("oldest-wins,backoff=never"); }, "backoff=never");
  EXPECT_EQ(domain.policy(), Policy{}) << "a refused policy left a trace";
  // A right word where it would decide nothing.
  options.policies.conflict = "self-abort,backoff=none";
  expect_error(
      Errc::kBadPolicy, [&] { static_cast<void>(Domain::open(folder_.path(), options)); },
      "'self-abort' decides nothing in a lazy domain of pages");
  options.policies.detection = Detection::kEager;
  options.tracking = Tracking::kSignal;
  const TempFolder eager;
  EXPECT_EQ(Domain::open(eager.path(), options).policy().conflict, ConflictPolicy::kSelfAbort);
}

struct EnvironmentCase {
  const char *variable;
  Errc code;
  const char *(*values)() noexcept;
};

TEST_F(BadInputTest, WrongEnvironmentIsRefusedWithTheRightValues) {
  const EnvironmentCase cases[] = {{"TMH_POLICY", Errc::kBadPolicy, policy_values},
                                   {"TMH_ISOLATION", Errc::kBadPolicy, isolation_values},
                                   {"TMH_PAGE_CACHE", Errc::kBadPolicy, page_cache_values},
                                   {"TMH_TRACKING", Errc::kBadTracking, tracking_values},
                                   {"TMH_DETECTION", Errc::kBadDetection, detection_values}};
  for (const EnvironmentCase &wrong : cases) {
    setenv(wrong.variable, "nonsense", 1);
    const auto open_plainly = [&] { static_cast<void>(Domain::open(folder_.path())); };
    expect_error(wrong.code, open_plainly, wrong.variable);
    expect_error(wrong.code, open_plainly, "nonsense");
    expect_error(wrong.code, open_plainly, wrong.values());
    unsetenv(wrong.variable);
  }
}

TEST_F(BadInputTest, EnvironmentFillsOnlyWhatOptionsLeaveOpen) {
  setenv("TMH_TRACKING", "signal", 1);
  setenv("TMH_POLICY", "youngest-wins", 1);
  {
    const Domain domain = Domain::open(folder_.path());
    EXPECT_EQ(domain.tracking().tracking, Tracking::kSignal);
    EXPECT_EQ(domain.policy().conflict, ConflictPolicy::kYoungestWins);
  }
  DomainOptions options = plain();
  options.policies.conflict = "fresh-age";
  const Domain domain = Domain::open(folder_.path(), options);
  EXPECT_EQ(domain.tracking().tracking, Tracking::kSignalHot);
  EXPECT_FALSE(domain.policy().keep_age);
  EXPECT_EQ(domain.policy().conflict, ConflictPolicy::kOldestWins);
  unsetenv("TMH_TRACKING");
  unsetenv("TMH_POLICY");
}

TEST_F(BadInputTest, TrackingThatEagerDetectionCannotUseIsRefused) {
  for (const Tracking tracking : {Tracking::kSignalHot, Tracking::kKernel, Tracking::kKernelHot}) {
    DomainOptions options;
    options.policies.detection = Detection::kEager;
    options.tracking = tracking;
    expect_error(
        Errc::kBadTracking, [&] { static_cast<void>(Domain::open(folder_.path(), options)); },
        to_string(tracking));
  }
}

TEST_F(BadInputTest, OtherDetectionThanTheParticipantsIsAMismatch) {
  const Domain lazy = open();
  DomainOptions options;
  options.policies.detection = Detection::kEager;
  expect_child("eager", [&] {
    expect_error(
        Errc::kDetectionMismatch, [&] { static_cast<void>(Domain::open(folder_.path(), options)); },
        "lazy");
  });
  Domain closing = lazy;
  closing.close();
  expect_child("eager, alone", [&] {
    EXPECT_EQ(Domain::open(folder_.path(), options).detection(), Detection::kEager);
  });
}

// --- segments
// -------------------------------------------------------------------------------------------------

TEST_F(BadInputTest, MisalignedLengthsAreRefused) {
  const Domain domain = open();
  SegmentOptions size = raw_segment(100), offset = raw_segment(), reserve = raw_segment();
  offset.offset_bytes = 512;
  reserve.max_bytes = 1'000'000;
  for (const SegmentOptions &options : {size, offset, reserve}) {
    expect_error(Errc::kMisalignedLength, [&] { static_cast<void>(domain.map("a.raw", options)); });
  }
  const Segment segment = domain.map("a.raw", raw_segment());
  expect_error(Errc::kMisalignedLength, [&] { segment.grow(segment.size_bytes() + 1); });
}

TEST_F(BadInputTest, SizesBeyondTheLimitsAreRefused) {
  const Domain domain = open();
  SegmentOptions too_big = raw_segment(kPageBytes), upside_down = raw_segment(8 * kPageBytes);
  too_big.max_bytes = (std::uint64_t{1} << 40) + kPageBytes;
  upside_down.max_bytes = 4 * kPageBytes;
  expect_error(Errc::kBadArgument, [&] { static_cast<void>(domain.map("a.raw", too_big)); });
  expect_error(Errc::kBadArgument, [&] { static_cast<void>(domain.map("a.raw", upside_down)); });
  SegmentOptions small = raw_segment(kPageBytes);
  small.max_bytes = 2 * kPageBytes;
  const Segment segment = domain.map("a.raw", small);
  expect_error(Errc::kSegmentFull, [&] { segment.grow(3 * kPageBytes); });
  segment.grow(2 * kPageBytes);
  std::error_code ec;
  EXPECT_EQ(segment.grow(3 * kPageBytes, ec), make_error_code(Errc::kSegmentFull));
}

TEST_F(BadInputTest, UnknownLayoutIsABadArgument) {
  const Domain domain = open();
  SegmentOptions options = raw_segment();
  options.layout = static_cast<Layout>(9);
  expect_error(Errc::kBadArgument, [&] { static_cast<void>(domain.map("a.raw", options)); });
}

TEST_F(BadInputTest, MappingTwiceIsInUse) {
  const Domain domain = open();
  const Segment segment = domain.map("a.raw", raw_segment());
  expect_error(
      Errc::kSegmentInUse, [&] { static_cast<void>(domain.map("a.raw", raw_segment())); }, "a.raw");
  EXPECT_EQ(query(domain, [&] { return load(segment.data()[0]); }), std::byte{0});
}

TEST_F(BadInputTest, OverlapInOneFileIsRefused) {
  const Domain domain = open();
  SegmentOptions first = raw_segment(8 * kPageBytes), second = raw_segment(8 * kPageBytes);
  first.max_bytes = 8 * kPageBytes;
  second.max_bytes = 8 * kPageBytes;
  second.offset_bytes = 4 * kPageBytes;
  const Segment kept = domain.map("a.raw", first);
  expect_error(
      Errc::kSegmentOverlap, [&] { static_cast<void>(domain.map("a.raw", second)); }, "a.raw");
  second.offset_bytes = 8 * kPageBytes;
  EXPECT_TRUE(domain.map("a.raw", second)) << "side by side is no overlap";
}

TEST_F(BadInputTest, AnotherPathToASegmentsFileIsAnOverlap) {
  const Domain domain = open();
  SegmentOptions options = raw_segment(8 * kPageBytes);
  const Segment kept = domain.map("a.raw", options);
  const std::string file = domain.folder() + "/a.raw";
  std::filesystem::create_hard_link(file, domain.folder() + "/hard.raw");
  std::filesystem::create_symlink("a.raw", domain.folder() + "/soft.raw");
  const std::string detour =
      "../" + std::filesystem::path(domain.folder()).filename().string() + "/a.raw";
  for (const std::string &path : {file, detour, std::string("hard.raw"), std::string("soft.raw")})
    expect_error(
        Errc::kSegmentOverlap, [&] { static_cast<void>(domain.map(path, options)); }, path);
  options.offset_bytes = 8 * kPageBytes;
  EXPECT_TRUE(domain.map(file, options)) << "side by side is no overlap";
}

// By whichever of the two names it is known: growing asks by the segment's own, and the other's
// record lies behind.
TEST_F(BadInputTest, ASegmentDoesNotGrowIntoAnotherThatIsTheSameFileByAnotherPath) {
  struct Alias {
    std::string path;
    std::function<void(const std::string &folder)> make;
  };
  const Alias aliases[] = {
      {"hard.raw",
       [](auto &folder) {
         std::filesystem::create_hard_link(folder + "/a.raw", folder + "/hard.raw");
       }},
      {"soft.raw",
       [](auto &folder) { std::filesystem::create_symlink("a.raw", folder + "/soft.raw"); }},
  };
  for (const Alias &alias : aliases) {
    for (const bool is_alias_in_front : {true, false}) {
      const std::string folder =
          folder_.path() + '/' + alias.path + (is_alias_in_front ? "-first" : "-second");
      const Domain domain = Domain::open(folder);
      std::ofstream(folder + "/a.raw") << std::string(kPageBytes, 'x');
      alias.make(folder);
      const std::string front_path = is_alias_in_front ? alias.path : "a.raw";
      const std::string behind_path = is_alias_in_front ? "a.raw" : alias.path;
      SegmentOptions options = raw_segment(2 * kPageBytes);
      options.max_bytes = 16 * kPageBytes;
      const Segment front = domain.map(front_path, options);
      options.offset_bytes = 4 * kPageBytes;
      const Segment behind = domain.map(behind_path, options);
      EXPECT_NO_THROW(front.grow(4 * kPageBytes)) << "side by side is no overlap";
      atomically(domain, [&] { store(behind.data()[0], std::byte{7}); });
      expect_error(
          Errc::kSegmentOverlap, [&] { front.grow(5 * kPageBytes); }, behind_path);
      EXPECT_EQ(front.size_bytes(), 4 * kPageBytes);
      options.offset_bytes = 0;
      options.size_bytes = 5 * kPageBytes;
      domain.unmap(front);
      expect_error(
          Errc::kSegmentOverlap, [&] { static_cast<void>(domain.map(front_path, options)); },
          behind_path);
      EXPECT_NO_THROW(behind.grow(16 * kPageBytes)) << "nothing lies behind";
      EXPECT_EQ(query(domain, [&] { return load(behind.data()[0]); }), std::byte{7});
    }
  }
}

TEST_F(BadInputTest, TheDomainsOwnFilesAreNoSegmentsByAnyPath) {
  const Domain domain = open();
  std::filesystem::create_symlink("tmh.state", domain.folder() + "/soft.raw");
  const std::string detour =
      "../" + std::filesystem::path(domain.folder()).filename().string() + "/tmh.new";
  for (const std::string &path :
       {domain.folder() + "/tmh.control", detour, std::string("soft.raw")})
    expect_error(
        Errc::kBadArgument, [&] { static_cast<void>(domain.map(path, raw_segment())); },
        "belong to the domain");
}

TEST_F(BadInputTest, AHardLinkToAnyOfTheDomainsOwnFilesIsNoSegment) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.durability = Durability::kBuffered;
  const Domain domain = Domain::open(folder_.path() + "/domain", options);
  (void)domain.map("a.raw", raw_segment());
  std::vector<std::string> own;
  for (const auto &entry : std::filesystem::directory_iterator(domain.folder()))
    if (entry.path().filename().string().starts_with("tmh."))
      own.push_back(entry.path().filename().string());
  EXPECT_GT(own.size(), 10U);
  const std::string elsewhere = folder_.path() + "/elsewhere.raw";
  for (const std::string &file : own) {
    // The lock is opened anew each time, and refused for its second name before anybody looks at
    // the segment's.
    const bool is_lock = file == "tmh.lock";
    const Errc code = is_lock ? Errc::kForeignFile : Errc::kBadArgument;
    for (const std::string &link : {domain.folder() + "/hard.raw", elsewhere}) {
      std::filesystem::create_hard_link(domain.folder() + '/' + file, link);
      for (const std::string &path :
           {link, "../domain/../" + link.substr(folder_.path().size() + 1)})
        expect_error(
            code, [&] { static_cast<void>(domain.map(path, raw_segment())); },
            is_lock ? "has 2 names" : "belong to the domain");
      std::filesystem::remove(link);
    }
  }
  std::filesystem::copy_file(domain.folder() + "/tmh.lock", folder_.path() + "/copy.raw");
  EXPECT_TRUE(domain.map(folder_.path() + "/copy.raw", raw_segment())) << "a copy is another file";
}

TEST_F(BadInputTest, NamesWithAByteZeroAreRefused) {
  const std::string name("a\0b", 3);
  expect_error(
      Errc::kBadArgument, [&] { static_cast<void>(Domain::open(folder_.path() + "/" + name)); },
      "byte 0");
  const Domain domain = open();
  expect_error(
      Errc::kBadArgument, [&] { static_cast<void>(domain.map(name, raw_segment())); }, "byte 0");
}

TEST_F(BadInputTest, ARefusedOpenOfANewFolderLeavesNoDomain) {
  DomainOptions wrong;
  wrong.levels = Levels::kHybrid;
  wrong.policies.detection = Detection::kEager;
  const std::string folder = folder_.path() + "/new";
  expect_error(
      Errc::kLevelsMismatch, [&] { static_cast<void>(Domain::open(folder, wrong)); }, "lazy");
  EXPECT_FALSE(std::filesystem::exists(folder + "/tmh.control"));
  DomainOptions strict;
  strict.durability = Durability::kStrict;
  const Domain domain = Domain::open(folder, strict);
  EXPECT_EQ(domain.durability(), Durability::kStrict);
  expect_error(
      Errc::kBadArgument, [&] { static_cast<void>(domain.archive(folder + "/tmh.control")); },
      "is no folder");
}

TEST_F(BadInputTest, OtherShapeThanTheSegmentHasIsAMismatch) {
  make_domain();
  const Domain domain = open();
  SegmentOptions heap = raw_segment(), reserve = raw_segment(), anywhere = raw_segment();
  heap.layout = Layout::kHeap;
  reserve.max_bytes = kStagePages * kPageBytes;
  anywhere.relocatable = true;
  for (const SegmentOptions &options : {heap, reserve, anywhere}) {
    expect_error(
        Errc::kSegmentMismatch, [&] { static_cast<void>(domain.map("first.raw", options)); },
        "first.raw");
  }
  EXPECT_TRUE(domain.map("first.raw", raw_segment()));
}

TEST_F(BadInputTest, DataFileThatShrankIsRefused) {
  make_domain();
  ASSERT_EQ(truncate((folder_ / "first.raw").c_str(), 3 * kPageBytes), 0);
  std::error_code ec;
  const Domain domain = Domain::open(folder_.path(), plain(), ec);
  if (domain) static_cast<void>(domain.map("first.raw", raw_segment(), ec));
  EXPECT_EQ(ec, make_error_code(Errc::kFileShrunk)) << ec.message();
}

TEST_F(BadInputTest, DirectoryInTheDataFilesPlaceIsRefused) {
  ASSERT_EQ(mkdir((folder_ / "a.raw").c_str(), 0777), 0);
  const Domain domain = open();
  std::error_code ec;
  EXPECT_FALSE(domain.map("a.raw", raw_segment(), ec));
  EXPECT_TRUE(ec == make_error_code(Errc::kBadArgument) || ec == make_error_code(Errc::kIo))
      << ec.message();
}

TEST_F(BadInputTest, AddressRangeTakenInThisProcessIsInUse) {
  make_domain();
  std::byte *address = nullptr;
  Shared<std::uintptr_t> told;
  expect_child("first", [&] {
    *told = reinterpret_cast<std::uintptr_t>(Actor(folder_.path(), plain()).first.data());
  });
  address = reinterpret_cast<std::byte *>(*told);
  void *squatter = mmap(address + 5 * kPageBytes, kPageBytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(squatter, address + 5 * kPageBytes);
  const Domain domain = open();
  expect_error(
      Errc::kAddressInUse, [&] { static_cast<void>(domain.map("first.raw", raw_segment())); },
      "first.raw");
  ASSERT_EQ(munmap(squatter, kPageBytes), 0);
  EXPECT_EQ(domain.map("first.raw", raw_segment()).data(), address) << "once the range is free";
}

TEST_F(BadInputTest, UnmappingWhatIsNotMapped) {
  const Domain domain = open();
  std::error_code ec;
  EXPECT_EQ(domain.unmap("nothing.raw", ec), make_error_code(Errc::kNotMapped));
  const Segment segment = domain.map("a.raw", raw_segment());
  domain.unmap(segment);
  expect_error(Errc::kNotMapped, [&] { domain.unmap(segment); });
}

TEST_F(BadInputTest, SegmentTableFull) {
  const Domain domain = open();
  SegmentOptions tiny = raw_segment(kPageBytes);
  tiny.max_bytes = kPageBytes;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    ASSERT_TRUE(domain.map("s" + std::to_string(i), tiny));
  }
  expect_error(Errc::kTooManySegments, [&] { static_cast<void>(domain.map("one-more", tiny)); });
}

// Every record says that it belongs to this test's process, which is alive.
TEST_F(BadInputTest, ParticipantTableFull) {
  expect_child("owner", [&] {
    const Domain domain = open();
    const int fd = ::open((folder_ / "tmh.participants").c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    constexpr std::size_t kBytes = sizeof(storage::Participant) * storage::kParticipantsMax;
    ASSERT_EQ(ftruncate(fd, kBytes), 0);
    void *at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(at, MAP_FAILED);
    auto *table = static_cast<storage::Participant *>(at);
    for (std::uint32_t i = 1; i < storage::kParticipantsMax; ++i) {
      table[i].pid = table[0].pid;
      table[i].start_time = table[0].start_time;
      table[i].pin.store(storage::kNoPin);
      table[i].state.store(1);
    }
    expect_child("one more", [&] {
      expect_error(Errc::kTooManyParticipants, [&] { static_cast<void>(open()); });
    });
  });
}

}  // namespace
}  // namespace tmh::test
