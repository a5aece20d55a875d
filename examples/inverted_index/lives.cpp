// examples/inverted_index/lives.cpp -- starts, kills, and compares what was promised with what came
// back.
#include "examples/inverted_index/lives.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "examples/inverted_index/pace.h"
#include "examples/inverted_index/report.h"
#include "examples/inverted_index/supervisor.h"

namespace inverted_index {
namespace {

namespace fs = std::filesystem;

// Twice what the crew allows before it complains itself, so that its message comes first.
constexpr double kSilentSeconds = 120;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

double seconds_between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e9 : 0;
}

double processor_seconds_of_children() {
  struct rusage usage {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What of a domain's folder is shared memory of its processes. The library makes it anew when it is
// gone.
bool is_rebuildable(const std::string &name) {
  return name == "tmh.state" || name == "tmh.log.state" || name == "tmh.commits" ||
         name == "tmh.participants" || name == "tmh.accesses" || name == "tmh.latency" ||
         name.starts_with("tmh.versions.") || name.starts_with("tmh.pages.");
}

tmh::Counters sum(const tmh::Counters &a, const tmh::Counters &b) {
  using Numbers = std::array<std::uint64_t, sizeof(tmh::Counters) / sizeof(std::uint64_t)>;
  auto numbers = std::bit_cast<Numbers>(a);
  const auto others = std::bit_cast<Numbers>(b);
  for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] += others[n];
  auto result = std::bit_cast<tmh::Counters>(numbers);
  result.versions_live = b.versions_live;  // these two are no totals
  result.versions_bytes = b.versions_bytes;
  return result;
}

}  // namespace

Lives::Lives(const Options &options, std::string folder, const Corpus &corpus, Signals &signals)
    : options_(options),
      folder_(std::move(folder)),
      corpus_(corpus),
      signals_(signals),
      random_(options.seed) {
  // Workers whose supervisor is dead become our children, so that we can wait until every one of
  // them is gone.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw std::system_error(errno, std::generic_category(),
                            "cannot adopt the workers of a dead supervisor");
  // In equal distances, each a little off: 0.4 to 0.6 for one.
  std::uniform_real_distribution<double> off(-0.2, 0.2);
  const std::uint32_t count = options.domain_kills();
  for (std::uint32_t n = 0; n < count; ++n)
    kill_points_.push_back((n + 1 + off(random_)) / (count + 1));
}

Lives::~Lives() {
  if (group_ != 0) (void)kill_and_wait();
}

RunReport Lives::run(ProgressLine &line) {
  // ./demo builds and then becomes this program by exec: the compiler's time counts as that of
  // earlier children.
  const double processor_seconds_before = processor_seconds_of_children();
  for (;;) {
    start();
    if (!watch(line)) break;
    line.finish();
    report_.outages.push_back(kill_all());
    add(ledger_.totals());
    print_killed(report_.outages.back());
    ++life_;
  }
  line.finish();
  const LifeTotals last = ledger_.totals();
  add(last);
  report_.seconds = seconds_between(first_begin_ns_, last.work_ended_ns);
  report_.versions_after_collect = last.versions_after_collect;
  // Relaxed, here and below: single numbers.
  report_.kills = ledger_->kills.load(std::memory_order_relaxed);
  report_.processor_seconds = processor_seconds_of_children() - processor_seconds_before;
  return report_;
}

void Lives::start() {
  announced_ = false;
  std::fflush(nullptr);  // the child must not print again what waits in our buffers
  const ::pid_t parent = ::getpid();
  const ::pid_t child = ::fork();
  if (child < 0)
    throw std::system_error(errno, std::generic_category(), "cannot start a supervisor");
  if (child == 0) {
    ::setpgid(0, 0);
    Exit exit = Exit::kDifferent;
    try {
      die_with(parent);
      exit = run_supervisor(options_, folder_, corpus_, life_, signals_, ledger_);
    } catch (const std::exception &error) {
      ledger_.tell_failure(error.what());
    }
    ::_exit(static_cast<int>(exit));  // what lies further up the stack is our parent's to clean up
  }
  ::setpgid(child, child);  // both do it: whoever comes first
  group_ = child;
}

bool Lives::watch(ProgressLine &line) {
  const bool kill_is_due = life_ < kill_points_.size();
  std::uint64_t beats = 0, last_beat_ns = now_ns();
  for (;;) {
    signals_.wait(kill_is_due ? kTickMs : kIdleTickMs);
    int wait_status = 0;
    const bool has_ended = ::waitpid(group_, &wait_status, WNOHANG) == group_;
    announce(line);
    if (has_ended) check_for_end(wait_status);
    if (const std::uint64_t now = ledger_->beats.load(std::memory_order_relaxed); now != beats) {
      beats = now;
      last_beat_ns = now_ns();
    } else if (seconds_between(last_beat_ns, now_ns()) > kSilentSeconds) {
      throw std::runtime_error(fmt::format(
          "the supervisor (process {}) has been silent for {} seconds", group_, kSilentSeconds));
    }
    const std::uint64_t done = ledger_->units_done.load(std::memory_order_relaxed);
    const std::uint64_t total = ledger_->units_total.load(std::memory_order_relaxed);
    if (announced_ && total != 0) {
      line.show(done, total, seconds_between(first_begin_ns_, now_ns()),
                ledger_->kills.load(std::memory_order_relaxed),
                ledger_->workers.load(std::memory_order_relaxed));
    }
    if (has_ended) return false;
    const bool is_far_enough =
        kill_is_due && announced_ && total != 0 &&
        static_cast<double>(done) >= kill_points_[life_] * static_cast<double>(total);
    if (is_far_enough) return true;
  }
}

// Once per life, when the supervisor has opened the domain.
void Lives::announce(ProgressLine &line) {
  // acquire: pairs with the release in tell_opening()
  if (announced_ || ledger_->lives_opened.load(std::memory_order_acquire) != life_ + 1) return;
  announced_ = true;
  const Opening &opening = ledger_->opening;
  if (life_ == 0) {
    first_begin_ns_ = opening.work_begins_ns;
    print_plan(options_, opening);
    return;
  }
  Outage &outage = report_.outages.back();
  outage.recovery = opening.recovery;
  outage.seconds = seconds_between(killed_ns_, opening.work_begins_ns);
  for (std::size_t lane = 0; lane < opening.lane_count; ++lane) {
    outage.units_found += opening.next_unit[lane];
    outage.units_missing +=
        acknowledged_[lane] - std::min(acknowledged_[lane], opening.next_unit[lane]);
  }
  line.finish();
  print_recovered(options_, outage);
  const bool may_miss = options_.durability == "buffered" && options_.cuts_power();
  if (outage.units_missing != 0 && !may_miss)
    throw std::runtime_error(
        fmt::format("{} acknowledged units are missing after recovery", outage.units_missing));
}

void Lives::check_for_end(int wait_status) {
  const ::pid_t supervisor = group_;
  (void)kill_and_wait();  // nobody should be left; a supervisor that failed may leave workers
  if (WIFSIGNALED(wait_status)) {
    throw std::runtime_error(fmt::format("the supervisor (process {}) died of signal {} ({})",
                                         supervisor, WTERMSIG(wait_status),
                                         ::strsignal(WTERMSIG(wait_status))));
  }
  if (WEXITSTATUS(wait_status) != 0) throw std::runtime_error(ledger_->failure);
}

Outage Lives::kill_all() {
  wait_before_kill(random_);
  Outage outage;
  killed_ns_ = now_ns();
  outage.processes = kill_and_wait();
  outage.units_total = ledger_->units_total.load(std::memory_order_relaxed);
  acknowledged_.assign(kLanesMax, 0);
  for (std::size_t lane = 0; lane < kLanesMax; ++lane) {
    acknowledged_[lane] = ledger_->acknowledged[lane].load(std::memory_order_relaxed);
    outage.units_acknowledged += acknowledged_[lane];
  }
  if (options_.cuts_power()) outage.files_removed = cut_power();
  return outage;
}

// Returns how many processes died of it.
std::uint32_t Lives::kill_and_wait() noexcept {
  ::kill(-group_, SIGKILL);
  std::uint32_t killed = 0;
  for (;;) {
    int wait_status = 0;
    // The supervisor first, or a worker that became our child when the supervisor died; in the end
    // there is none.
    if (::waitpid(-group_, &wait_status, 0) > 0) {
      killed += WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL ? 1U : 0U;
    } else if (errno != EINTR) {
      break;
    }
  }
  group_ = 0;
  return killed;
}

std::uint32_t Lives::cut_power() const {
  std::uint32_t removed = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder_)) {
    if (!is_rebuildable(entry.path().filename().string())) continue;
    fs::remove(entry.path());
    ++removed;
  }
  return removed;
}

void Lives::add(const LifeTotals &totals) {
  report_.counters = sum(report_.counters, totals.counters);
  report_.standstill_seconds = std::max(report_.standstill_seconds, totals.standstill_seconds);
  report_.workers_started += totals.workers_started;
}

}  // namespace inverted_index
