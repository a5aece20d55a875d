// examples/inverted_index/crew.cpp -- the parent's side of the run.
#include "examples/inverted_index/crew.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace inverted_index {
namespace {

using Clock = std::chrono::steady_clock;

// Peers of a dead participant go on within a second (DESIGN 8); a whole minute without any unit done is a hang, not load.
constexpr double kStuckSeconds = 60;

// While kills are due, progress is looked at so often that few units pass between two looks; later only to draw it.
constexpr int kTickMs = 1;
constexpr int kIdleTickMs = 50;

// Kills come a random moment after the look at progress, so that they do not follow the parent's own queries.
constexpr long kKillDelayNsMax = 500'000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double processor_seconds_of_children() {
  struct rusage usage {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string who_is_there(const tmh::Domain &domain) {
  std::string text;
  for (const tmh::ParticipantInfo &other : domain.participants()) {
    text += fmt::format("\n  {} (process {}): {}", other.name, other.pid,
                        other.active ? fmt::format("in a transaction for {} us", other.age_us) : "idle");
  }
  return text;
}

}  // namespace

Crew::Crew(const Options &options, std::string folder, Signals &signals)
    : options_(options),
      folder_(std::move(folder)),
      signals_(signals),
      random_(options.seed),
      members_(options.workers) {}

Crew::~Crew() {
  for (const Member &member : members_) {
    if (member.pid != 0) ::kill(member.pid, SIGKILL);
  }
  for (const Member &member : members_) {
    if (member.pid != 0) ::waitpid(member.pid, nullptr, 0);
  }
}

CrewReport Crew::run(const tmh::Domain &domain, const Index &index, ProgressLine &line) {
  const auto look = [&] { return tmh::query(domain, [&] { return progress_of(index); }); };
  Progress progress = look();
  plan_kills(progress.units_total);

  const Clock::time_point begin = Clock::now();
  // ./demo builds and then becomes this program by exec: the compiler's time counts as that of earlier children.
  const double processor_seconds_before = processor_seconds_of_children();
  Clock::time_point last_move = begin;
  for (std::size_t slot = 0; slot < members_.size(); ++slot) start(slot);
  while (live() != 0) {
    signals_.wait(plan_.empty() ? kIdleTickMs : kTickMs);
    reap();
    const Progress now = look();
    report_.standstill_seconds = std::max(report_.standstill_seconds, seconds_since(last_move));
    if (now.units_done != progress.units_done || now.units_done == now.units_total) last_move = Clock::now();
    progress = now;
    if (seconds_since(last_move) > kStuckSeconds) {
      throw std::runtime_error(
          fmt::format("no unit was done for {} seconds; participants:{}", kStuckSeconds, who_is_there(domain)));
    }
    kill_as_planned(progress);
    line.show(progress.units_done, progress.units_total, seconds_since(begin), report_.kills, live());
  }
  report_.seconds = seconds_since(begin);
  report_.processor_seconds = processor_seconds_of_children() - processor_seconds_before;
  line.finish();
  if (progress = look(); progress.units_done != progress.units_total) {
    throw std::runtime_error(
        fmt::format("all workers left with {} units done; there are {}", progress.units_done, progress.units_total));
  }
  return report_;
}

std::uint32_t Crew::live() const noexcept {
  return static_cast<std::uint32_t>(
      std::count_if(members_.begin(), members_.end(), [](const Member &m) { return m.pid != 0; }));
}

void Crew::plan_kills(std::uint64_t units_total) {
  if (options_.no_kills || units_total == 0) return;
  // Not in the last quarter: near the end a worker may leave before its kill arrives, and the kill would be lost.
  std::uniform_int_distribution<std::uint64_t> anywhere(0, units_total - units_total / 4 - 1);
  for (std::uint32_t n = 0; n < options_.kills; ++n) plan_.push_back(anywhere(random_));
  std::sort(plan_.rbegin(), plan_.rend());
}

void Crew::start(std::size_t slot) {
  std::vector<std::string> arguments = worker_arguments(options_, folder_, static_cast<std::uint32_t>(slot));
  std::string program = "tmh_inverted_index";
  std::vector<char *> pointers = {program.data()};
  for (std::string &argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  // A new program rather than a fork: a worker shares nothing with us but the domain.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &signals_.original_mask());
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  ::pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw std::runtime_error(fmt::format("cannot start a worker (/proc/self/exe): {}", std::strerror(error)));
  members_[slot] = {pid, false};
  ++report_.workers_started;
}

void Crew::reap() {
  for (std::size_t slot = 0; slot < members_.size(); ++slot) {
    int wait_status = 0;
    // By its own number, not "any child": other children are none of our business.
    if (members_[slot].pid != 0 && ::waitpid(members_[slot].pid, &wait_status, WNOHANG) == members_[slot].pid) {
      reap(slot, wait_status);
    }
  }
}

void Crew::reap(std::size_t slot, int wait_status) {
  const Member gone = std::exchange(members_[slot], Member{});
  if (gone.killed && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) {
    ++report_.kills;
    start(slot);
  } else if (WIFSIGNALED(wait_status) &&
             (WTERMSIG(wait_status) == SIGINT || WTERMSIG(wait_status) == SIGTERM || WTERMSIG(wait_status) == SIGHUP)) {
    throw Interrupted(WTERMSIG(wait_status));  // Ctrl-C reaches the whole group; the worker was only quicker than we
  } else if (WIFSIGNALED(wait_status)) {
    throw std::runtime_error(fmt::format("worker {} (process {}) died of signal {} ({})", slot, gone.pid,
                                         WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status))));
  } else if (WEXITSTATUS(wait_status) != 0) {
    throw std::runtime_error(
        fmt::format("worker {} (process {}) ended with exit code {}", slot, gone.pid, WEXITSTATUS(wait_status)));
  }
  // Otherwise it found no work left, perhaps a moment before its kill arrived; that kill then counts for nothing.
}

void Crew::kill_as_planned(const Progress &progress) {
  while (!plan_.empty() && plan_.back() <= progress.units_done) {
    std::vector<std::size_t> candidates;
    for (std::size_t slot = 0; slot < members_.size(); ++slot) {
      if (members_[slot].pid != 0 && !members_[slot].killed) candidates.push_back(slot);
    }
    if (candidates.empty()) return;  // all are being replaced just now; next tick
    const std::size_t slot = candidates[random_() % candidates.size()];
    const struct timespec delay { 0, static_cast<long>(random_() % static_cast<std::uint64_t>(kKillDelayNsMax)) };
    ::nanosleep(&delay, nullptr);
    ::kill(members_[slot].pid, SIGKILL);  // not reaped yet, so the number is still its own
    members_[slot].killed = true;
    plan_.pop_back();
  }
}

}  // namespace inverted_index
