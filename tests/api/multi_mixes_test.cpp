// tests/api/multi_mixes_test.cpp -- mixes of options that no other test combines: each process of a
// domain has its own, chosen at random.
// Invariants: those of tests/support/workload.h, in every mix, also where segments grow under
//             queries, instances nest, retry, are irrevocable or are acknowledged in ways of their
//             own, beside checkpoints, archives and backups. (2) what survives all processes and
//             what they shared is what tests/support/lost_commits.h says. (3) a backup is one
//             moment. (4) the same in volatile hybrid domains in some of whose processes level 1 is
//             RTM, or plain bodies are; skipped where RTM does not work.
// Size:       TMH_MIXES mixes (default 4; 100 with TMH_LONG), the first one of TMH_SEED, each of
//             the following of the next number: one to two seconds each.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/lost_commits.h"
#include "tests/support/mixes.h"
#include "tests/support/modes.h"
#include "tests/support/rtm_table.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/stalls.h"
#include "tests/support/temp_folder.h"
#include "tests/support/workload.h"

namespace tmh::test {
namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t kPagesAtFirst = 2, kPagesMax = 24;
constexpr std::uint64_t kEntriesPerLane = 1'000'000;  // address space only
constexpr std::uint64_t kLanesMax = 64;
constexpr std::uint64_t kEntriesAhead = 500;  // of most steps
constexpr long kAimNs = 2'000'000;
constexpr int kRounds = 2;

struct MixState {
  std::atomic<std::uint64_t> attempts, steps;
  std::atomic<std::uint64_t> hardware_commits;
  std::atomic<std::uint64_t> flushed_ns;  // begin of the last flush() that returned
  std::atomic<std::uint32_t> backups;
  std::array<std::atomic<bool>, kLanesMax> reads_durable_only;  // by lane
};

void map_more(Board *board) {
  SegmentOptions options = raw_pages(kPagesAtFirst);
  options.max_bytes = kPagesMax * kPageBytes;
  board->add(board->domain().map("more.raw", options));
}

std::uint64_t cells(const Board &board) {
  return Board::kCells + board.more().size_bytes() / kPageBytes * Board::kSlotsPerPage;
}

struct Thrown {};

// One thread of a process.
class Actor {
 public:
  Actor(Board *board, const DomainMix &domain, const ProcessMix &mix, Lane lane, MixState *state,
        std::uint64_t seed)
      : board_(*board),
        mix_(mix),
        at_pages_one_in_(domain.at_pages_one_in),
        state_(*state),
        random_(seed),
        player_(*board, lane, &state->attempts),
        workload_(player_, seed) {
    player_.note_irrevocable();
    player_.use_default_site(mix.stays_at_lines());
    if (mix.prefers_views) player_.prefer_thread_views();
    if (mix.plain_sites) player_.use_plain_site();
  }
  [[nodiscard]] bool has_room() noexcept { return player_.lane().has_room(kEntriesPerStep); }

  void step() {
    player_.acknowledge(Durability{});
    if (mix_.overrides && pick(3) == 0)
      player_.acknowledge(pick(2) == 0 ? Durability::kStrict : Durability::kBuffered);
    player_.lane().touch_ahead(kEntriesAhead);
    avoids_pages_ = pick(at_pages_one_in_) != 0;
    player_.avoid_pages(avoids_pages_);
    if (avoids_pages_) return pick(2) == 0 ? scatter() : workload_.update_step();
    const std::uint64_t dice = pick(40);
    if (dice < 22) return workload_.step();
    if (dice < 29) return scatter();
    if (dice < 32) return read_long();
    if (dice < 34) return grow();
    if (dice == 34) return retry();
    if (dice == 35) return irrevocably();
    if (dice == 36) {
      const bool is_eager = board_.domain().detection() == Detection::kEager;
      return board_.domain().set_policy(Mixes::policy(random_, board_.is_hybrid() || is_eager));
    }
    if (dice == 37) return map_again();
    if (board_.domain().durability() == Durability::kNone)
      return static_cast<void>(board_.domain().collect());
    return dice == 38 ? flush() : bring_up();
  }

 private:
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }
  history::Cell any_of_more() { return Board::kCells + pick(cells(board_) - Board::kCells); }

  void touch(std::uint64_t count, bool may_write) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (may_write && pick(3) == 0)
        player_.write(any_of_more(), i);
      else
        static_cast<void>(player_.read(any_of_more()));
    }
  }
  void touch_nested(std::uint64_t count) {
    if (player_.stays_at_lines()) return touch(count, true);
    switch (avoids_pages_ ? 1 : pick(3)) {
      case 0:
        return atomically(board_.domain(), [&] { touch(count, true); });
      case 1:
        return atomically(board_.adaptive_site(), [&](Fields) { touch(count, true); });
      default:
        return query(board_.domain(), [&] { touch(count, false); });
    }
  }
  // Few cells or many; every attempt does the same.
  void scatter() {
    const std::uint64_t count = pick(5) == 0 ? 30 : 1 + pick(5), body_seed = random_();
    const bool grows = !avoids_pages_ && pick(4) == 0, nests = pick(3) == 0,
               throws = !avoids_pages_ && pick(8) == 0;
    try {
      player_.update([&] {
        random_.seed(body_seed);
        touch(count, true);
        if (grows && !player_.stays_at_lines()) grow();
        nests ? touch_nested(count) : touch(count, true);
        if (throws) throw Thrown{};
      });
    } catch (const Thrown &) {
    }
  }
  // A query during which others commit, and the segment grows.
  void read_long() {
    const std::uint64_t wanted = state_.attempts + 5 + pick(40), body_seed = random_();
    const bool grows = pick(2) == 0;
    player_.query([&] {
      random_.seed(body_seed);
      touch(6, false);
      if (grows) grow();
      // The others may wait as well, or be dead.
      const auto until = steady_clock::now() + std::chrono::milliseconds(5);
      while (state_.attempts < wanted && steady_clock::now() < until) sched_yield();
      for (history::Cell cell = cells(board_); cell-- > 0;) static_cast<void>(player_.read(cell));
    });
  }
  void grow() {
    const std::uint64_t bytes = board_.more().size_bytes() + (1 + pick(2)) * kPageBytes;
    if (bytes <= kPagesMax * kPageBytes) board_.more().grow(bytes);
  }
  void retry() {
    const auto deadline = steady_clock::now() + std::chrono::milliseconds(1);
    const auto body = [&] {
      for (int i = 0; i < 4; ++i)
        seen_ += reinterpret_cast<const field<std::uint64_t> &>(board_.slot(any_of_more())->version)
                     .load();
      if (steady_clock::now() < deadline) retry_until(deadline);
    };
    switch (pick(4)) {
      case 0:
        return atomically(board_.domain(), body);
      case 1:
        return query(board_.domain(), body);
      case 2:
        return atomically(board_.adaptive_site(), [&](Fields) { return body(); });
      default:
        return query(board_.line_site(), [&](Fields) { return body(); });
    }
  }
  void irrevocably() {
    const std::uint64_t count = 1 + pick(20);
    player_.update([&] {
      touch(count, true);
      player_.become_irrevocable();
      touch(count, true);
    });
  }
  void map_again() {
    if (mix_.threads != 1) return;  // others are in it
    board_.domain().unmap(board_.more());
    map_more(&board_);
  }
  void flush() {
    const std::uint64_t now = monotonic_ns();
    board_.domain().flush();
    std::uint64_t before = state_.flushed_ns;
    while (before < now && !state_.flushed_ns.compare_exchange_weak(before, now)) {
    }
  }
  // Where somebody has died of a data file's sync it may be the business of those who had the file
  // open before (kIo).
  void bring_up() {
    const Domain &domain = board_.domain();
    try {
      switch (pick(3)) {
        case 0:
          return domain.checkpoint();
        case 1:
          return static_cast<void>(domain.archive(domain.folder() + ".archive"));
        default:
          if (state_.backups.fetch_add(1) == 0) domain.backup(domain.folder() + ".backup");
      }
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), Errc::kIo) << error.what();
      EXPECT_NE(std::string(error.what()).find("died that synced it"), std::string::npos)
          << error.what();
    }
  }

  Board &board_;
  const ProcessMix &mix_;
  const std::uint64_t at_pages_one_in_;
  bool avoids_pages_ = false;
  MixState &state_;
  std::mt19937_64 random_;
  Player player_;
  Workload workload_;
  std::uint64_t seen_ = 0;
};

// The domain of one mix.
class MixRun {
 public:
  explicit MixRun(std::uint64_t seed, MixKind kind)
      : mixes_(seed, why_unavailable(kModes[0]).empty(), kind) {}

  void go() {
    std::printf("%s\n", to_string(mixes_.domain()).c_str());
    Recorder recorder(1, kEntriesPerStep);
    const ProcessMix first = mixes_.process();
    expect_child("set-up", [&] {
      Board board(domain_folder(), first.options);
      map_more(&board);
      Player player(board, recorder.open_lane());
      Workload(player, 1).set_up();
      board.close();
    });
    judge(recorder, false);
    for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) play();
    if (std::filesystem::exists(domain_folder() + ".backup")) look_at_backup();
  }
  // Of processes that were not killed.
  [[nodiscard]] std::uint64_t hardware_commits() const { return state_->hardware_commits; }

 private:
  struct Process {
    ProcessMix mix;
    std::size_t child = 0;
  };
  [[nodiscard]] std::string domain_folder() const { return folder_ / "domain"; }

  void play() {
    const DomainMix &domain = mixes_.domain();
    Recorder recorder(kLanesMax, kEntriesPerLane, next_process_);
    state_->steps = state_->flushed_ns = 0;
    for (auto &lane : state_->reads_durable_only) lane = false;
    Children children;
    std::vector<Process> processes(domain.processes);
    for (Process &process : processes) {
      process.mix = mixes_.process();
      std::printf("  %s\n", to_string(process.mix).c_str());
      start(&children, &recorder, &process);
    }
    for (std::uint64_t deaths = domain.kills ? 1 + mixes_.random(3) : 0; deaths > 0; --deaths) {
      Process &victim = processes[mixes_.random(processes.size())];
      wait_for_steps(&children, processes, domain.steps_per_thread);
      bury(&children, victim);
      start(&children, &recorder, &victim);
    }
    const bool massacres = domain.massacres && mixes_.random(3) != 0;
    if (massacres) massacre(&children, processes);
    for (const Process &process : processes) {
      const ChildEnd end = children.wait(process.child);
      EXPECT_TRUE(end.succeeded() || end.signal == SIGKILL) << to_string(process.mix);
    }
    audit(&recorder);
    judge(recorder, massacres && domain.loses);
  }
  void start(Children *children, Recorder *recorder, Process *process) {
    const std::uint64_t seed = mixes_.seed();
    const bool dies = mixes_.domain().kills && mixes_.random(3) == 0;
    process->child =
        children->spawn(to_string(process->mix), [this, recorder, seed, dies, mix = process->mix] {
          if (dies)
            observe::crash_at(static_cast<std::uint32_t>(seed % observe::kStepAndGapCount),
                              static_cast<std::uint32_t>(1 + seed / 1000 % 20));
          work(mix, recorder, seed);
        });
  }
  void work(const ProcessMix &mix, Recorder *recorder, std::uint64_t seed) {
    Board board(domain_folder(), mix.options);
    map_more(&board);
    if (mixes_.domain().stalls) stall_at_steps(seed);
    const auto act = [&](std::uint64_t number) {
      try {
        const Lane lane = recorder->open_lane();
        state_->reads_durable_only.at(lane.process() - next_process_) =
            mix.options.policies.early_release == EarlyRelease::kOff;
        Actor actor(&board, mixes_.domain(), mix, lane, &*state_, seed + number);
        for (std::uint64_t step = 0; step < mixes_.domain().steps_per_thread && actor.has_room();
             ++step) {
          actor.step();
          ++state_->steps;
        }
      } catch (const std::exception &error) {
        ADD_FAILURE() << error.what();
      }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t number = 1; number < mix.threads; ++number)
      threads.emplace_back(act, number);
    act(0);
    for (std::thread &thread : threads) thread.join();
    state_->hardware_commits += board.hardware_commits();
    board.close();
  }

  // So many more, of all; less where all have ended.
  void wait_for_steps(Children *children, const std::vector<Process> &processes,
                      std::uint64_t count) {
    const std::uint64_t wanted = state_->steps + mixes_.random(count);
    const auto is_over = [&] {
      return state_->steps >= wanted ||
             std::none_of(processes.begin(), processes.end(),
                          [&](const Process &process) { return children->running(process.child); });
    };
    EXPECT_TRUE(poll_until(is_over)) << "hung";
    const timespec pause{0, static_cast<long>(mixes_.random(kAimNs))};
    nanosleep(&pause, nullptr);
  }
  static void bury(Children *children, const Process &process) {
    if (children->running(process.child)) return children->bury(process.child);
    const ChildEnd end = children->wait(process.child);
    EXPECT_TRUE(end.succeeded() || end.signal == SIGKILL) << to_string(process.mix);
  }
  void massacre(Children *children, const std::vector<Process> &processes) {
    wait_for_steps(children, processes, 2 * mixes_.domain().steps_per_thread * processes.size());
    for (const Process &process : processes) children->kill(process.child, SIGKILL);
    for (const Process &process : processes) children->bury(process.child);
    if (mixes_.domain().loses) lose_shared_memory(domain_folder());
  }

  void audit(Recorder *recorder) {
    const ProcessMix mix = mixes_.process();
    expect_child("auditor, " + to_string(mix), [&] {
      Board board(domain_folder(), mix.options);
      map_more(&board);
      Player player(board, recorder->open_lane());
      player.play_at(PlaysAt::kOnlyPages);
      player.query([&] {
        for (history::Cell cell = 0; cell < cells(board); ++cell)
          static_cast<void>(player.read(cell));
      });
      Workload(player, 1).audit();
      EXPECT_EQ(board.domain().collect(), 0U);
      board.close();
    });
  }
  // What the auditor has read is what the next round begins with.
  void judge(const Recorder &recorder, bool has_lost) {
    history::History part = recorder.read();
    part.initial = initial_;
    if (has_lost) {
      const auto reads_durable_only = [&](std::uint32_t process) {
        return state_->reads_durable_only.at(process - next_process_).load();
      };
      const LostCommits lost =
          take_out_lost_commits(&part, {state_->flushed_ns, reads_durable_only});
      std::printf("  %llu commits lost\n", static_cast<unsigned long long>(lost.commits));
      for (const std::string &finding : lost.findings) ADD_FAILURE() << finding;
    }
    const history::Verdict verdict = history::check(part);
    std::printf("  %s", verdict.report().c_str());
    EXPECT_TRUE(verdict.ok());
    for (const history::Instance &instance : part.instances) {
      if (instance.id.process != part.instances.back().id.process) continue;
      for (const history::Operation &operation : instance.operations)
        initial_[operation.cell] = operation.value;
    }
    next_process_ = recorder.next_process();
  }
  void look_at_backup() {
    const ProcessMix mix = mixes_.process();
    expect_child("looks at the backup, " + to_string(mix), [&] {
      Recorder recorder(1, kEntriesPerStep);
      Board board(domain_folder() + ".backup", mix.options);
      map_more(&board);
      Player player(board, recorder.open_lane());
      Workload(player, 1).audit();
      board.close();
    });
  }

  Mixes mixes_;
  const MemoryFolder folder_;
  Shared<MixState> state_;
  std::map<history::Cell, history::Value> initial_;
  std::uint32_t next_process_ = 0;
};

// The number of instances that have committed in RTM.
std::uint64_t play_mixes(MixKind kind) {
  const std::uint64_t usual = environment_number("TMH_LONG", 0) != 0 ? 100 : 4;
  const std::uint64_t mixes = environment_number("TMH_MIXES", usual);
  std::uint64_t hardware_commits = 0;
  // In some mixes level 2 never leaves RTM room.
  const auto is_enough = [&](std::uint64_t played) {
    return played >= mixes &&
           (kind != MixKind::kHardware || hardware_commits != 0 || played >= 10 * mixes);
  };
  for (std::uint64_t i = 0; !is_enough(i) && !testing::Test::HasFailure(); ++i) {
    std::printf("TMH_SEED=%llu: ", static_cast<unsigned long long>(seed() + i));
    MixRun run(seed() + i, kind);
    run.go();
    hardware_commits += run.hardware_commits();
  }
  return hardware_commits;
}

TEST(MixesTest, HistoriesAreRight) { static_cast<void>(play_mixes(MixKind::kAny)); }

TEST(MixesTest, RtmHistoriesAreRight) {
  if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  const std::uint64_t hardware_commits = play_mixes(MixKind::kHardware);
  std::printf("%llu commits in hardware\n", static_cast<unsigned long long>(hardware_commits));
  EXPECT_GT(hardware_commits, 0U);
}

}  // namespace
}  // namespace tmh::test
