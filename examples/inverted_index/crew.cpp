// examples/inverted_index/crew.cpp -- the supervisor's side of the run.
#include "examples/inverted_index/crew.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "examples/inverted_index/pace.h"

namespace inverted_index {
namespace {

using Clock = std::chrono::steady_clock;

// Peers of a dead participant go on within a second (docs/design.md 8); a whole minute without any
// unit done is a hang, not load.
constexpr double kStuckSeconds = 60;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Counters begin with the domain's shared memory, which a volatile domain keeps when all its
// processes die.
tmh::Counters since(const tmh::Counters &now, const tmh::Counters &before) {
  using Numbers = std::array<std::uint64_t, sizeof(tmh::Counters) / sizeof(std::uint64_t)>;
  auto numbers = std::bit_cast<Numbers>(now);
  const auto earlier = std::bit_cast<Numbers>(before);
  for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] -= earlier[n];
  auto result = std::bit_cast<tmh::Counters>(numbers);
  result.versions_live = now.versions_live;  // these two are no totals
  result.versions_bytes = now.versions_bytes;
  return result;
}

std::string who_is_there(const tmh::Domain &domain) {
  std::string text;
  for (const tmh::ParticipantInfo &other : domain.participants()) {
    text += fmt::format(
        "\n  {} (process {}): {}", other.name, other.pid,
        other.active ? fmt::format("in a transaction for {} us", other.age_us) : "idle");
  }
  return text;
}

}  // namespace

Crew::Crew(const Options &options, std::string folder, std::uint32_t life, Signals &signals,
           const Ledger &ledger)
    : options_(options),
      folder_(std::move(folder)),
      life_(life),
      signals_(signals),
      ledger_(ledger),
      random_(options.seed + life),
      members_(options.workers) {}

Crew::~Crew() {
  for (const Member &member : members_) {
    if (member.pid != 0) ::kill(member.pid, SIGKILL);
  }
  for (const Member &member : members_) {
    if (member.pid != 0) ::waitpid(member.pid, nullptr, 0);
  }
}

LifeTotals Crew::run(const tmh::Domain &domain, const Index &index) {
  const tmh::Counters before = domain.counters();
  const auto look = [&] { return tmh::query(domain, [&] { return progress_of(index); }); };
  // relaxed throughout: single numbers that others only show.
  const auto tell = [&](const Progress &progress) {
    ledger_->units_total.store(progress.units_total, std::memory_order_relaxed);
    ledger_->units_done.store(progress.units_done, std::memory_order_relaxed);
    ledger_->workers.store(live(), std::memory_order_relaxed);
    ledger_->beats.fetch_add(1, std::memory_order_relaxed);
    totals_.counters = since(domain.counters(), before);
    ledger_.tell(totals_);
  };
  Progress progress = look();
  plan_kills(progress);
  const bool awaits_end = life_ < options_.domain_kills();

  Clock::time_point last_move = Clock::now();
  for (std::size_t slot = 0; slot < members_.size(); ++slot) start(slot);
  while (live() != 0) {
    signals_.wait(plan_.empty() && !awaits_end ? kIdleTickMs : kTickMs);
    reap();
    const Progress now = look();
    totals_.standstill_seconds = std::max(totals_.standstill_seconds, seconds_since(last_move));
    if (now.units_done != progress.units_done || now.units_done == now.units_total)
      last_move = Clock::now();
    progress = now;
    if (seconds_since(last_move) > kStuckSeconds) {
      throw std::runtime_error(fmt::format("no unit was done for {} seconds; participants:{}",
                                           kStuckSeconds, who_is_there(domain)));
    }
    tell(progress);
    kill_as_planned(progress);
  }
  totals_.work_ended_ns =
      static_cast<std::uint64_t>(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  progress = look();
  tell(progress);
  if (progress.units_done != progress.units_total) {
    throw std::runtime_error(fmt::format("all workers left with {} units done; there are {}",
                                         progress.units_done, progress.units_total));
  }
  return totals_;
}

std::uint32_t Crew::live() const noexcept {
  return static_cast<std::uint32_t>(
      std::count_if(members_.begin(), members_.end(), [](const Member &m) { return m.pid != 0; }));
}

void Crew::plan_kills(const Progress &progress) {
  // Not in the last quarter: near the end a worker may leave before its kill arrives, and the kill
  // would be lost.
  const std::uint64_t last = progress.units_total - progress.units_total / 4;
  if (progress.units_done >= last) return;
  std::uniform_int_distribution<std::uint64_t> anywhere(progress.units_done, last - 1);
  // Relaxed: only we store it.
  const std::uint32_t done = ledger_->kills.load(std::memory_order_relaxed);
  for (std::uint32_t n = done; n < options_.worker_kills(); ++n) plan_.push_back(anywhere(random_));
  std::sort(plan_.rbegin(), plan_.rend());
}

void Crew::start(std::size_t slot) {
  std::vector<std::string> arguments =
      worker_arguments(options_, folder_, static_cast<std::uint32_t>(slot), ledger_.descriptor());
  std::string program = "tmh_inverted_index";
  std::vector<char *> pointers = {program.data()};
  for (std::string &argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  // A new program rather than a fork: a worker shares nothing with us but the domain and the
  // ledger.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &signals_.original_mask());
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  ::pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw std::runtime_error(
        fmt::format("cannot start a worker (/proc/self/exe): {}", std::strerror(error)));
  members_[slot] = {pid, false};
  ++totals_.workers_started;
}

void Crew::reap() {
  for (std::size_t slot = 0; slot < members_.size(); ++slot) {
    int wait_status = 0;
    // By its own number, not "any child": other children are none of our business.
    if (members_[slot].pid != 0 &&
        ::waitpid(members_[slot].pid, &wait_status, WNOHANG) == members_[slot].pid) {
      reap(slot, wait_status);
    }
  }
}

void Crew::reap(std::size_t slot, int wait_status) {
  const Member gone = std::exchange(members_[slot], Member{});
  if (gone.killed && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) {
    ledger_->kills.fetch_add(1, std::memory_order_relaxed);  // relaxed: as in run()
    start(slot);
  } else if (WIFSIGNALED(wait_status) &&
             (WTERMSIG(wait_status) == SIGINT || WTERMSIG(wait_status) == SIGTERM ||
              WTERMSIG(wait_status) == SIGHUP)) {
    // Ctrl-C reaches the whole group; the worker was only quicker than we
    throw Interrupted(WTERMSIG(wait_status));
  } else if (WIFSIGNALED(wait_status)) {
    throw std::runtime_error(fmt::format("worker {} (process {}) died of signal {} ({})", slot,
                                         gone.pid, WTERMSIG(wait_status),
                                         ::strsignal(WTERMSIG(wait_status))));
  } else if (WEXITSTATUS(wait_status) != 0) {
    throw std::runtime_error(fmt::format("worker {} (process {}) ended with exit code {}", slot,
                                         gone.pid, WEXITSTATUS(wait_status)));
  }
  // Otherwise it found no work left, perhaps a moment before its kill arrived; that kill then
  // counts for nothing.
}

void Crew::kill_as_planned(const Progress &progress) {
  while (!plan_.empty() && plan_.back() <= progress.units_done) {
    std::vector<std::size_t> candidates;
    for (std::size_t slot = 0; slot < members_.size(); ++slot) {
      if (members_[slot].pid != 0 && !members_[slot].killed) candidates.push_back(slot);
    }
    if (candidates.empty()) return;  // all are being replaced just now; next tick
    const std::size_t slot = candidates[random_() % candidates.size()];
    wait_before_kill(random_);
    ::kill(members_[slot].pid, SIGKILL);  // not reaped yet, so the number is still its own
    members_[slot].killed = true;
    plan_.pop_back();
  }
}

}  // namespace inverted_index
