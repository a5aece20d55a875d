// tools/run/crew.cpp -- worker processes, their threads, and their parent's watch over them.
#include "tools/run/crew.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "platform/assert.h"
#include "platform/futex.h"
#include "platform/process.h"
#include "tools/failure.h"
#include "tools/run/stop_signals.h"

namespace tmh::tools {

namespace {

// Between the parent's looks at its children: a run's end is late by this.
constexpr std::uint64_t kLookNs = 2'000'000;
// A killed process's site totals lack at most this.
constexpr std::uint64_t kPublishNs = 20'000'000;
constexpr auto relaxed = std::memory_order_relaxed;

void pause_ns(std::uint64_t ns) {
  const timespec wait{static_cast<time_t>(ns / 1'000'000'000),
                      static_cast<long>(ns % 1'000'000'000)};
  (void)nanosleep(&wait, nullptr);
}

std::int64_t now_ns() { return static_cast<std::int64_t>(platform::monotonic_ns()); }

// Zeros, which all that lies in it may start from, shared with children. Only touched pages take
// memory.
void *shared_memory(std::size_t bytes) {
  void *const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) refuse(Errc::kOutOfMemory, "there is no memory to share with workers");
  return memory;
}

// The first one of a process.
void tell(ProcessState &process, const std::exception &error) {
  if (process.has_error.exchange(1) != 0) return;
  const auto *const ours = dynamic_cast<const Error *>(&error);
  const std::string text = ours != nullptr ? text_of(*ours) : error.what();
  (void)std::snprintf(process.error, sizeof process.error, "%s", text.c_str());
}

}  // namespace

Crew::Crew(const CrewPlan &plan, const Open &open)
    : plan_(plan),
      state_(static_cast<CrewState *>(shared_memory(sizeof(CrewState)))),
      samples_(static_cast<LatencySamples *>(
          shared_memory(sizeof(LatencySamples) * plan.processes * plan.threads))) {
  TMH_ASSERT(plan.processes >= 1 && plan.threads >= 1 && open != nullptr);
  TMH_ASSERT(plan.processes * plan.threads <= workloads::kWorkersMax);
  TMH_ASSERT(plan.seconds > 0 || plan.operations > 0);
  std::fflush(nullptr);  // or each child would print the parent's buffered lines again
  const pid_t parent = ::getpid();
  for (unsigned process = 0; process < plan.processes; ++process) {
    const pid_t pid = ::fork();
    if (pid < 0) {
      kill_all();
      refuse(Errc::kOutOfMemory, "no further process can be started");
    }
    if (pid == 0) {
      (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // it died before prctl()
      work(process, open);
    }
    ends_.push_back({pid, false, 0});
  }
}

Crew::~Crew() {
  kill_all();
  (void)::munmap(state_, sizeof(CrewState));
  (void)::munmap(samples_, sizeof(LatencySamples) * plan_.processes * plan_.threads);
}

void Crew::kill_all() noexcept {
  for (WorkerEnd &end : ends_) {
    if (end.has_ended) continue;
    (void)::kill(end.pid, SIGKILL);
    while (::waitpid(end.pid, &end.status, 0) < 0 && errno == EINTR) {
    }
    end.has_ended = true;
  }
}

void Crew::set_phase(Phase next) noexcept {
  if (phase() == next) return;
  TMH_ASSERT(phase() < next);
  // Pairs with phase().
  state_->phase.store(static_cast<std::uint32_t>(next), std::memory_order_release);
  platform::futex_wake(state_->phase);
}

// Not by looking again and again: 255 who look 10,000 times a second leave the one that joins no
// processor.
void Crew::sleep_until(Phase due) const noexcept {
  for (Phase now = phase(); now < due; now = phase())
    (void)platform::futex_wait(state_->phase, static_cast<std::uint32_t>(now), 1'000'000'000);
}

// The worker process's whole life.
void Crew::work(unsigned process, const Open &open) {
  TMH_ASSERT(process < plan_.processes);
  StopSignals::leave_to_parent();
  ProcessState &mine = state_->processes[process];
  try {
    sleep_until(Phase::kOpening);
    const std::unique_ptr<workloads::Workload> workload = open(&state_->next_number);
    std::vector<std::thread> threads;
    std::atomic<unsigned> running{plan_.threads};
    for (unsigned i = 0; i < plan_.threads; ++i)
      threads.emplace_back([this, &workload, &running, process, i] {
        work_in_thread(*workload, process, process * plan_.threads + i);
        running.fetch_sub(1);
      });
    while (running.load() != 0) {
      pause_ns(kPublishNs);
      publish(*workload, mine);
    }
    for (std::thread &thread : threads) thread.join();
    publish(*workload, mine);
  } catch (const std::exception &error) {
    tell(mine, error);
  }
  ::_exit(mine.has_error.load() != 0 ? 1 : 0);
}

void Crew::work_in_thread(workloads::Workload &workload, unsigned process,
                          unsigned thread) noexcept {
  ProcessState &mine = state_->processes[process];
  ThreadState &state = state_->threads[thread];
  LatencySamples &samples = samples_[thread];
  const unsigned workers = plan_.processes * plan_.threads;
  TMH_ASSERT(thread < workers && process == thread / plan_.threads);
  bool is_ready = false;
  const std::uint64_t quota = plan_.seconds > 0 ? ~0ull
                                                : plan_.operations / workers +
                                                      (thread < plan_.operations % workers ? 1 : 0);
  try {
    workloads::Random random(plan_.seed + thread);
    const std::unique_ptr<workloads::Worker> worker = workload.make_worker(thread);
    is_ready = true;
    mine.threads_ready.fetch_add(1);
    sleep_until(Phase::kRunning);
    std::int64_t before = now_ns();
    for (std::uint64_t done = 0; done < quota && phase() == Phase::kRunning; ++done) {
      worker->step();
      const std::int64_t now = now_ns();
      state.updates.store(worker->updates(), relaxed);
      samples.add(static_cast<std::uint64_t>(now - before), random);
      state.finish_ns.store(now, relaxed);
      before = now;
    }
  } catch (const workloads::Broken &broken) {
    mine.is_broken.store(1);
    tell(mine, broken);
  } catch (const std::exception &error) {
    tell(mine, error);
  }
  if (!is_ready) mine.threads_ready.fetch_add(1);  // nobody waits for what failed
}

void Crew::publish(const workloads::Workload &workload, ProcessState &process) const {
  std::array<std::uint64_t, static_cast<std::size_t>(SiteTotal::kEnd)> all{};
  for (const SiteReport &one : workload.reports()) {
    const std::uint64_t values[] = {one.line_commits,         one.hardware_commits,
                                    one.unlimited_commits,    one.page_commits,
                                    one.line_aborts,          one.page_aborts,
                                    one.escalations_capacity, one.escalations_needs_pages,
                                    one.escalations_attempts, one.de_escalations,
                                    one.hardware_conflicts,   one.hardware_capacity,
                                    one.hardware_zero,        one.hardware_explicit,
                                    one.hardware_other};
    static_assert(std::size(values) == static_cast<std::size_t>(SiteTotal::kCauses));
    for (std::size_t i = 0; i < std::size(values); ++i) all[i] += values[i];
    for (std::size_t i = 0; i < kAbortCauseCount; ++i)
      all[std::size(values) + i] += one.line_aborts_by_cause[i];
    for (std::size_t i = 0; i < kNeedCount; ++i)
      all[static_cast<std::size_t>(SiteTotal::kForNeeds) + i] += one.escalations_by_need[i];
  }
  for (std::size_t i = 0; i < all.size(); ++i) process.sites[i].store(all[i], relaxed);
}

std::uint64_t Crew::total(SiteTotal which) const noexcept {
  TMH_ASSERT(which < SiteTotal::kEnd);
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < plan_.processes; ++i)
    sum += state_->processes[i].sites[static_cast<std::size_t>(which)].load(relaxed);
  return sum;
}

// Dead ones need not be.
bool Crew::all_ready() const noexcept {
  for (unsigned i = 0; i < plan_.processes; ++i)
    if (!ends_[i].has_ended && state_->processes[i].threads_ready.load() < plan_.threads)
      return false;
  return true;
}

bool Crew::is_broken() const noexcept {
  for (unsigned i = 0; i < plan_.processes; ++i)
    if (state_->processes[i].is_broken.load() != 0) return true;
  return false;
}

bool Crew::look_for_dead() {
  bool is_anybody_left = false;
  for (WorkerEnd &end : ends_) {
    if (!end.has_ended) end.has_ended = ::waitpid(end.pid, &end.status, WNOHANG) == end.pid;
    is_anybody_left = is_anybody_left || !end.has_ended;
  }
  return !is_anybody_left;
}

void Crew::run() {
  TMH_ASSERT(phase() == Phase::kWaiting && ends_.size() == plan_.processes);
  set_phase(Phase::kOpening);
  while (!look_for_dead() && !all_ready() && StopSignals::count() == 0) pause_ns(kLookNs / 4);
  start_ns_ = now_ns();
  set_phase(Phase::kRunning);
  const std::int64_t deadline = start_ns_ + static_cast<std::int64_t>(plan_.seconds * 1e9);
  while (!look_for_dead()) {
    interrupted_ = interrupted_ || StopSignals::count() != 0;
    if (StopSignals::count() > 1) kill_all();
    const std::int64_t left =
        plan_.seconds > 0 ? deadline - now_ns() : static_cast<std::int64_t>(kLookNs);
    if (left <= 0 || interrupted_ || is_broken()) set_phase(Phase::kStopping);
    pause_ns(left > 0 ? std::min(static_cast<std::uint64_t>(left), kLookNs) : kLookNs);
  }
}

double Crew::seconds() const noexcept {
  std::int64_t last = start_ns_;
  for (unsigned i = 0; i < plan_.processes * plan_.threads; ++i)
    last = std::max(last, state_->threads[i].finish_ns.load(relaxed));
  return static_cast<double>(last - start_ns_) / 1e9;
}

LatencySummary Crew::latency() const {
  std::vector<const LatencySamples *> all;
  for (unsigned i = 0; i < plan_.processes * plan_.threads; ++i) all.push_back(samples_ + i);
  return summarize(all);
}

}  // namespace tmh::tools
