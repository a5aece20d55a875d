// tests/api/bad_calls_test.cpp -- calls at the wrong time or with wrong arguments, and an
// environment that refuses: an Errc each.
// Invariants: a refused call changes nothing; the domain works afterwards.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/support/forbid.h"
#include "tests/support/sanitizers.h"
#include "tests/support/stage.h"
#include "tests/support/stray_allowed.h"

namespace tmh::test {
namespace {

class BadCallTest : public testing::Test {
 protected:
  static DomainOptions plain() {
    DomainOptions options;
    options.tracking = Tracking::kSignalHot;  // permitted everywhere
    return options;
  }
  [[nodiscard]] Actor actor() const { return {folder_.path(), plain()}; }
  MemoryFolder folder_;
};

TEST_F(BadCallTest, CallsThatNeedAnInstance) {
  const Actor self = actor();
  const Segment heap = self.domain.map("heap.tmh");
  expect_error(Errc::kEndWithoutBegin, [&] { static_cast<void>(self.domain.end()); });
  expect_error(Errc::kEndWithoutBegin, [&] { self.domain.end_query(); });
  expect_error(Errc::kEndWithoutBegin, [&] { self.domain.abort(); });
  expect_error(Errc::kEndWithoutBegin, [&] { static_cast<void>(self.domain.validate()); });
  expect_error(Errc::kEndWithoutBegin,
               [&] { self.domain.advise(self.first.data(), Access::kRead); });
  expect_error(Errc::kEndWithoutBegin, [&] { static_cast<void>(heap.allocate(8)); });
  expect_error(Errc::kEndWithoutBegin, [&] { static_cast<void>(heap.root_cell("r")); });
  self.commit(0, 1);
  EXPECT_EQ(self.committed(), 1U);
}

// What the refusal names is what helps.
TEST_F(BadCallTest, SegmentsOfTwoDomainsAtOneAddressAreRefusedUntilOneIsRelocatable) {
  const Actor self = actor();
  const MemoryFolder other_folder;
  const std::string remedy = "SegmentOptions::relocatable";
  Domain other = Domain::open(other_folder.path(), plain());
  for (const char *name : {"prices.db", "orders.db"}) {
    expect_error(
        Errc::kAddressInUse, [&] { static_cast<void>(other.map(name)); }, remedy);
    expect_error(
        Errc::kAddressInUse, [&] { static_cast<void>(other.map(name)); }, name);
  }
  SegmentOptions relocatable;
  relocatable.relocatable = true;
  const Segment prices = other.map("prices.db", relocatable);
  long *price = nullptr;
  atomically(other, [&] {
    price = static_cast<long *>(prices.allocate(sizeof(long)));
    *price = 42;
  });
  self.commit(0, 1);
  EXPECT_EQ(self.committed(), 1U);
  EXPECT_EQ(query(other, [&] { return *price; }), 42);
  other.unmap(prices);
  other.close();
}

// A segment stays what it was made as.
TEST_F(BadCallTest, SegmentOfAnotherDomainThatWasMadeAtTheSameAddressIsRefused) {
  const MemoryFolder other_folder;
  expect_child("makes it", [&] {
    static_cast<void>(Domain::open(other_folder.path(), plain()).map("prices.db"));
  });
  const Actor self = actor();
  const Domain other = Domain::open(other_folder.path(), plain());
  expect_error(
      Errc::kAddressInUse, [&] { static_cast<void>(other.map("prices.db")); },
      "SegmentOptions::relocatable");
  self.domain.unmap(self.first);
  self.domain.unmap(self.second);
  EXPECT_TRUE(other.map("prices.db")) << "one domain at a time";
}

TEST_F(BadCallTest, CallsThatNoInstanceMayContain) {
  Actor self = actor();
  self.domain.begin();
  self.set(0, 1);
  expect_error(Errc::kInstanceRunning, [&] { self.domain.close(); });
  expect_error(Errc::kInstanceRunning, [&] { self.domain.set_policy("self-abort"); });
  try {
    self.domain.unmap(self.first);
    ADD_FAILURE() << "unmapped under a running instance";
  } catch (const Error &error) {
    EXPECT_TRUE(error.errc() == Errc::kInstanceRunning || error.errc() == Errc::kSegmentInUse)
        << error.what();
  }
  EXPECT_EQ(self.get(0), 1U);
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
  EXPECT_EQ(self.committed(), 1U);
}

TEST_F(BadCallTest, NestedMisuseIsRefused) {
  const Actor self = actor();
  self.domain.begin_query();
  expect_error(Errc::kNestedMisuse, [&] { self.domain.begin(); });
  expect_error(Errc::kNestedMisuse, [&] { static_cast<void>(self.domain.end()); });
  self.domain.end_query();
  self.domain.begin();
  expect_error(Errc::kNestedMisuse, [&] { self.domain.end_query(); });
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_F(BadCallTest, ABodyThatLeavesAnInstanceOpenIsRefused) {
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    DomainOptions options = plain();
    options.levels = levels;
    const Actor self(folder_ / to_string(levels), options);
    const Site site(self.domain, "careless");
    const auto leave_open = [&] {
      self.domain.begin();
      self.set(0, 5);
      return 5;
    };
    const std::function<void()> calls[] = {
        [&] { atomically(self.domain, leave_open); },
        [&] { atomically(self.domain, [&] { (void)leave_open(); }); },
        [&] { atomically(site, [&](Fields) { return leave_open(); }); },
        [&] {
          atomically(self.domain, [&] { atomically(self.domain, [&] { (void)leave_open(); }); });
        }};
    for (const auto &call : calls) {
      expect_error(Errc::kNestedMisuse, call, "not ended");
      EXPECT_EQ(self.domain.depth(), 0U);
      EXPECT_EQ(self.committed(0), 0U);
    }
    self.commit(0, 1);
    EXPECT_EQ(self.committed(0), 1U);
  }
}

TEST_F(BadCallTest, AQueryWhoseBodyLeavesAnInstanceOpenIsRefused) {
  const Actor self = actor();
  const auto expect_all_ended = [&] {
    EXPECT_EQ(self.domain.depth(), 0U);
    while (self.domain.depth() != 0) self.domain.abort();
  };
  const auto leave_open = [&] {
    self.domain.begin_query();
    return self.get(0);
  };
  const std::function<void()> calls[] = {
      [&] { (void)query(self.domain, leave_open); },
      [&] { query(self.domain, [&] { (void)leave_open(); }); },
      [&] { query(self.domain, [&] { (void)query(self.domain, leave_open); }); }};
  for (const auto &call : calls) {
    expect_error(Errc::kNestedMisuse, call, "not ended");
    expect_all_ended();
  }
  // What leaves the body is as it was.
  const auto leave_open_by = [&](auto what) {
    return [&, what] {
      (void)leave_open();
      throw what;
    };
  };
  EXPECT_THROW(query(self.domain, leave_open_by(7)), int);
  expect_all_ended();
  EXPECT_THROW(query(self.domain, leave_open_by(std::runtime_error("mine"))), std::runtime_error);
  expect_all_ended();
  expect_error(Errc::kIo, [&] { query(self.domain, leave_open_by(Error(Errc::kIo, "mine"))); });
  expect_all_ended();
  const auto end_and_throw = [&] {
    self.domain.end_query();
    throw std::runtime_error("mine");
  };
  EXPECT_THROW(query(self.domain, end_and_throw), std::runtime_error);
  expect_all_ended();
  self.commit(0, 1);
  EXPECT_EQ(self.committed(0), 1U);
}

TEST_F(BadCallTest, QueryThatWritesIsReported) {
  const StrayAllowed allowed;
  const Actor self = actor();
  expect_error(Errc::kQueryWrote, [&] { query(self.domain, [&] { self.set(3, 1); }); });
  EXPECT_EQ(self.committed(3), 0U);
}

TEST_F(BadCallTest, AdviceOutsideEverySegment) {
  const Actor self = actor();
  int local = 0;
  self.domain.begin();
  expect_error(Errc::kNotMapped, [&] { self.domain.advise(&local, Access::kRead); });
  expect_error(Errc::kNotMapped, [&] { self.domain.advise(nullptr, Access::kRead); });
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_F(BadCallTest, HeapCallsOnARawSegment) {
  const Actor self = actor();
  self.domain.begin();
  expect_error(Errc::kNotAHeap, [&] { static_cast<void>(self.first.allocate(8)); });
  expect_error(Errc::kNotAHeap, [&] { static_cast<void>(self.first.root_cell("r")); });
  self.domain.abort();
  expect_error(Errc::kNotAHeap, [&] { static_cast<void>(self.first.root<int>("r")); });
}

TEST_F(BadCallTest, FileWithoutOurHeaderIsNoHeap) {
  write_file(folder_ / "text.txt", std::string(1 << 20, 't'));
  const Domain domain = Domain::open(folder_.path(), plain());
  expect_error(
      Errc::kNotAHeap, [&] { static_cast<void>(domain.map("text.txt")); }, "text.txt");
  EXPECT_TRUE(read_file(folder_ / "text.txt") == std::string(1 << 20, 't'))
      << "a refused file was changed";
}

TEST_F(BadCallTest, BadFreesAreRefused) {
  const Actor self = actor();
  const Segment heap = self.domain.map("heap.tmh");
  int local = 0;
  atomically(self.domain, [&] {
    auto *block = static_cast<std::byte *>(heap.allocate(64));
    expect_error(Errc::kBadFree, [&] { heap.deallocate(&local); });
    expect_error(Errc::kBadFree, [&] { heap.deallocate(block + 8); });
    heap.deallocate(block);
    expect_error(Errc::kBadFree, [&] { heap.deallocate(block); });
    EXPECT_NO_THROW(heap.deallocate(nullptr));
  });
}

TEST_F(BadCallTest, AllocationBeyondTheSegmentIsFull) {
  const Actor self = actor();
  SegmentOptions small;
  small.size_bytes = 1 << 20;
  small.max_bytes = 1 << 20;
  const Segment heap = self.domain.map("heap.tmh", small);
  self.domain.begin();
  expect_error(Errc::kSegmentFull, [&] { static_cast<void>(heap.allocate(2 << 20)); });
  void *block = heap.allocate(1000);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_F(BadCallTest, AllocationThatCannotGrowTheSegmentSaysWhy) {
  if (const std::string why = why_descriptors_must_stay(); !why.empty()) GTEST_SKIP() << why;
  expect_child("few descriptors", [&] {
    const Domain domain = Domain::open(folder_.path(), plain());
    const Segment heap = domain.map("heap");
    atomically(domain, [&] { heap.deallocate(heap.allocate(64)); });
    const int next = dup(0);
    ASSERT_GE(next, 0);
    ASSERT_EQ(close(next), 0);
    const rlimit limit{static_cast<rlim_t>(next), 1024};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    expect_error(
        Errc::kIo, [&] { atomically(domain, [&] { static_cast<void>(heap.allocate(8 << 20)); }); },
        "Too many open files");
  });
}

TEST_F(BadCallTest, OpeningADomainWhoseFolderWasRemovedIsRefused) {
  const std::string folder = folder_ / "gone";
  Domain domain = Domain::open(folder, plain());
  std::filesystem::remove_all(folder);
  for (int time = 0; time < 2; ++time)
    expect_error(
        Errc::kFileReplaced, [&] { static_cast<void>(Domain::open(folder, plain())); }, folder);
  expect_error(
      Errc::kFileReplaced, [&] { domain.close(); }, "was removed");
  EXPECT_TRUE(Domain::open(folder, plain()));
}

TEST_F(BadCallTest, AlignmentMustBeAPowerOfTwoUpToAPage) {
  const Actor self = actor();
  const Segment heap = self.domain.map("heap.tmh");
  self.domain.begin();
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{8192}}) {
    try {
      static_cast<void>(heap.allocate(8, alignment));
      ADD_FAILURE() << "alignment " << alignment << " was accepted";
    } catch (const Error &error) {
      EXPECT_TRUE(error.errc() == Errc::kBadArgument || error.errc() == Errc::kMisalignedAddress)
          << error.what();
    }
  }
  self.domain.abort();
}

TEST_F(BadCallTest, RootOfAnotherTypeIsAMismatch) {
  const Actor self = actor();
  const Segment heap = self.domain.map("heap.tmh");
  const std::uint64_t *root = heap.root<std::uint64_t>("r");
  expect_error(
      Errc::kRootMismatch, [&] { static_cast<void>(heap.root<char>("r")); }, "r");
  EXPECT_EQ(query(self.domain, [&] { return *root; }), 0U);
  EXPECT_EQ(heap.root<std::uint64_t>("r"), root);
}

TEST_F(BadCallTest, ClosedDomainRefusesCalls) {
  Actor self = actor();
  Domain copy = self.domain;
  self.domain.close();
  EXPECT_THROW(copy.begin(), Error);
  EXPECT_THROW(static_cast<void>(copy.map("b.raw", raw_segment())), Error);
  expect_error(Errc::kNotMapped, [&] { self.first.grow(2 * kStagePages * kPageBytes); });
  EXPECT_EQ(copy.durability(), Durability::kNone);
  EXPECT_EQ(self.first.size_bytes(), 0U);
}

// Whatever a thread does while another one opens and closes the domain: an error at worst.
TEST_F(BadCallTest, OpeningAndLookingWhileAnotherThreadCloses) {
  constexpr int kRounds = 200;
  const auto play = [&] {
    for (int round = 0; round < kRounds; ++round) {
      try {
        Domain domain = Domain::open(folder_.path(), plain());
        const Segment segment = domain.map("a.raw", raw_segment());
        EXPECT_LE(segment.size_bytes(), kStagePages * kPageBytes);
        segment.grow(kStagePages * kPageBytes);
        EXPECT_LE(segment.size_bytes(), kStagePages * kPageBytes);
        domain.close();
      } catch (const Error &error) {
        const Errc why = error.errc();  // the other one has mapped, closed or unmapped it
        EXPECT_TRUE(why == Errc::kSegmentInUse || why == Errc::kNotInitialized ||
                    why == Errc::kNotMapped)
            << error.what();
      }
    }
  };
  std::thread other(play);
  play();
  other.join();
}

// As when an exception leaves hand-written begin and end calls.
TEST_F(BadCallTest, LastHandleDroppedInsideAnInstanceRollsBack) {
  expect_child("dropper", [&] {
    {
      const Actor self = actor();
      self.domain.begin();
      self.set(0, 1);
    }
    const Actor again = actor();
    EXPECT_EQ(again.domain.depth(), 0U);
    EXPECT_EQ(again.committed(), 0U);
    again.commit(0, 2);
    EXPECT_EQ(again.committed(), 2U);
    EXPECT_EQ(again.domain.participants().size(), 1U);
  });
}

TEST_F(BadCallTest, LastHandleDroppedInsideAnInstanceRunsItsActionsAndNoOther) {
  expect_child("dropper", [&] {
    int commits = 0, aborts = 0;
    {
      const Actor self = actor();
      self.domain.begin();
      on_commit([&] { ++commits; });
      on_abort([&] { ++aborts; });
    }
    EXPECT_EQ(aborts, 1);
    actor().commit(0, 2);
    EXPECT_EQ(commits, 0);
  });
}

TEST_F(BadCallTest, EndOfAClosedDomainLeavesAnothersInstanceItsActions) {
  const Actor self = actor();
  const MemoryFolder other_folder;
  Domain other = Domain::open(other_folder.path(), plain());
  const Domain closed = other;
  other.close();
  int commits = 0, aborts = 0;
  atomically(self.domain, [&] {
    on_commit([&] { ++commits; });
    on_abort([&] { ++aborts; });
    expect_error(Errc::kNotInitialized, [&] { static_cast<void>(closed.end()); });
    expect_error(Errc::kNotInitialized, [&] { closed.end_query(); });
  });
  EXPECT_EQ(commits, 1);
  EXPECT_EQ(aborts, 0);
}

TEST_F(BadCallTest, EmptyHandlesRefuseCalls) {
  const Domain nothing;
  EXPECT_FALSE(nothing);
  expect_error(Errc::kNotInitialized, [&] { nothing.begin(); });
  expect_error(Errc::kNotInitialized, [&] { static_cast<void>(nothing.map("a.raw")); });
  EXPECT_FALSE(Segment());
}

TEST_F(BadCallTest, ForkedChildIsDetached) {
  const Actor self = actor();
  expect_child("child", [&] {
    expect_error(Errc::kDetached, [&] { self.domain.begin(); });
    expect_error(Errc::kDetached, [&] { self.first.grow(2 * kStagePages * kPageBytes); });
    EXPECT_EQ(self.domain.durability(), Durability::kNone);
    EXPECT_EQ(self.first.size_bytes(), 0U);
  });
}

TEST_F(BadCallTest, LastErrorTellsTheDetail) {
  const Actor self = actor();
  std::error_code ec;
  static_cast<void>(self.domain.unmap("nothing-like-this.raw", ec));
  EXPECT_NE(self.domain.last_error().find("nothing-like-this.raw"), std::string::npos)
      << self.domain.last_error();
}

// --- an environment that refuses
// -------------------------------------------------------------------------------------------------

TEST_F(BadCallTest, KernelTrackingThatIsNotPermittedIsUnavailable) {
  for (const Tracking tracking : {Tracking::kKernel, Tracking::kKernelHot}) {
    expect_child("without perf events", [&] {
      forbid(SYS_perf_event_open);
      DomainOptions options;
      options.tracking = tracking;
      expect_error(Errc::kTrackingUnavailable,
                   [&] { static_cast<void>(Domain::open(folder_.path(), options)); });
    });
  }
}

// Opens with one more descriptor each time, until it works: whatever could not be opened before,
// the reason is the kernel's.
TEST_F(BadCallTest, AWantOfDescriptorsIsNotTakenForMissingPermission) {
  if (const Domain trial = Domain::open(folder_.path());
      trial.tracking().tracking != Tracking::kKernelHot)
    GTEST_SKIP() << trial.tracking().reason;
  for (const Tracking wanted : {Tracking::kKernelHot, Tracking::kAuto}) {
    expect_child("few descriptors", [&] {
      unsetenv("TMH_TRACKING");
      DomainOptions options;
      options.tracking = wanted;
      bool is_open = false;
      for (rlim_t count = 8; !is_open && count < 200; ++count) {
        const rlimit limit{count, 1024};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        std::string said;
        try {
          const Domain domain = Domain::open(folder_.path(), options);
          is_open = domain.tracking().tracking == Tracking::kKernelHot;
          if (!is_open) said = domain.tracking().reason;
        } catch (const Error &error) {
          EXPECT_NE(error.errc(), Errc::kTrackingUnavailable) << error.what();
          said = error.what();
        }
        EXPECT_TRUE(is_open || said.find("Too many open files") != std::string::npos)
            << count << ": " << said;
        EXPECT_EQ(said.find("permi"), std::string::npos) << count << ": " << said;
      }
      EXPECT_TRUE(is_open);
    });
  }
}

TEST_F(BadCallTest, AutomaticTrackingFallsBackToSignalsAndSaysWhy) {
  expect_child("without perf events", [&] {
    forbid(SYS_perf_event_open);
    unsetenv("TMH_TRACKING");
    const Actor self(folder_.path(), DomainOptions{});
    EXPECT_EQ(self.domain.tracking().tracking, Tracking::kSignalHot);
    EXPECT_NE(self.domain.tracking().reason.find("perf"), std::string::npos)
        << self.domain.tracking().reason;
    self.commit(0, 1);
    EXPECT_EQ(self.committed(), 1U);
  });
}

TEST_F(BadCallTest, AddressSpaceThatRunsOutIsOutOfMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's shadow alone exceeds the limit that this test sets";
#endif
  expect_child("small", [&] {
    const Domain domain = Domain::open(folder_.path(), plain());
    const rlimit limit{rlim_t{1} << 40, rlim_t{1} << 40};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    SegmentOptions huge = raw_segment();
    huge.max_bytes = std::uint64_t{1} << 40;
    expect_error(Errc::kOutOfMemory, [&] { static_cast<void>(domain.map("huge.raw", huge)); });
    EXPECT_TRUE(domain.map("small.raw", raw_segment()))
        << "the refused segment left something behind";
  });
}

TEST_F(BadCallTest, FileSizeLimitIsAnIoErrorNotASignal) {
  expect_child("limited", [&] {
    signal(SIGXFSZ, SIG_IGN);  // as programs that set the limit must
    const Domain domain = Domain::open(folder_.path(), plain());
    const rlimit limit{rlim_t{1} << 30, rlim_t{1} << 30};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    std::error_code ec;
    EXPECT_FALSE(domain.map("big.raw", raw_segment(std::uint64_t{2} << 30), ec));
    EXPECT_TRUE(ec == make_error_code(Errc::kIo) || ec == make_error_code(Errc::kDiskFull))
        << ec.message();
    EXPECT_TRUE(domain.map("small.raw", raw_segment()));
  });
}

// Not what the thread was told before.
TEST_F(BadCallTest, AnEndWithoutRoomSaysThatAndNothingElse) {
  expect_child("limited", [&] {
    signal(SIGXFSZ, SIG_IGN);
    constexpr std::uint64_t kBytes = 16 << 20;
    const Domain domain = Domain::open(folder_.path(), plain());
    const Segment wide = domain.map("wide.raw", raw_segment(kBytes));
    expect_error(
        Errc::kBadArgument, [&] { static_cast<void>(domain.map("")); }, "empty name");
    const rlimit limit{rlim_t{1} << 20, rlim_t{1} << 20};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_error(
        Errc::kIo,
        [&] {
          atomically(domain, [&] {
            for (std::uint64_t at = 0; at < kBytes; at += kPageBytes)
              wide.data()[at] = std::byte{1};
          });
        },
        "no room for the instance's versions");
  });
}

// A device of its own, in a mount namespace that goes with the child. Not tmpfs: there even a load
// from a hole takes a page of the device, and raises SIGBUS before any library could prevent it.
bool mount_small_device(const std::string &image, const std::string &folder) {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return false;
  write_file(image, "");
  if (truncate(image.c_str(), 64 << 20) != 0) return false;
  const std::string quiet = " >/dev/null 2>&1";
  return std::system(("mkfs.ext4 -q -m 0 " + image + quiet).c_str()) == 0 &&
         std::system(("mount -o loop " + image + " " + folder + quiet).c_str()) == 0;
}

TEST_F(BadCallTest, FullDiskIsAnErrorNotASignal) {
  constexpr int kMayNotMount = 77;
  const std::string device = folder_ / "device";
  ASSERT_EQ(mkdir(device.c_str(), 0777), 0);
  const ChildEnd end = run_in_child("writer", [&] {
    if (!mount_small_device(folder_ / "image", device)) _exit(kMayNotMount);
    const Domain domain = Domain::open(device, plain());
    const Segment segment = domain.map("data.raw", raw_segment(256 << 20));
    constexpr std::uint64_t kChunkPages = 1024;
    bool refused = false;
    for (std::uint64_t chunk = 0; chunk < 64 && !refused; ++chunk) {
      domain.begin();
      for (std::uint64_t page = 0; page < kChunkPages; ++page) {
        store(segment.data()[(chunk * kChunkPages + page) * kPageBytes], std::byte{1});
      }
      try {
        refused = domain.end() == Status::kAborted;
      } catch (const Error &error) {
        EXPECT_EQ(error.errc(), Errc::kDiskFull) << error.what();
        refused = true;
      }
      if (domain.depth() != 0) domain.abort();
    }
    EXPECT_TRUE(refused) << "256 MiB went onto a device of 64 MiB";
    EXPECT_GT(domain.counters().aborts[static_cast<std::size_t>(AbortCause::kNoSpace)], 0U);
    query(domain, [&] { EXPECT_EQ(load(segment.data()[0]), std::byte{1}); });
  });
  if (end.exit_code == kMayNotMount)
    GTEST_SKIP() << "needs mkfs.ext4 and the right to mount a loop device";
  EXPECT_TRUE(end.succeeded()) << "exit code " << end.exit_code << ", signal " << end.signal;
}

TEST(ErrcTest, EveryCodeHasItsOwnSentence) {
  std::string seen;
  for (int code = 0; code <= static_cast<int>(Errc::kOutOfMemory); ++code) {
    const char *text = message(static_cast<Errc>(code));
    ASSERT_NE(text, nullptr);
    EXPECT_EQ(seen.find("\n" + std::string(text) + "\n"), std::string::npos)
        << code << " repeats: " << text;
    seen += "\n" + std::string(text) + "\n";
  }
  EXPECT_NE(message(static_cast<Errc>(12345)), nullptr);
  EXPECT_STREQ(category().name(), "tmh");
}

}  // namespace
}  // namespace tmh::test
