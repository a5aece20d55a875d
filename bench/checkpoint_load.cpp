// bench/checkpoint_load.cpp -- what a checkpoint costs those who commit meanwhile.
// Shape:   --processes committers (random pages of one segment, strict) and one process that takes
//          a checkpoint, rests, takes the next. A commit's latency counts as "during" when a
//          checkpoint ran at its begin or at its end, else as "between".
// Checked: every page holds what its last committer stored; at least one checkpoint finished.
// Source:  docs/design.md D6 (a checkpoint does not stop transactions); LIBTP, section 3.2.1.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/transaction.hpp>

#include "bench/support/clock.h"
#include "bench/support/environment.h"
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
  double seconds = 8;
  unsigned processes = 2;
  std::uint32_t pages = 16'384;
  std::uint32_t pages_per_commit = 4;
  double rest_ms = 300;
};

constexpr std::size_t kSamplesMax = 1u << 18;  // per committer and class
constexpr unsigned kProcessesMax = 32;
static_assert(kProcessesMax < kTeamMembersMax, "who takes checkpoints is a member, too");

struct Samples {
  std::uint32_t count = 0;
  float us[kSamplesMax];
  void add(double value) {
    if (count < kSamplesMax) us[count++] = static_cast<float>(value);
  }
};

struct Committer {
  Samples during, between;
};

static_assert(std::atomic<bool>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "processes share them");
constexpr std::uint32_t kCheckpointsMax = 1024;  // later ones take the places of the first
struct State {
  std::atomic<bool> checkpointing{false};
  std::atomic<std::uint32_t> checkpoints{0};
  double checkpoint_ms[kCheckpointsMax] = {};
};

class CheckpointLoad {
 public:
  explicit CheckpointLoad(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (!options_.common.tiny) return;
    options_.seconds = 0.4;
    options_.pages = 512;
    options_.rest_ms = 30;
  }

  int run() {
    Report report("checkpoint_load", environment(scratch_.path()), parameters());
    report.print_head();
    const std::string folder = scratch_.subfolder("domain");
    const Shared<State> state;
    const SharedMemory memory(options_.processes * sizeof(Committer));
    auto *committers = static_cast<Committer *>(memory.data());
    (void)run_team_ns(options_.processes + 1, [&](unsigned index, const TeamClock &clock) {
      const Domain domain = open(folder);
      const Segment segment = map(domain);
      clock.start();
      const std::int64_t end_ns = now_ns() + static_cast<std::int64_t>(options_.seconds * 1e9);
      if (index == options_.processes)
        take_checkpoints(domain, end_ns, &*state);
      else
        commit(domain, segment, index, end_ns, *state, &committers[index]);
      clock.finish();
    });
    return show(*state, committers, &report);
  }

 private:
  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["seconds"] = options_.seconds;
    all["processes"] = options_.processes;
    all["pages"] = options_.pages;
    all["pages_per_commit"] = options_.pages_per_commit;
    all["rest_ms"] = options_.rest_ms;
    return all;
  }

  static Domain open(const std::string &folder) {
    Mode mode;
    mode.name = "auto";
    mode.durability = Durability::kStrict;
    return open_domain(mode, folder);
  }

  Segment map(const Domain &domain) const {
    SegmentOptions options;
    options.size_bytes = std::uint64_t{options_.pages} * kPageBytes;
    options.layout = Layout::kRaw;
    return domain.map("pages", options);
  }

  // Each committer has pages of its own, so that aborts do not blur the latencies.
  void commit(const Domain &domain, const Segment &segment, unsigned index, std::int64_t end_ns,
              const State &state, Committer *out) const {
    TMH_ASSERT(out != nullptr && index < options_.processes);
    Random random(options_.common.seed + index);
    const std::uint64_t share = options_.pages / options_.processes;
    TMH_ASSERT(share > 0);
    for (std::uint64_t number = 1; now_ns() < end_ns; ++number) {
      const bool before = state.checkpointing.load(std::memory_order_relaxed);
      const std::int64_t start = now_ns();
      atomically(domain, [&] {
        for (std::uint32_t i = 0; i < options_.pages_per_commit; ++i) {
          auto *words = reinterpret_cast<std::uint64_t *>(
              segment.data() + (index * share + random.below(share)) * kPageBytes);
          words[0] = words[511] = number;
        }
      });
      const double us = static_cast<double>(now_ns() - start) / 1e3;
      const bool during = before || state.checkpointing.load(std::memory_order_relaxed);
      (during ? out->during : out->between).add(us);
    }
    std::uint64_t wrong = 0;
    query(domain, [&] {
      for (std::uint64_t page = index * share; page < (index + 1) * share; ++page) {
        const auto *words =
            reinterpret_cast<const std::uint64_t *>(segment.data() + page * kPageBytes);
        wrong += words[0] != words[511] ? 1 : 0;
      }
    });
    if (wrong != 0) throw std::runtime_error(std::to_string(wrong) + " pages hold half a commit");
  }

  void take_checkpoints(const Domain &domain, std::int64_t end_ns, State *state) const {
    TMH_ASSERT(state != nullptr);
    const auto rest_ns = static_cast<long>(options_.rest_ms * 1e6);
    while (now_ns() < end_ns) {
      const timespec rest{rest_ns / 1'000'000'000, rest_ns % 1'000'000'000};
      (void)::nanosleep(&rest, nullptr);
      const std::uint32_t number = state->checkpoints.load(std::memory_order_relaxed);
      const std::int64_t start = now_ns();
      state->checkpointing.store(true, std::memory_order_relaxed);
      domain.checkpoint();
      state->checkpointing.store(false, std::memory_order_relaxed);
      state->checkpoint_ms[number % kCheckpointsMax] = static_cast<double>(now_ns() - start) / 1e6;
      state->checkpoints.store(number + 1, std::memory_order_relaxed);
    }
  }

  int show(const State &state, const Committer *committers, Report *report) const {
    TMH_ASSERT(committers != nullptr && report != nullptr);
    std::vector<double> during, between;
    for (unsigned i = 0; i < options_.processes; ++i) {
      during.insert(during.end(), committers[i].during.us,
                    committers[i].during.us + committers[i].during.count);
      between.insert(between.end(), committers[i].between.us,
                     committers[i].between.us + committers[i].between.count);
    }
    const std::uint32_t taken = std::min(state.checkpoints.load(), kCheckpointsMax);
    const std::vector<double> lengths(state.checkpoint_ms, state.checkpoint_ms + taken);
    Table table({"strict commits", "count", "median us", "p99", "p99.9", "max"});
    for (const auto &[name, samples] :
         {std::pair{"between checkpoints", &between}, {"during a checkpoint", &during}}) {
      Json row;
      row["commits"] = samples->size();
      std::vector<std::string> cells{name, std::to_string(samples->size())};
      for (const auto &[key, q] :
           {std::pair{"median_us", 0.5}, {"p99_us", 0.99}, {"p999_us", 0.999}, {"max_us", 1.0}}) {
        row[key] = quantile(*samples, q);
        cells.push_back(number(quantile(*samples, q)));
      }
      table.add(std::move(cells));
      report->add(name, std::move(row));
    }
    table.print();
    const double ratio = quantile(during, 0.99) / std::max(1e-9, quantile(between, 0.99));
    std::printf("%u checkpoints, median %s ms; p99 during / between: %s (wanted: at most 3)\n",
                taken, number(quantile(lengths, 0.5)).c_str(), number(ratio).c_str());
    report->note("p99_ratio", ratio);
    report->note("checkpoints", taken);
    report->write(options_.common.csv, options_.common.json);
    return taken > 0 ? 0 : 1;
  }

  Options options_;
  ScratchFolder scratch_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Latency of strict commits while checkpoints are taken",
                              "checkpoint_load");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--seconds", options.seconds, "how long").capture_default_str();
  app.add_option("--processes", options.processes, "committers")
      .capture_default_str()
      .check_range(1, tmh::bench::kProcessesMax);
  app.add_option("--pages", options.pages, "pages of the segment")
      .capture_default_str()
      .check_range(tmh::bench::kProcessesMax, 1u << 24);
  app.add_option("--pages-per-commit", options.pages_per_commit, "pages that a commit writes")
      .capture_default_str();
  app.add_option("--rest-ms", options.rest_ms, "between two checkpoints").capture_default_str();
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::CheckpointLoad(options).run(); });
}
