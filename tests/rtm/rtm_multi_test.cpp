// tests/rtm/rtm_multi_test.cpp -- RTM between processes: histories, sums, and pages taken from
// holders in every state.
// Invariants: (1) transfers by RTM, software lines and level 2 keep the sum, which every query
//             sees. (2) Recorded histories are strictly serializable. (3) A page is taken from a
//             holder that runs, sleeps, is stopped or dead without its help.
// Skipped:    where RTM does not work, with the library's sentence.
// Source:     hierarchy/exchange/PROTOCOL.md, "Hardware lines".
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain_impl.h"
#include "observe/planted.h"
#include "tests/support/children.h"
#include "tests/support/forbid.h"
#include "tests/support/modes.h"
#include "tests/support/rtm_table.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/workload.h"

namespace tmh::test {
namespace {

class RtmMultiTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  }
  MemoryFolder folder_;
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()(std::uint64_t bound) {
    return ((state_ = state_ * 6364136223846793005ull + 1442695040888963407ull) >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

constexpr std::uint64_t kCells = 64, kStart = 1000;
std::uint64_t &cell(const RtmTable &table, std::uint64_t i) {
  return table.word(i % 16, i / 16 * 8);
}
std::uint64_t sum(const RtmTable &table) {
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < kCells; ++i) all += cell(table, i);
  return all;
}

TEST_F(RtmMultiTest, ThreadsOfProcessesAtAllLevelsKeepTheSum) {
  constexpr int kAtPages = 150, kSoftware = 1500;
  const std::uint64_t per_thread = environment_number("TMH_RTM_TRANSACTIONS", 100'000);
  const RtmTable first(folder_.path());
  atomically(first.domain, [&] {
    for (std::uint64_t i = 0; i < kCells; ++i) cell(first, i) = kStart;
  });
  Shared<std::atomic<std::uint32_t>> ready;
  const auto start = [&] {
    ready->fetch_add(1);
    ASSERT_TRUE(poll_until([&] { return ready->load() == 4; }));
  };
  Children children;
  for (std::uint64_t process = 0; process < 2; ++process) {
    children.spawn("rtm " + std::to_string(process), [&, process] {
      const RtmTable table(folder_.path());
      const Site site = table.plain_site();
      start();
      std::vector<std::thread> threads;
      for (std::uint64_t t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
          Draw draw(seed() + 10 * process + t);
          for (std::uint64_t i = 0; i < per_thread; ++i) {
            const std::uint64_t from = draw(kCells), to = draw(kCells);
            atomically(site, [&] {
              --cell(table, from);
              ++cell(table, to);
            });
          }
        });
      }
      for (std::thread &thread : threads) thread.join();
      const SiteReport report = site.report();
      EXPECT_EQ(report.line_commits + report.page_commits, 2 * per_thread);
      EXPECT_GT(report.hardware_commits, 0U);
      std::printf("rtm %d: %s\n", static_cast<int>(process), to_text(report).c_str());
    });
  }
  children.spawn("level 2", [&] {
    const RtmTable table(folder_.path());
    Draw draw(seed() + 30);
    start();
    for (int i = 0; i < kAtPages; ++i) {
      ASSERT_EQ(query(table.domain, [&] { return sum(table); }), kStart * kCells);
      const std::uint64_t from = draw(kCells), to = draw(kCells);
      atomically(table.domain, [&] {
        EXPECT_EQ(sum(table), kStart * kCells);
        --cell(table, from);
        ++cell(table, to);
      });
      usleep(100);
    }
  });
  children.spawn("software", [&] {
    const RtmTable table(folder_.path(), hybrid_options(LineChoice::kSoftware));
    const Site site(table.domain, "transfer");
    Draw draw(seed() + 40);
    start();
    for (int i = 0; i < kSoftware; ++i) {
      const std::uint64_t from = draw(kCells), to = draw(kCells);
      atomically(site, [&](Fields) {
        --reinterpret_cast<field<std::uint64_t> &>(cell(table, from));
        ++reinterpret_cast<field<std::uint64_t> &>(cell(table, to));
      });
      if (i % 8 == 0) usleep(50);
    }
  });
  children.expect_success();
  EXPECT_EQ(query(first.domain, [&] { return sum(first); }), kStart * kCells);
  const Counters counters = first.domain.counters();
  EXPECT_GT(counters.hardware_recalled, 0U);
  std::printf("opened %llu, recalled %llu, mode switches %llu\n",
              static_cast<unsigned long long>(counters.hardware_opened),
              static_cast<unsigned long long>(counters.hardware_recalled),
              static_cast<unsigned long long>(counters.mode_switches));
}

// Line mode wants 1 GiB of addresses more than level 2 does. Where there are none nothing is
// mapped, software lines know nothing of the segment either, and what the program has at its
// address later is the program's.
TEST_F(RtmMultiTest, SegmentWithoutAddressesForLineModeIsNotHalfMapped) {
  constexpr std::uint64_t kRoomBytes = 256u << 20;
  expect_child("has few addresses", [&] {
    const RtmTable table(folder_.path());
    const Site software(table.domain, "software");
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = raw.max_bytes = 16 * kPageBytes;
    Segment other = table.domain.map("other.raw", raw);
    std::byte *const at = other.data();
    table.domain.unmap(other);
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    const rlimit few{pages * kPageBytes + kRoomBytes, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
    std::error_code error;
    other = table.domain.map("other.raw", raw, error);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    ASSERT_EQ(error, make_error_code(Errc::kOutOfMemory)) << table.domain.last_error();
    void *const own = mmap(at, raw.max_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(own, at);
    auto &word = *static_cast<field<std::uint64_t> *>(own);
    atomically(software, [&](Fields) {
      ++table.shared(0);
      word.store(7);
    });
    EXPECT_EQ(*static_cast<const std::uint64_t *>(own), 7U);
    munmap(own, raw.max_bytes);
    other = table.domain.map("other.raw", raw);
    EXPECT_EQ(atomically(software, [&](Fields) { return word.load(); }), 0U);
  });
}

// No mapping is made while there is one of these.
class NoAddresses {
 public:
  NoAddresses() {
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    const rlimit none{kPageBytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  }
  ~NoAddresses() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
  NoAddresses(const NoAddresses &) = delete;
  NoAddresses &operator=(const NoAddresses &) = delete;

 private:
  rlimit before_{};
};

// The kernel takes away what stands where a view is to move, and refuses the move after that. Then
// neither kind of view stands, which is an error as long as it is so; nothing is read from, or
// stored to, what stands there instead.
TEST_F(RtmMultiTest, AViewThatTheKernelDoesNotMoveComesBack) {
  expect_child("moves views", [&] {
    const RtmTable table(folder_.path());
    const Site site = table.plain_site();
    std::uint64_t count = 0;
    const auto in_hardware = [&] {
      const std::uint64_t before = site.report().hardware_commits;
      for (int i = 0; i < 1000 && site.report().hardware_commits == before; ++i, ++count)
        atomically(site, [&] { ++table.word(0); });
      EXPECT_GT(site.report().hardware_commits, before);
    };
    const auto at_pages = [&] { atomically(table.domain, [&] { ++table.word(0); }); };
    const auto expect_no_views = [&](const std::function<void()> &switches) {
      std::error_code errors[3];
      {
        const NoAddresses none;
        for (std::error_code &error : errors) {
          try {
            &error == errors ? switches() : at_pages();
          } catch (const Error &refused) {
            error = refused.code();
          }
        }
      }
      for (const std::error_code &error : errors)
        EXPECT_EQ(error, make_error_code(Errc::kOutOfMemory));
    };
    in_hardware();
    expect_no_views(at_pages);
    at_pages();
    ++count;
    EXPECT_EQ(table.committed(0), count);
    in_hardware();
    EXPECT_EQ(table.committed(0), count);  // page mode
    expect_no_views([&] {
      for (int i = 0; i < 1000; ++i, ++count) atomically(site, [&] { ++table.word(0); });
    });
    at_pages();
    ++count;
    in_hardware();
    EXPECT_EQ(table.committed(0), count);
  });
}

// As history_multi_test, but two of the processes run nearly everything in RTM, and the third is
// often away, so that they can.
class RtmHistoryTest : public RtmMultiTest, public testing::WithParamInterface<Mode> {};

TEST_P(RtmHistoryTest, IsRight) {
  const Mode &mode = GetParam();
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  const std::uint64_t steps = 10 * environment_number("TMH_HISTORY_STEPS", 300);
  const DomainOptions options = options_for(mode);
  const std::uint64_t first_seed = seed();
  Recorder recorder(5, 400 * steps + kEntriesPerStep);
  expect_child("set-up", [&] {
    Board board(folder_.path(), options);
    Player player(board, recorder.open_lane());
    Workload(player, first_seed).set_up();
    board.close();
  });
  Shared<std::atomic<std::uint64_t>> in_hardware, ready;
  Children children;
  for (std::uint64_t i = 0; i < 3; ++i) {
    children.spawn("worker " + std::to_string(i), [&, i] {
      const bool is_rtm = i != 0;
      Board board(folder_.path(), options);
      Player player(board, recorder.open_lane());
      if (is_rtm) player.play_at(PlaysAt::kFirstLines);
      Workload workload(player, first_seed + 1 + i);
      ready->fetch_add(1);
      ASSERT_TRUE(poll_until([&] { return ready->load() == 3; }));
      for (std::uint64_t step = 0;
           step < (is_rtm ? steps : steps / 20) && player.lane().has_room(kEntriesPerStep);
           ++step) {
        if (is_rtm)
          workload.update_step();
        else
          workload.step();
        if (!is_rtm) usleep(200);
      }
      in_hardware->fetch_add(board.line_site().report().hardware_commits);
      board.close();
    });
  }
  children.expect_success();
  audit_alone(folder_.path(), options, &recorder);
  (void)expect_right_history(recorder, mode.name);
  std::printf("%llu commits in hardware\n", static_cast<unsigned long long>(in_hardware->load()));
  EXPECT_GT(in_hardware->load(), 0U);
}

// Those with RTM.
INSTANTIATE_TEST_SUITE_P(Modes, RtmHistoryTest,
                         testing::ValuesIn(std::begin(kModes) + 8, std::end(kModes)), mode_name);

// A query has seen nothing of what happened to page 1; then it must not see what happened after
// that, to page 0, in RTM.
std::uint64_t effect_without_cause(bool plants) {
  const MemoryFolder folder;
  Shared<Turn> turn;
  Shared<std::atomic<std::uint64_t>> cause, effect;
  Children children;
  children.spawn("query", [&] {
    const RtmTable table(folder.path());
    turn->await(1);
    query(table.domain, [&] {
      cause->store(table.word(1));
      turn->reach(2);
      turn->await(4);
      effect->store(table.word(0));
    });
  });
  children.spawn("cause, then effect", [&] {
    if (plants) observe::plant(observe::Planted::kGateBlind);
    const RtmTable table(folder.path());
    const Site site = table.plain_site("on-capacity");
    for (int i = 0; i < 100; ++i) atomically(site, [&] { table.word(0) = 0; });
    turn->reach(1);
    turn->await(2);
    atomically(table.domain, [&] { table.word(1) = 1; });
    atomically(site, [&] { table.word(0) = 1; });
    turn->reach(4);
  });
  children.expect_success();
  EXPECT_EQ(cause->load(), 0U);
  return effect->load();
}

TEST_F(RtmMultiTest, QueriesSeeNoEffectWithoutItsCause) {
  EXPECT_EQ(effect_without_cause(false), 0U);
  EXPECT_EQ(effect_without_cause(true), 1U)
      << "the planted fault was not found: the test says nothing";
}

// More moves than anybody can follow.
void overflow_moves(const RtmTable &table) {
  const std::shared_ptr<tmh::detail::DomainImpl> domain = tmh::detail::impl_of(table.domain);
  const storage::PageId elsewhere = storage::page_id(0, storage::PageIndex{RtmTable::kPages - 1});
  const page::DomainLock::Held held = domain->engine().lock_domain();
  for (std::uint64_t i = 0; i <= hierarchy::HardwarePages::kMoves; ++i)
    domain->lines()->directory().hardware().left(held, elsewhere);
}

// Two processes count in turn, one in RTM, the other at level 2 or on software lines. Returns what
// was counted of 40.
std::uint64_t count_in_turn(bool plants, bool at_pages, bool overflows = false) {
  constexpr std::uint32_t kTurns = 40;
  const MemoryFolder folder;
  Shared<Turn> turn;
  Children children;
  for (std::uint32_t player = 0; player < 2; ++player) {
    children.spawn("player " + std::to_string(player), [&, player] {
      if (plants) observe::plant(observe::Planted::kEpochStands);
      const RtmTable table(folder.path(),
                           hybrid_options(player == 0 ? LineChoice::kRtm : LineChoice::kSoftware));
      const Site site(table.domain, "count", "on-capacity");
      if (player == 0)
        // The page is in H.
        for (int i = 0; i < 100; ++i) atomically(site, [&] { table.word(0) = 0; });
      for (std::uint32_t i = player; i < kTurns; i += 2) {
        turn->await(i);
        if (player == 1 && at_pages)
          atomically(table.domain, [&] { ++table.word(0); });
        else if (player == 0)
          atomically(site, [&] { ++table.word(0); });
        else
          atomically(site, [&](Fields) { ++table.shared(0); });
        if (player == 1 && overflows) overflow_moves(table);
        turn->reach(i + 1);
      }
    });
  }
  children.expect_success();
  return RtmTable(folder.path()).committed(0);
}

TEST_F(RtmMultiTest, PagesThatLeaveAreLeft) {
  for (const bool at_pages : {true, false}) EXPECT_EQ(count_in_turn(false, at_pages), 40U);
  // Software lines work on home itself, as RTM does: in turn they lose nothing. Level 2 has copies.
  EXPECT_LT(count_in_turn(true, true), 40U)
      << "the planted fault was not found: the test says nothing";
}

// Software lines have read page 0 when RTM counts there, which may believe that the page is its own
// still. Returns what was counted of 102.
std::uint64_t count_beside_software(bool plants) {
  const MemoryFolder folder;
  Shared<Turn> turn;
  Children children;
  children.spawn("rtm", [&] {
    const RtmTable table(folder.path());
    const Site site = table.plain_site("on-capacity");
    for (int i = 0; i < 100; ++i) atomically(site, [&] { ++table.word(0); });  // the page is in H
    turn->reach(1);
    turn->await(2);
    atomically(site, [&] { ++table.word(0); });
    turn->reach(3);
  });
  children.spawn("software", [&] {
    if (plants) observe::plant(observe::Planted::kEpochStands);
    turn->await(1);
    const RtmTable table(folder.path(), hybrid_options(LineChoice::kSoftware));
    const Site site(table.domain, "software", "never");
    int bodies = 0;
    atomically(site, [&](Fields) {
      const std::uint64_t seen = table.shared(0);
      if (++bodies == 1) {
        turn->reach(2);
        turn->await(3);
      }
      table.shared(0) = seen + 1;
    });
  });
  children.expect_success();
  return RtmTable(folder.path()).committed(0);
}

TEST_F(RtmMultiTest, PagesThatLeaveForSoftwareLinesAreLeft) {
  EXPECT_EQ(count_beside_software(false), 102U);
  EXPECT_EQ(count_beside_software(true), 101U)
      << "the planted fault was not found: the test says nothing";
}

// RTM finds page 0 at level 2 while the resident's instance runs there, and takes it to H if it
// may. The reader's pin keeps the resident's commit from going home. Returns what was counted of 2.
std::uint64_t count_beside_a_resident(bool plants) {
  const MemoryFolder folder;
  Shared<Turn> turn;
  Children children;
  children.spawn("resident", [&] {
    const RtmTable table(folder.path(), hybrid_options(LineChoice::kSoftware));
    table.domain.begin();
    const std::uint64_t seen = table.word(0);
    turn->reach(1);
    turn->await(3);
    table.word(0) = seen + 1;
    EXPECT_EQ(table.domain.end(), Status::kCommitted);
    turn->reach(4);
    turn->await(6);
  });
  children.spawn("reader", [&] {
    const RtmTable table(folder.path(), hybrid_options(LineChoice::kSoftware));
    turn->await(2);
    table.domain.begin_query();
    turn->reach(3);
    turn->await(4);
    table.domain.end_query();
    turn->reach(5);
    turn->await(6);
  });
  children.spawn("rtm", [&] {
    if (plants) observe::plant(observe::Planted::kReleaseBlind);
    const RtmTable table(folder.path());
    const Site site = table.plain_site("on-capacity");
    turn->await(1);
    for (int i = 0; i < 10; ++i) atomically(site, [&] { table.word(1) = table.word(0); });
    turn->reach(2);
    turn->await(5);
    atomically(site, [&] { ++table.word(0); });
    turn->reach(6);
  });
  children.expect_success();
  return RtmTable(folder.path()).committed(0);
}

TEST_F(RtmMultiTest, PagesOfARunningResidentStay) {
  EXPECT_EQ(count_beside_a_resident(false), 2U);
  EXPECT_EQ(count_beside_a_resident(true), 1U)
      << "the planted fault was not found: the test says nothing";
}

// The ring of moves has come round since: what is not in it may have left.
TEST_F(RtmMultiTest, PagesOfWhichNoMoveIsLeftAreClosed) {
  EXPECT_EQ(count_in_turn(false, true, true), 40U);
}

// A sandbox that the process has entered since the page was opened refuses the advice that closes
// it.
TEST_F(RtmMultiTest, PagesThatLeaveAreLeftWhereAdviceIsRefused) {
  constexpr std::uint32_t kTurns = 20, kMadvDontneedLocked = 24;
  const Shared<Turn> turn;
  Children children;
  children.spawn("rtm", role(*turn, [&] {
                   const RtmTable table(folder_.path());
                   const Site site = table.plain_site();
                   for (int i = 0; i < 100; ++i) atomically(site, [&] { table.word(0) = 0; });
                   EXPECT_GT(site.report().hardware_commits, 0U);
                   forbid(SYS_madvise, {MADV_DONTNEED, kMadvDontneedLocked});
                   for (std::uint32_t i = 0; i < kTurns; i += 2) {
                     turn->reach(i + 1);
                     turn->await(i + 2);
                     atomically(site, [&] { ++table.word(0); });
                   }
                   turn->reach(kTurns + 1);
                 }));
  children.spawn("pages", role(*turn, [&] {
                   const RtmTable table(folder_.path(), hybrid_options(LineChoice::kSoftware));
                   for (std::uint32_t i = 0; i < kTurns; i += 2) {
                     turn->await(i + 1);
                     for (int again = 0; again < 3; ++again)
                       atomically(table.domain, [&] { ++table.word(0); });
                     turn->reach(i + 2);
                   }
                   turn->await(kTurns + 1);
                 }));
  children.expect_success();
  EXPECT_EQ(RtmTable(folder_.path()).committed(0), 2 * kTurns);
}

// It came along with another one: no level had had it before. An instance on software lines has
// read it when RTM changes it.
TEST_F(RtmMultiTest, PageThatCameAheadIsAskedForBySoftwareLines) {
  Shared<Turn> turn;
  Children children;
  children.spawn("rtm", [&] {
    const RtmTable table(folder_.path());
    const Site site = table.plain_site();
    for (int i = 0; i < 100; ++i) atomically(site, [&] { ++table.word(0); });
    turn->reach(1);
    turn->await(2);
    atomically(site, [&] { ++table.word(1); });
    turn->reach(3);
  });
  turn->await(1);
  expect_child("software", [&] {
    const RtmTable table(folder_.path(), hybrid_options(LineChoice::kSoftware));
    const Site site(table.domain, "software", "never");
    int bodies = 0;
    atomically(site, [&](Fields) {
      const std::uint64_t seen = table.shared(1);
      if (++bodies == 1) {
        turn->reach(2);
        turn->await(3);
      }
      table.shared(1) = seen + 1;
    });
  });
  children.expect_success();
  EXPECT_EQ(RtmTable(folder_.path()).committed(1), 2U);
}

// Somebody is at level 2 only because others were, and stops there: each instance of others would
// wait for it as long as the gate is waited for.
TEST_F(RtmMultiTest, GuestThatStaysIsWaitedForSeldom) {
  constexpr std::uint64_t kInstances = 200, kWaitsMax = 40;
  const RtmTable table(folder_.path());
  Shared<std::atomic<bool>> guest_is_ready, host_runs, guest_stops;
  Children children;
  const std::size_t guest = children.spawn("guest", [&] {
    const RtmTable own(folder_.path());
    const Site site = own.plain_site();
    for (int i = 0; i < 10; ++i) atomically(site, [&] { ++own.word(0); });  // its pages are found
    guest_is_ready->store(true);
    ASSERT_TRUE(poll_until([&] { return host_runs->load(); }));
    atomically(site, [&] {
      own.word(0) = 100;
      guest_stops->store(true);
      (void)raise(SIGSTOP);
    });
  });
  ASSERT_TRUE(poll_until([&] { return guest_is_ready->load(); }));
  table.domain.begin();
  host_runs->store(true);
  ASSERT_TRUE(poll_until([&] { return guest_stops->load(); }));
  (void)table.domain.end();
  usleep(300'000);  // as long as it takes to be no mere guest
  const Site site = table.plain_site();
  for (std::uint64_t i = 0; i < kInstances; ++i) atomically(site, [&] { ++table.word(8); });
  const SiteReport report = site.report();
  EXPECT_EQ(report.page_commits, kInstances);
  EXPECT_LE(report.hardware_gate, kWaitsMax) << to_text(report);
  children.kill(guest, SIGCONT);
  children.expect_success();
  EXPECT_EQ(table.committed(0), 100U);
}

enum class Holder { kRunning, kSleeping, kStopped, kDead };

class RtmRecallTest : public testing::TestWithParam<Holder> {};

// Whatever the holder does, level 2 and software lines get its page, with everything that it
// committed; and when it goes on, so does RTM.
TEST_P(RtmRecallTest, PageIsTakenFromAHolderWithoutItsHelp) {
  if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  const Holder state = GetParam();
  // Between two transactions, where they are emulated: who is stopped within a commit, which is no
  // instant then, stops everybody's.
  const bool stops_itself =
      state == Holder::kStopped && environment_number("TMH_RTM_STOPS_ITSELF", 0) != 0;
  const MemoryFolder folder;
  Shared<std::atomic<std::uint64_t>> counted;
  Shared<std::atomic<bool>> holds, stop;
  Children children;
  const std::size_t holder = children.spawn("holder", [&] {
    const RtmTable table(folder.path());
    const Site site = table.plain_site();
    for (std::uint64_t i = 1; !stop->load(); ++i) {
      atomically(site, [&] {
        ++table.word(0);
        ++table.word(1);
      });
      counted->store(i);
      if (i >= 200) holds->store(true);
      if (i == 200 && stops_itself) (void)raise(SIGSTOP);
      if (i >= 200 && state == Holder::kSleeping) (void)poll_until([&] { return stop->load(); });
    }
  });
  ASSERT_TRUE(poll_until([&] { return holds->load(); }));
  if (state == Holder::kStopped && !stops_itself) children.kill(holder, SIGSTOP);
  if (state == Holder::kDead) children.bury(holder);
  expect_child("taker", [&] {
    const RtmTable table(folder.path(), hybrid_options(LineChoice::kSoftware));
    const Site site(table.domain, "software", "never");
    std::uint64_t before = 0;
    for (std::uint64_t round = 0; round < 50; ++round) {
      const auto [a, b] =
          query(table.domain, [&] { return std::pair(table.word(0), table.word(1)); });
      ASSERT_EQ(a, b) << "half a transaction";
      ASSERT_GE(a, before);
      before = a;
      atomically(table.domain, [&] { ++table.word(2); });
      atomically(site, [&](Fields) { ++table.shared(3); });
      const auto [c, d] = atomically(
          site, [&](Fields) { return std::pair(table.shared(0).load(), table.shared(1).load()); });
      ASSERT_EQ(c, d) << "half a transaction";
      ASSERT_GE(c, before);
    }
    EXPECT_EQ(table.committed(2), 50U);
    EXPECT_EQ(table.committed(3), 50U);
  });
  stop->store(true);
  const auto wakes_up = [&] {  // again, for a holder that had not stopped itself yet
    if (!children.running(holder)) return true;
    children.kill(holder, SIGCONT);
    return false;
  };
  if (state == Holder::kStopped) (void)poll_until(wakes_up);
  if (state != Holder::kDead) children.expect_success();
  const RtmTable table(folder.path());
  const std::uint64_t value = table.committed(0);
  if (state == Holder::kDead)
    EXPECT_TRUE(value == counted->load() || value == counted->load() + 1)
        << value << " of " << counted->load();
  else
    EXPECT_EQ(value, counted->load());
}

std::string holder_name(const testing::TestParamInfo<Holder> &info) {
  constexpr const char *kNames[] = {"Running", "Sleeping", "Stopped", "Dead"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Holders, RtmRecallTest,
                         testing::Values(Holder::kRunning, Holder::kSleeping, Holder::kStopped,
                                         Holder::kDead),
                         holder_name);

}  // namespace
}  // namespace tmh::test
