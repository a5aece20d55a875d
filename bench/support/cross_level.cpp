// bench/support/cross_level.cpp -- holders of pages at level 1, and what taking the pages from them
// costs.
#include "bench/support/cross_level.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <stdexcept>

#include <tmh/field.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "bench/support/clock.h"
#include "bench/support/team.h"
#include "levels/line/rtm_detection.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

using Word = field<std::uint64_t>;
constexpr useconds_t kPollUs = 200;
// 20 s: longer than any machine needs, shorter than a test's limit
constexpr int kPollsMax = 100'000;

enum Progress : std::uint32_t { kWaits = 0, kGo = 1, kHolds = 2, kEnd = 3, kFailed = 4 };
static_assert(kWaits < kGo && kGo < kHolds && kHolds < kEnd && kEnd < kFailed,
              "await() waits for one, or a later one");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
struct Holders {
  std::atomic<std::uint32_t> progress[4];
};
struct Results {
  double recall[4][kRecallsMax];
  double neighbours[4 * kRecallsMax];
  double release[kRecallsMax];
};

void await(const std::atomic<std::uint32_t> &progress, std::uint32_t wanted) {
  for (int polls = 0; progress.load(std::memory_order_acquire) < wanted; ++polls) {
    if (polls == kPollsMax) throw std::runtime_error("a holder did not answer");
    (void)usleep(kPollUs);
  }
  if (progress.load(std::memory_order_acquire) == kFailed)
    throw std::runtime_error("a holder failed");
}

class View {
 public:
  View(const std::string &folder, std::uint64_t pages, std::uint64_t recalls)
      : pages_(pages), recalls_(recalls) {
    TMH_ASSERT(recalls > 0 && pages > kHolderPages);
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.policies.escalation = "on-capacity";
    domain = Domain::open(folder, options);
    SegmentOptions segment_options;
    segment_options.size_bytes = pages * kPageBytes;
    segment_options.layout = Layout::kRaw;
    segment_ = domain.map("data", segment_options);
  }
  // The i-th page that is measured with a holder in that state.
  [[nodiscard]] Word *word(HolderState state, std::uint64_t i) const {
    TMH_ASSERT(i < recalls_);
    const std::uint64_t stride = (pages_ - kHolderPages) / (4 * recalls_);
    return at((static_cast<std::uint64_t>(state) * recalls_ + i) * stride);
  }
  [[nodiscard]] Word *other(std::uint64_t i) const {
    return at(pages_ - kHolderPages + i % kHolderPages);
  }

  Domain domain;

 private:
  [[nodiscard]] Word *at(std::uint64_t page) const {
    TMH_ASSERT(page < pages_);
    return reinterpret_cast<Word *>(segment_.data() + page * kPageBytes);
  }
  Segment segment_;
  const std::uint64_t pages_, recalls_;
};

struct Plan {
  std::uint64_t pages, recalls;
  bool is_hardware;  // holders run in RTM: plain bodies
  void store(const Site &site, Word *word) const {
    if (is_hardware)
      atomically(site, [&] { ++*word; });
    else
      atomically(site, [&](Fields) { ++*word; });
  }
};

// Uses its pages at level 1, then does what its state says. It never recalls anything, but to find
// its pages for RTM.
void hold(HolderState state, const Plan &plan, const std::string &folder, Holders *holders) {
  TMH_ASSERT(holders != nullptr && plan.recalls <= kRecallsMax);
  std::atomic<std::uint32_t> &progress = holders->progress[static_cast<std::size_t>(state)];
  await(progress, kGo);
  const View view(folder, plan.pages, plan.recalls);
  const Site site(view.domain, "holder");
  for (std::uint64_t i = 0; i < plan.recalls; ++i) plan.store(site, view.word(state, i));
  progress.store(kHolds, std::memory_order_release);
  for (std::uint64_t i = 0; progress.load(std::memory_order_acquire) != kEnd; ++i) {
    if (state == HolderState::kRunning)
      plan.store(site, view.other(i));
    else
      (void)usleep(10 * kPollUs);
  }
}

pid_t start_holder(HolderState state, const Plan &plan, const std::string &folder,
                   Holders *holders) {
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid > 0) return pid;
  try {
    hold(state, plan, folder, holders);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "holder: %s\n", error.what());
    holders->progress[static_cast<std::size_t>(state)].store(kFailed, std::memory_order_release);
    ::_exit(1);
  }
  ::_exit(0);
}

void end_holder(pid_t pid, HolderState state, Holders *holders) {
  TMH_ASSERT(pid > 0 && holders != nullptr);
  holders->progress[static_cast<std::size_t>(state)].store(kEnd, std::memory_order_release);
  if (state == HolderState::kStopped) (void)::kill(pid, SIGCONT);
  int status = 0;
  (void)::waitpid(pid, &status, 0);
}

double us_since(std::int64_t begin) { return static_cast<double>(now_ns() - begin) / 1e3; }

void measure(const Plan &plan, const std::string &folder, Results *results) {
  TMH_ASSERT(results != nullptr && plan.recalls <= kRecallsMax);
  const std::uint64_t recalls = plan.recalls;
  const Shared<Holders> holders;
  pid_t pids[4];  // forked before this process opens the domain
  for (const HolderState state : kHolderStates)
    pids[static_cast<std::size_t>(state)] = start_holder(state, plan, folder, &*holders);
  const View view(folder, plan.pages, recalls);
  const Site site(view.domain, "measuring");
  // Its releases will be timed: home is mapped here before, because the kernel's first mapping of a
  // file page is no part of a release.
  for (std::uint64_t i = 0; i < recalls; ++i) plan.store(site, view.word(HolderState::kRunning, i));
  for (const HolderState state : kHolderStates) {
    const auto number = static_cast<std::size_t>(state);
    holders->progress[number].store(kGo, std::memory_order_release);
    await(holders->progress[number], kHolds);
    int status = 0;
    if (state == HolderState::kStopped) {
      (void)::kill(pids[number], SIGSTOP);
      (void)::waitpid(pids[number], &status, WUNTRACED);
    }
    if (state == HolderState::kDead) {
      (void)::kill(pids[number], SIGKILL);
      (void)::waitpid(pids[number], &status, 0);
    }
    for (std::uint64_t i = recalls; i-- > 0;) {  // backwards: no touch takes the next page ahead
      const Word *word = view.word(state, i);
      view.domain.begin();
      std::int64_t begin = now_ns();
      const std::uint64_t unused = word[kPageBytes / sizeof(Word)].load();
      results->neighbours[number * recalls + i] = us_since(begin);
      (void)view.domain.end();
      view.domain.begin();
      begin = now_ns();
      const std::uint64_t value = word->load();
      results->recall[number][i] = us_since(begin);
      (void)view.domain.end();
      if (value != (state == HolderState::kRunning ? 2 : 1) || unused != 0)
        throw std::runtime_error("a recalled page does not show its holder's commit");
    }
    if (state != HolderState::kDead) end_holder(pids[number], state, &*holders);
  }
  if (plan.is_hardware) {
    if (view.domain.counters().hardware_recalled < 4 * recalls)
      throw std::runtime_error("a page was not in H");
    return;
  }
  for (std::uint64_t i = 0; i < recalls; ++i) {
    const std::int64_t begin = now_ns();
    plan.store(site, view.word(HolderState::kRunning, i));
    results->release[i] = us_since(begin);
  }
  if (view.domain.counters().releases < recalls)
    throw std::runtime_error("a page was not released");
}

}  // namespace

const char *to_string(HolderState state) noexcept {
  switch (state) {
    case HolderState::kRunning:
      return "running";
    case HolderState::kSleeping:
      return "sleeping";
    case HolderState::kStopped:
      return "stopped";
    case HolderState::kDead:
      return "dead";
  }
  return "?";
}

std::string why_no_rtm() {
  const line::RtmReport &report = line::detect_rtm();
  return report.is_usable ? std::string() : report.reason;
}

ModeSwitchCosts measure_mode_switch(std::uint64_t pages, std::uint64_t switches,
                                    const std::string &folder) {
  constexpr std::uint64_t kInstances = 16;  // pages of H, each with an instance of its own
  static_assert(kInstances <= kHolderPages);
  const View view(folder, pages, 1);
  const Site site(view.domain, "rtm");
  const auto store = [&](Word *word) { atomically(site, [&] { ++*word; }); };
  for (std::uint64_t i = 0; i < kInstances; ++i) store(view.other(i));
  ModeSwitchCosts costs;
  for (std::uint64_t i = 0; i < switches; ++i) {
    std::int64_t begin = now_ns();
    store(view.other(i));
    costs.to_lines.push_back(us_since(begin));
    begin = now_ns();
    view.domain.begin();
    costs.to_pages.push_back(us_since(begin));
    (void)view.domain.end();
  }
  if (view.domain.counters().mode_switches < 2 * switches)
    throw std::runtime_error("the mode did not switch");
  return costs;
}

CrossLevelCosts measure_cross_level(std::uint64_t pages, std::uint64_t recalls,
                                    const std::string &folder, bool is_hardware) {
  if (recalls > kRecallsMax || 8 * recalls + kHolderPages > pages)
    throw std::invalid_argument("too many recalls");
  const Shared<Results> results;
  run_alone([&] { measure({pages, recalls, is_hardware}, folder, &*results); });
  CrossLevelCosts costs;
  for (std::size_t state = 0; state < 4; ++state)
    costs.recall[state].assign(results->recall[state], results->recall[state] + recalls);
  costs.neighbours.assign(results->neighbours, results->neighbours + 4 * recalls);
  if (!is_hardware) costs.release.assign(results->release, results->release + recalls);
  return costs;
}

}  // namespace tmh::bench
