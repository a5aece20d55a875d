// tools/top_view.cpp -- see top_view.h.
#include "tools/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "platform/assert.h"
#include "storage/latency.h"
#include "tools/moment.h"
#include "tools/shared_latency.h"

namespace tmh::tools {

namespace {

using Lines = std::vector<std::string>;
using Series = std::vector<LatencySeries>;

// Names come from shared memory: a control character would do something to the terminal, and others
// may be wider than one column.
std::string fitted(const std::string &text, std::size_t columns) {
  std::string out = text.substr(0, columns);
  for (char &c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

// What shrank was counted anew: a total does so for a moment while a participant leaves, and when
// the domain was opened anew.
std::uint64_t grown(std::uint64_t from, std::uint64_t to) { return to > from ? to - from : 0; }

class View {
 public:
  View(const TopSample &before, const TopSample &now, const TopLook &look)
      : before_(before),
        now_(now),
        look_(look),
        seconds_(static_cast<double>(
                     std::max<std::uint64_t>(1, now.monotonic_ns - before.monotonic_ns)) /
                 1e9) {}

  Lines lines() {
    TMH_ASSERT(look_.columns > 0);
    add_head();
    if (!now_.shared.has_state) {
      add("closed: nobody has the domain open, so there is no shared memory with counters");
    } else {
      add_levels();
      add_causes();
      add_log();
      add_locks();
      add_readers();
      add_processes();
      add_segments();
      add_sites();
    }
    fit();
    if (has_key_line())
      out_.push_back(fmt::format("q quit  space {}  s sort: {}",
                                 look_.is_paused ? "go on" : "pause", name_of(look_.sort)));
    for (std::string &line : out_) line = fitted(line, look_.columns);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_durable() const { return now_.durability != "none"; }
  [[nodiscard]] bool has_key_line() const { return look_.has_keys && look_.rows != 1; }
  void add(std::string line) { out_.push_back(std::move(line)); }
  [[nodiscard]] double per_second(std::uint64_t from, std::uint64_t to) const {
    return static_cast<double>(grown(from, to)) / seconds_;
  }

  void add_head() {
    const std::string time = moment_text(now_.time_ns);
    const SharedCounters &shared = now_.shared;
    const auto alive = std::count_if(shared.participants.begin(), shared.participants.end(),
                                     [](const ParticipantCounters &one) { return one.is_alive; });
    std::string line =
        fmt::format("tmh top {}  {}", time.size() > 19 ? time.substr(11, 8) : time, look_.folder);
    if (look_.is_paused) line += "  PAUSED";
    add(line);
    if (!shared.has_state) return;
    line = fmt::format("{}, durability {}, {} detection; {}", shared.is_hybrid ? "hybrid" : "page",
                       now_.durability, now_.detection,
                       counted(static_cast<std::uint64_t>(alive), "participant"));
    if (alive == 0) line += ": everybody died";
    add(line + fmt::format("; clock {}", shared.clock));
  }

  // Commits, aborts and latencies of one level, in the time between the samples.
  void add_level(LatencyLevel level, double commits, double aborts) {
    const auto is_of = [level](const LatencySeries &one) {
      return one.level == level && one.outcome == AbortCause::kNone;
    };
    const Histogram all = sum_of(now_.shared.latencies, is_of);
    const Histogram fresh = all.since(sum_of(before_.shared.latencies, is_of));
    const char *const name = level == LatencyLevel::kLog ? "fsyncs" : to_string(level);
    std::string line =
        fmt::format("{:<9}{:>11}{:>10}", name, rate_text(commits), rate_text(aborts));
    if (fresh.count() == 0) {
      add(line);
      return;
    }
    for (const double fraction : {0.5, 0.9, 0.99, 0.999})
      line += fmt::format(" {:>8}", ns_text(fresh.quantile_ns(fraction)));
    // The longest since the domain was opened is not that of the last second; its bucket is.
    add(line + fmt::format(" {:>8}", ns_text(fresh.quantile_ns(1))));
  }

  void add_levels() {
    const Counters &a = before_.shared.total, &b = now_.shared.total;
    add(fmt::format("{:<9}{:>11}{:>10} {:>8} {:>8} {:>8} {:>8} {:>8}", "level", "commits/s",
                    "aborts/s", "p50", "p90", "p99", "p99.9", "max"));
    if (now_.shared.is_hybrid) {
      add_level(LatencyLevel::kLines, per_second(a.line_commits, b.line_commits),
                per_second(sum(a.line_aborts), sum(b.line_aborts)));
      if (b.hardware_commits != 0 || hardware_aborts(b) != 0)
        add_level(LatencyLevel::kHardware, per_second(a.hardware_commits, b.hardware_commits),
                  per_second(hardware_aborts(a), hardware_aborts(b)));
    }
    add_level(LatencyLevel::kPages, per_second(a.commits, b.commits),
              per_second(a.aborts_total(), b.aborts_total()));
    add_level(LatencyLevel::kQueries, per_second(a.queries, b.queries), 0);
    if (is_durable()) add_level(LatencyLevel::kLog, per_second(a.log_flushes, b.log_flushes), 0);
  }

  static std::uint64_t sum(const std::uint64_t (&aborts)[kAbortCauseCount]) {
    std::uint64_t all = 0;
    for (const std::uint64_t one : aborts) all += one;
    return all;
  }
  static std::uint64_t hardware_aborts(const Counters &of) {
    return of.hardware_conflicts + of.hardware_capacity + of.hardware_zero + of.hardware_explicit +
           of.hardware_other;
  }

  struct Growth {
    std::string name;
    std::uint64_t from, to;
  };
  // What has grown, in as many lines as that takes.
  void add_rates(std::string line, const std::vector<Growth> &all) {
    const std::size_t empty = line.size();
    for (const auto &[name, from, to] : all) {
      if (grown(from, to) == 0) continue;
      const std::string text = fmt::format("  {} {}", name, rate_text(per_second(from, to)));
      if (line.size() > empty && line.size() + text.size() > look_.columns) {
        add(line);
        line = std::string(empty, ' ');
      }
      line += text;
    }
    if (line.size() > empty) add(line);
  }

  void add_causes() {
    std::vector<Growth> all;
    const auto cause = [&](const std::string &name, std::uint64_t from, std::uint64_t to) {
      all.push_back({name, from, to});
    };
    const Counters &a = before_.shared.total, &b = now_.shared.total;
    for (std::size_t i = 1; i < kAbortCauseCount; ++i)
      cause(std::string("lines:") + cause_name(static_cast<AbortCause>(i)), a.line_aborts[i],
            b.line_aborts[i]);
    cause("rtm:conflict", a.hardware_conflicts, b.hardware_conflicts);
    cause("rtm:capacity", a.hardware_capacity, b.hardware_capacity);
    cause("rtm:zero", a.hardware_zero, b.hardware_zero);
    cause("rtm:explicit", a.hardware_explicit, b.hardware_explicit);
    cause("rtm:other", a.hardware_other, b.hardware_other);
    for (std::size_t i = 1; i < kAbortCauseCount; ++i)
      cause(std::string("pages:") + cause_name(static_cast<AbortCause>(i)), a.aborts[i],
            b.aborts[i]);
    add_rates("aborts/s:", all);
    if (now_.shared.is_hybrid)
      add(fmt::format("between levels: recalls/s {}  releases/s {}  mode switches/s {}",
                      rate_text(per_second(a.recalls, b.recalls)),
                      rate_text(per_second(a.releases, b.releases)),
                      rate_text(per_second(a.mode_switches, b.mode_switches))));
    all.clear();
    for (std::size_t i = 0; i < kNeedCount; ++i)
      cause(to_string(static_cast<Need>(i)), a.escalations_by_need[i], b.escalations_by_need[i]);
    add_rates("needs pages/s:", all);
  }

  // The oldest moment of the history: "from 12:30:05, 3.20 s ago".
  [[nodiscard]] std::string since_text() const {
    const std::uint64_t since = now_.shared.past_since_ns;
    if (since == 0) return fmt::format(" from commit {}", now_.shared.total.past_horizon);
    const std::uint64_t age_ns = now_.time_ns > since ? now_.time_ns - since : 0;
    constexpr std::uint64_t kDayNs = 86'400'000'000'000;
    const std::string when = moment_text(since);  // "2024-11-21 12:30:05.000000"
    return fmt::format(" from {}, {} ago",
                       age_ns < kDayNs ? when.substr(11, 8) : when.substr(0, 19),
                       duration_text(age_ns / 1000));
  }

  void add_log() {
    const Counters &a = before_.shared.total, &b = now_.shared.total;
    std::string line =
        fmt::format("versions {} ({})", b.versions_live, bytes_text(b.versions_bytes));
    if (b.past_pages != 0 || b.past_horizon != 0)
      line += fmt::format("  past {} ({}){}", b.past_pages, bytes_text(b.past_bytes),
                          b.past_horizon == 0 ? "" : since_text());
    if (is_durable()) {
      const std::uint64_t flushes = grown(a.log_flushes, b.log_flushes),
                          commits = grown(a.log_commits, b.log_commits);
      line +=
          fmt::format("  log {}/s",
                      bytes_text(static_cast<std::uint64_t>(per_second(a.log_bytes, b.log_bytes))));
      if (flushes != 0)
        line += fmt::format("  commits per fsync {:.2f}",
                            static_cast<double>(commits) / static_cast<double>(flushes));
      line += fmt::format("  checkpoints {}", b.checkpoints);
    }
    if (b.page_cache_pages != 0)
      line += fmt::format("  own copies {}", bytes_text(b.page_cache_pages * kPageBytes));
    add(line);
  }

  void add_locks() {
    const LockTotals &a = before_.locks, &b = now_.locks;
    if (!b.is_there) return;
    const auto rate = [&](lock::LockCount which) {
      return rate_text(per_second(a[which], b[which]));
    };
    std::string line = fmt::format("locks/s {}  waits/s {}", rate(lock::LockCount::kLocks),
                                   rate(lock::LockCount::kWaits));
    if (const Histogram fresh = b.wait_times.since(a.wait_times); fresh.count() != 0)
      line += fmt::format("  mean {}  p99 {}", ns_text(static_cast<std::uint64_t>(fresh.mean_ns())),
                          ns_text(fresh.quantile_ns(0.99)));
    add(line + fmt::format("  deadlocks/s {}", rate(lock::LockCount::kDeadlocks)));
    const auto by_heirs = per_second(a[lock::UndoneBy::kHeir], b[lock::UndoneBy::kHeir]);
    add(fmt::format("with locks: commits/s {}  rollbacks/s {}, by heirs {}  time-outs/s {}",
                    rate(lock::LockCount::kCommits),
                    rate_text(per_second(a.rolled_back(), b.rolled_back())), rate_text(by_heirs),
                    rate(lock::LockCount::kTimeouts)));
  }

  // The reader of the oldest snapshot keeps versions that came later.
  void add_readers() {
    std::vector<const ParticipantCounters *> readers;
    for (const ParticipantCounters &one : now_.shared.participants)
      if (one.instance_us >= kSlowUs && one.snapshot <= now_.shared.clock) readers.push_back(&one);
    std::sort(readers.begin(), readers.end(),
              [](const auto *a, const auto *b) { return a->snapshot < b->snapshot; });
    if (readers.size() > kReadersMax) readers.resize(kReadersMax);
    for (const ParticipantCounters *one : readers) {
      const std::uint64_t behind = now_.shared.clock - one->snapshot;
      std::string line = fmt::format("slow: {} ({}) {} {}, {} behind", one->pid,
                                     fitted(one->name, 20), one->is_query ? "query" : "update",
                                     duration_text(one->instance_us), counted(behind, "commit"));
      if (one == readers.front() && behind != 0)
        line += fmt::format(", holds up to {}", bytes_text(now_.shared.total.versions_bytes));
      add(line);
    }
  }

  struct Process {
    const ParticipantCounters *now;
    double commits, aborts, queries;
  };

  [[nodiscard]] Process rates_of(const ParticipantCounters &now) const {
    static const ParticipantCounters kNew;
    const auto &all = before_.shared.participants;
    const auto at = std::find_if(all.begin(), all.end(), [&](const ParticipantCounters &one) {
      return one.slot == now.slot && one.pid == now.pid;
    });
    const Counters &a = (at == all.end() ? kNew : *at).counters, &b = now.counters;
    return {
        &now, per_second(a.commits + a.line_commits, b.commits + b.line_commits),
        per_second(a.aborts_total() + sum(a.line_aborts), b.aborts_total() + sum(b.line_aborts)),
        per_second(a.queries, b.queries)};
  }

  void add_processes() {
    std::vector<Process> all;
    for (const ParticipantCounters &one : now_.shared.participants) all.push_back(rates_of(one));
    std::stable_sort(all.begin(), all.end(), [this](const Process &a, const Process &b) {
      switch (look_.sort) {
        case TopSort::kCommits:
          return a.commits > b.commits;
        case TopSort::kAborts:
          return a.aborts > b.aborts;
        case TopSort::kAge:
          return a.now->instance_us > b.now->instance_us;
        case TopSort::kPid:
          break;
      }
      return a.now->pid < b.now->pid;
    });
    add("");
    add(fmt::format("{:>8} {:<16} {:<5} {:>9} {:>8} {:>9}  {}", "pid", "name", "mode", "commits/s",
                    "aborts/s", "queries/s", "instance"));
    processes_at_ = out_.size();
    for (const Process &one : all) {
      std::string running = one.now->instance_us == 0
                                ? "-"
                                : fmt::format("{} {}", one.now->is_query ? "query" : "update",
                                              duration_text(one.now->instance_us));
      if (one.now->is_stopped)
        running = one.now->instance_us == 0 ? "stopped" : "stopped, " + running;
      if (!one.now->is_alive) running = "dead";
      add(fmt::format("{:>8} {:<16} {:<5} {:>9} {:>8} {:>9}  {}", one.now->pid,
                      fitted(one.now->name, 16), one.now->in_line_mode ? "line" : "page",
                      rate_text(one.commits), rate_text(one.aborts), rate_text(one.queries),
                      running));
    }
    processes_end_ = out_.size();
  }

  void add_segments() {
    for (const SegmentSight &segment : now_.segments) {
      add("");
      std::string line =
          fmt::format("{}: {}", fitted(segment.name, 24), counted(segment.pages, "page"));
      if (segment.looked_at < segment.pages)
        line += fmt::format(", {} looked at", segment.looked_at);
      std::uint64_t above = 0;
      for (std::size_t i = 0; i < kPageSights; ++i) {
        const auto sight = static_cast<PageSight>(i);
        if (segment.pages_in[i] != 0)
          line += fmt::format("  {} {}", letter_of(sight), segment.pages_in[i]);
        if (sight != PageSight::kLines && sight != PageSight::kUntouched)
          above += segment.pages_in[i];
      }
      if (now_.shared.is_hybrid && above != 0)
        line += fmt::format("  lines in U {}", above * storage::kLinesPerPage);
      add(line);
      for (std::size_t at = 0; at < segment.map.size(); at += look_.columns)
        add(segment.map.substr(at, look_.columns));
    }
  }

  void add_sites() {
    struct Site {
      Histogram now, before;
    };
    std::map<std::pair<std::string, LatencyLevel>, Site> sites;
    for (const LatencySeries &one : now_.shared.latencies)
      if (!one.site.empty() && one.outcome == AbortCause::kNone)
        sites[{one.site, one.level}].now += one.histogram;
    for (const LatencySeries &one : before_.shared.latencies)
      if (const auto at = sites.find({one.site, one.level});
          at != sites.end() && one.outcome == AbortCause::kNone)
        at->second.before += one.histogram;
    bool has_head = false;
    for (const auto &[which, site] : sites) {
      const Histogram fresh = site.now.since(site.before);
      if (fresh.count() == 0) continue;
      if (!std::exchange(has_head, true)) {
        add("");
        add(fmt::format("{:<24} {:<8} {:>9} {:>8} {:>8} {:>8}", "site", "level", "commits/s", "p50",
                        "p99", "p99.9"));
      }
      add(fmt::format(
          "{:<24} {:<8} {:>9} {:>8} {:>8} {:>8}", fitted(which.first, 24), to_string(which.second),
          rate_text(static_cast<double>(fresh.count()) / seconds_), ns_text(fresh.quantile_ns(0.5)),
          ns_text(fresh.quantile_ns(0.99)), ns_text(fresh.quantile_ns(0.999))));
    }
  }

  // Where there are more lines than rows, processes give way first, then what is last.
  void fit() {
    if (look_.rows == 0) return;
    const std::size_t rows = look_.rows - (has_key_line() ? 1 : 0);
    if (out_.size() <= rows) return;
    TMH_ASSERT(processes_at_ <= processes_end_ && processes_end_ <= out_.size());
    const std::size_t shown = processes_end_ - processes_at_;
    const std::size_t excess = out_.size() - rows;
    if (shown > kProcessesMin) {
      const std::size_t cut = std::min(excess + 1, shown - kProcessesMin);  // a line says so
      const auto end = out_.begin() + static_cast<std::ptrdiff_t>(processes_end_);
      out_.erase(end - static_cast<std::ptrdiff_t>(cut), end);
      out_.insert(
          out_.begin() + static_cast<std::ptrdiff_t>(processes_end_ - cut),
          fmt::format("{:>8} {}", "", fmt::format("and {} more", counted(cut, "participant"))));
    }
    if (out_.size() > rows) out_.resize(rows);
  }

  // As tmh checkpoint, which such a reader keeps back.
  static constexpr std::uint64_t kSlowUs = 100'000;
  static constexpr std::size_t kReadersMax = 2, kProcessesMin = 4;
  const TopSample &before_, &now_;
  const TopLook &look_;
  const double seconds_;
  Lines out_;
  std::size_t processes_at_ = 0, processes_end_ = 0;
};

}  // namespace

const char *name_of(TopSort sort) noexcept {
  switch (sort) {
    case TopSort::kCommits:
      return "commits";
    case TopSort::kAborts:
      return "aborts";
    case TopSort::kAge:
      return "age of the instance";
    case TopSort::kPid:
      return "pid";
  }
  return "";
}

TopSort after(TopSort sort) noexcept {
  TMH_ASSERT(sort <= TopSort::kPid);
  return sort == TopSort::kPid ? TopSort::kCommits
                               : static_cast<TopSort>(static_cast<std::uint8_t>(sort) + 1);
}

std::string rate_text(double per_second) {
  TMH_ASSERT(per_second >= 0);
  constexpr const char *kUnits[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  for (; per_second >= 999.5 && unit + 1 < std::size(kUnits); ++unit) per_second /= 1000;
  if (unit == 0)
    return per_second != 0 && per_second < 9.95 ? fmt::format("{:.1f}", per_second)
                                                : fmt::format("{:.0f}", per_second);
  const int digits = per_second >= 99.95 ? 0 : per_second >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", per_second, digits, kUnits[unit]);
}

std::vector<std::string> top_lines(const TopSample &before, const TopSample &now,
                                   const TopLook &look) {
  TopLook right = look;
  right.columns = std::max<std::uint32_t>(1, look.columns);
  // Neither falls while any process has the domain open.
  if (now.shared.clock >= before.shared.clock && now.shared.attaches >= before.shared.attaches)
    return View(before, now, right).lines();
  TopSample nothing;
  nothing.monotonic_ns = before.monotonic_ns;
  return View(nothing, now, right).lines();
}

}  // namespace tmh::tools
