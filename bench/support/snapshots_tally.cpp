// bench/support/snapshots_tally.cpp -- what the workers of a cell count; who keeps the time.
#include "bench/support/snapshots_tally.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

// A reader of libitm's may take as long for its first one.
constexpr double kFirstStepSecondsMax = 5;

void sleep_until(std::int64_t then_ns) {
  const timespec then{then_ns / 1'000'000'000, then_ns % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, nullptr) != 0) {
  }
}

std::int64_t ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

}  // namespace

void SnapshotTally::keep_time(unsigned workers) {
  TMH_ASSERT(workers >= 1 && workers <= kSnapshotWorkersMax);
  // Workers may take their time until they are ready; then nobody waits for the keeper.
  const timespec pause{0, 1'000'000};
  while (all_->ready.load(std::memory_order_acquire) < workers) (void)::nanosleep(&pause, nullptr);
  if (steps_ > 0) return;
  // Each has completed a step by then, where the machine is so busy that a worker has not begun.
  const std::int64_t begun = now_ns();
  sleep_until(begun + ns(warm_up_seconds_));
  const auto all_have_begun = [&] {
    return std::all_of(all_->counts, all_->counts + workers, [](const Counts &counts) {
      return counts.done.load(std::memory_order_relaxed) > 0;
    });
  };
  while (!all_have_begun() && now_ns() < begun + ns(kFirstStepSecondsMax))
    (void)::nanosleep(&pause, nullptr);
  const std::int64_t first = now_ns();
  for (Counts &counts : all_->counts) counts.first = counts.sample();
  all_->measures.store(true, std::memory_order_relaxed);
  sleep_until(first + ns(seconds_));
  all_->measures.store(false, std::memory_order_relaxed);
  for (Counts &counts : all_->counts) counts.last = counts.sample();
  all_->measured_seconds = static_cast<double>(now_ns() - first) / 1e9;
  all_->is_over.store(true, std::memory_order_relaxed);
}

CellOutcome SnapshotTally::outcome(unsigned workers) const {
  TMH_ASSERT(workers >= 1 && workers <= kSnapshotWorkersMax);
  CellOutcome outcome;
  if (all_->fingerprint == 0) throw std::runtime_error("the structure is damaged at the end");
  ResultHash hash;
  for (unsigned index = 0; index < workers; ++index) {
    const Counts &counts = all_->counts[index];
    if (counts.wrong.load(std::memory_order_relaxed))
      throw std::runtime_error("a worker has seen what no transaction may see");
    hash.add(counts.hash.load(std::memory_order_relaxed));
    WorkerRates rates;
    const auto &first = counts.first, &last = counts.last;
    rates.steps = last.done - first.done;
    rates.retries = last.retries - first.retries;
    rates.alone = last.alone - first.alone;
    if (rates.steps > 0 && last.references > first.references) {
      const double step_ns =
          static_cast<double>(last.step_ns - first.step_ns) / static_cast<double>(rates.steps);
      rates.speed = static_cast<double>(last.reference_ns - first.reference_ns) /
                    static_cast<double>(last.references - first.references) / step_ns;
    }
    if (steps_ == 0) rates.steps_per_s = static_cast<double>(rates.steps) / all_->measured_seconds;
    const auto *const us = static_cast<const float *>(timed_us_.data()) + kTimedMax * index;
    const std::vector<double> timed(us, us + counts.timed.load(std::memory_order_relaxed));
    rates.us_mean = mean(timed);
    rates.us_sd = standard_deviation(timed);
    rates.us_p99 = quantile(timed, 0.99);
    outcome.workers.push_back(rates);
  }
  hash.add(all_->fingerprint);
  outcome.hash = hash.value();
  return outcome;
}

}  // namespace tmh::bench
