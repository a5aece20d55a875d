// bench/wake.cpp -- how long a change takes to reach who sleeps for it in retry(), and what
// sleeping costs.
// Shape:   two processes hand a word to and fro: each waits until the word is its own, and changes
//          it. Beside retry() at each level stand what the kernel offers for it: a futex in shared
//          memory, and a pair of pipes. rested: the same one way, each time after a pause, so that
//          the other one has slept for a while. idle: one process sleeps in retry() for a while in
//          which nothing happens; its processor time is the part of a core that sleeping costs.
// Checked: the word has gone to and fro as often as it should.
// Source:  Composable Memory Transactions (retry).
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 7;
  std::uint64_t handovers = 20'000, rested = 100;
  double idle_seconds = 2;
};

// A word that one process sets and another waits for.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void open() {}  // in each process
  virtual void set(std::uint64_t value) = 0;
  virtual void await(std::uint64_t value) = 0;
};

class FutexChannel final : public Channel {
  using Futex = std::atomic<std::uint32_t>;
  static_assert(sizeof(Futex) == sizeof(std::uint32_t) && Futex::is_always_lock_free,
                "the kernel looks at the word itself");

 public:
  void set(std::uint64_t value) override {
    TMH_ASSERT(value <= std::numeric_limits<std::uint32_t>::max());
    word_->store(static_cast<std::uint32_t>(value), std::memory_order_release);
    syscall(SYS_futex, &*word_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  void await(std::uint64_t value) override {
    for (;;) {
      const std::uint32_t seen = word_->load(std::memory_order_acquire);
      if (seen == value) return;
      syscall(SYS_futex, &*word_, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    }
  }

 private:
  Shared<Futex> word_;
};

// A pipe for each direction: odd values go one way, even ones the other.
class PipeChannel final : public Channel {
 public:
  PipeChannel() {
    for (auto &ends : ends_)
      if (pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  ~PipeChannel() override {
    for (const auto &ends : ends_)
      for (const int end : ends) close(end);
  }
  PipeChannel(const PipeChannel &) = delete;
  PipeChannel &operator=(const PipeChannel &) = delete;
  void set(std::uint64_t value) override {
    if (write(ends_[value % 2][1], &value, sizeof value) != sizeof value)
      throw std::runtime_error("write to a pipe");
  }
  void await(std::uint64_t value) override {
    if (value == 0) return;  // nobody sets it
    std::uint64_t got = 0;
    if (read(ends_[value % 2][0], &got, sizeof got) != sizeof got || got != value)
      throw std::runtime_error("read from a pipe");
  }

 private:
  std::array<std::array<int, 2>, 2> ends_{};
};

class RetryChannel final : public Channel {
 public:
  RetryChannel(std::string folder, const char *escalation)
      : folder_(std::move(folder)), escalation_(escalation) {
    TMH_ASSERT(!folder_.empty() && escalation != nullptr);
  }
  void open() override {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    domain_ = Domain::open(folder_, options);
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = kPageBytes;
    segment_ = domain_.map("word.db", raw);
    site_.emplace(domain_, "wake", escalation_);
  }
  void set(std::uint64_t value) override {
    TMH_ASSERT(site_.has_value());
    atomically(*site_, [&](Fields) { word() = value; });
  }
  void await(std::uint64_t value) override {
    TMH_ASSERT(site_.has_value());
    atomically(*site_, [&](Fields) {
      if (word() != value) retry();
    });
  }
  [[nodiscard]] Counters counters() const { return domain_.counters(); }
  // Sleeps for a value that never comes.
  void sleep_for(double seconds) {
    TMH_ASSERT(site_.has_value() && seconds > 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    atomically(*site_, [&](Fields) {
      if (word() == ~0ull || std::chrono::steady_clock::now() >= deadline) return;
      retry_until(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(deadline));
    });
  }

 private:
  [[nodiscard]] field<std::uint64_t> &word() const {
    return *reinterpret_cast<field<std::uint64_t> *>(segment_.data());
  }
  std::string folder_;
  const char *escalation_;
  Domain domain_;
  Segment segment_;
  std::optional<Site> site_;
};

struct Way {
  const char *name, *escalation;  // escalation: null: no transactions
};
constexpr std::array<Way, 4> kWays = {
    {{"futex", nullptr}, {"pipes", nullptr}, {"level 1", "never"}, {"level 2", "always"}}};

static_assert(kWays[0].escalation == nullptr && std::string_view(kWays[0].name) == "futex",
              "ratios are to it");

constexpr std::chrono::milliseconds kRest{10};

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class WakeBench {
 public:
  explicit WakeBench(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (options_.common.tiny) options_ = {options_.common, 1, 50, 3, 0.05};
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["rounds"] = options_.rounds;
    parameters["handovers"] = options_.handovers;
    parameters["rested"] = options_.rested;
    parameters["idle_seconds"] = options_.idle_seconds;
    Report report("wake", environment(scratch_.path()), parameters);
    report.print_head();
    std::vector<const Way *> order;
    for (const Way &way : kWays) order.push_back(&way);
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (const Way *way : order) {
        handovers_[way].push_back(hand_over(*way));
        rested_[way].push_back(hand_over_rested(*way));
        if (way->escalation != nullptr) idle_[way].push_back(sleep(*way));
      }
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
    print(&report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  std::unique_ptr<Channel> channel(const Way &way) {
    if (way.escalation != nullptr)
      return std::make_unique<RetryChannel>(
          scratch_.subfolder("domain-" + std::to_string(measured_++)), way.escalation);
    if (way.name[0] == 'f') return std::make_unique<FutexChannel>();
    return std::make_unique<PipeChannel>();
  }

  // Microseconds from one process's change to the other's.
  double hand_over(const Way &way) {
    TMH_ASSERT(options_.handovers >= 2);
    const std::unique_ptr<Channel> word = channel(way);
    const std::uint64_t each = options_.handovers / 2;
    const double ns = run_team_ns(2, [&](unsigned index, const TeamClock &clock) {
      word->open();
      clock.start();
      for (std::uint64_t i = 0; i < each; ++i) {
        word->await(2 * i + index);
        word->set(2 * i + index + 1);
      }
      clock.finish();
      if (index == 0) word->await(2 * each);
      clock.meet();
    });
    return ns / 1000 / static_cast<double>(2 * each);
  }

  // Median microseconds.
  double hand_over_rested(const Way &way) {
    TMH_ASSERT(options_.rested > 0);
    const std::unique_ptr<Channel> word = channel(way);
    const Shared<std::atomic<std::int64_t>> set_at_ns;
    const Shared<double> median_us;
    (void)run_team_ns(2, [&](unsigned index, const TeamClock &clock) {
      word->open();
      clock.start();
      std::vector<double> us;
      for (std::uint64_t i = 0; i < options_.rested; ++i) {
        if (index == 0) {
          word->await(2 * i);
          std::this_thread::sleep_for(kRest);
          *set_at_ns = now_ns();
          word->set(2 * i + 1);
        } else {
          word->await(2 * i + 1);
          us.push_back(static_cast<double>(now_ns() - *set_at_ns) / 1000);
          word->set(2 * i + 2);
        }
      }
      if (index == 0)
        word->await(2 * options_.rested);
      else
        *median_us = summarize(us).median;
      clock.meet();
    });
    return *median_us;
  }

  // Per cent of a core.
  double sleep(const Way &way) {
    TMH_ASSERT(way.escalation != nullptr && options_.idle_seconds > 0);
    RetryChannel word(scratch_.subfolder("domain-" + std::to_string(measured_++)), way.escalation);
    const Shared<double> used;
    (void)run_team_ns(1, [&](unsigned, const TeamClock &clock) {
      word.open();
      clock.start();
      const double before = processor_seconds();
      word.sleep_for(options_.idle_seconds);
      *used = processor_seconds() - before;
    });
    return 100 * *used / options_.idle_seconds;
  }

  void print(Report *report) const {
    TMH_ASSERT(report != nullptr);
    Table table({"by", "us per handover", "x futex", "us, rested", "x futex", "idle, % of a core"});
    for (const Way &way : kWays) {
      const std::vector<double> &us = handovers_.at(&way);
      Json line;
      line["way"] = way.name;
      put(line, "us_per_handover", summarize(us));
      const std::vector<double> &rested = rested_.at(&way);
      put(line, "us_rested", summarize(rested));
      std::string idle = "-";
      if (way.escalation != nullptr) {
        const Summary percent = summarize(idle_.at(&way));
        put(line, "idle_percent", percent);
        idle = with_mad(percent);
      }
      table.add({way.name, with_mad(summarize(us)),
                 with_mad(summarize_ratio(us, handovers_.at(&kWays[0]))),
                 with_mad(summarize(rested)),
                 with_mad(summarize_ratio(rested, rested_.at(&kWays[0]))), idle});
      report->add("wake", std::move(line));
    }
    std::printf("\nA word handed to and fro between two processes, median ±MAD %% of %zu rounds\n",
                options_.rounds);
    table.print();
    std::printf("\nevery handover was seen\n");
  }

  Options options_;
  ScratchFolder scratch_;
  std::map<const Way *, std::vector<double>> handovers_, rested_, idle_;
  std::uint64_t measured_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app(
      "What waiting for a change costs: retry() beside the kernel's own ways", "wake");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str();
  app.add_option("--handovers", options.handovers, "of one round")
      .capture_default_str()
      .check_range(2, 1u << 30);
  app.add_option("--rested", options.rested, "handovers after a pause, of one round")
      .capture_default_str()
      .check_positive();
  app.add_option("--idle-seconds", options.idle_seconds, "of one sleep")
      .capture_default_str()
      .check_positive();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::WakeBench(options).run(); });
}
