// bench/support/snapshots_tally.h -- what the workers of a cell of the snapshots bench count, in
// memory that they share with whoever keeps the time.
// Sharing:   a worker writes its own counts, the keeper of the time the flags; both read all.
//            Counts are atomic and relaxed: they are numbers to show, and nothing rests on their
//            order.
#pragma once

#include <atomic>
#include <cstdint>

#include "bench/support/clock.h"
#include "bench/support/snapshots_cell.h"
#include "bench/support/team.h"

namespace tmh::bench {

inline constexpr unsigned kSnapshotWorkersMax = 2;

class SnapshotTally {
 public:
  // 4 MiB for each worker; later steps are not timed.
  static constexpr std::uint64_t kTimedMax = 1 << 20;

  SnapshotTally(double warm_up_seconds, double seconds, std::uint64_t steps, bool times_steps)
      : warm_up_seconds_(warm_up_seconds),
        seconds_(seconds),
        steps_(steps),
        times_steps_(times_steps),
        timed_us_(times_steps ? kTimedMax * sizeof(float) * kSnapshotWorkersMax : 1) {}

  // --- A worker's
  // Runs steps until the time is over. apply(step) runs one until it has committed, and adds its
  // attempts to *attempts.
  template <class Worker, class Apply>
  void work(unsigned index, Worker &worker, const Apply &apply) {
    Counts &counts = all_->counts[index];
    all_->ready.fetch_add(1, std::memory_order_release);  // pairs with the acquire in keep_time()
    std::uint64_t done = 0, attempts = 0, timed = 0, hash = 0;
    float *const us = static_cast<float *>(timed_us_.data()) + kTimedMax * index;
    while (steps_ > 0 ? done < steps_ : !all_->is_over.load(std::memory_order_relaxed)) {
      const auto step = worker.next();
      const std::int64_t begun = times_steps_ ? now_ns() : 0;
      const std::uint64_t result = apply(step, &attempts);
      if (times_steps_ && timed < kTimedMax && all_->measures.load(std::memory_order_relaxed)) {
        us[timed++] = static_cast<float>(now_ns() - begun) / 1000;
        counts.timed.store(timed, std::memory_order_relaxed);
      }
      if (!worker.done(step, result)) counts.wrong.store(true, std::memory_order_relaxed);
      hash = hash * 0x100000001b3ULL + result + 1;
      counts.done.store(++done, std::memory_order_relaxed);
      counts.retries.store(attempts - done, std::memory_order_relaxed);
    }
    counts.hash.store(hash, std::memory_order_relaxed);
  }

  // --- The keeper's
  void keep_time(unsigned workers);
  // What the content was at the end; 0: wrong.
  void set_fingerprint(std::uint64_t fingerprint) noexcept { all_->fingerprint = fingerprint; }

  // --- When all have ended
  [[nodiscard]] CellOutcome outcome(unsigned workers) const;

 private:
  struct alignas(64) Counts {
    std::atomic<std::uint64_t> done, retries, timed, hash;
    std::atomic<bool> wrong;
    // The keeper's copies at the two ends of the measured time.
    std::uint64_t done_first, retries_first, done_last, retries_last;
  };
  struct All {
    std::atomic<unsigned> ready;
    alignas(64) std::atomic<bool> measures, is_over;
    double measured_seconds;
    std::uint64_t fingerprint;
    Counts counts[kSnapshotWorkersMax];
  };
  double warm_up_seconds_, seconds_;
  std::uint64_t steps_;
  bool times_steps_;
  SharedMemory timed_us_;
  Shared<All> all_;
};

}  // namespace tmh::bench
