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
#include "platform/assert.h"

namespace tmh::bench {

inline constexpr unsigned kSnapshotWorkersMax = 2;

class SnapshotTally {
 public:
  // So often steps are compared with their reference, by so many runs of it behind as many that
  // only bring its data back to the cache.
  static constexpr std::int64_t kReferenceEveryNs = 50'000'000;
  static constexpr int kReferences = 6;
  // 4 MiB for each worker; later steps are not timed.
  static constexpr std::uint64_t kTimedMax = 1 << 20;
  static_assert(kTimedMax * sizeof(float) == 4 << 20);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                    std::atomic<bool>::is_always_lock_free,
                "counts are shared by processes");

  SnapshotTally(double warm_up_seconds, double seconds, std::uint64_t steps, bool times_steps)
      : warm_up_seconds_(warm_up_seconds),
        seconds_(seconds),
        steps_(steps),
        times_steps_(times_steps),
        timed_us_(times_steps ? kTimedMax * sizeof(float) * kSnapshotWorkersMax : 1) {
    TMH_ASSERT(steps > 0 || (seconds > 0 && warm_up_seconds >= 0));
  }

  // --- A worker's
  // Runs steps until the time is over. apply(step) runs one until it has committed, and adds to
  // *attempts.
  template <class Worker, class Apply>
  void work(unsigned index, Worker &worker, const Apply &apply) {
    TMH_ASSERT(index < kSnapshotWorkersMax);
    Counts &counts = all_->counts[index];
    all_->ready.fetch_add(1, std::memory_order_release);  // pairs with the acquire in keep_time()
    Attempts attempts;
    std::uint64_t done = 0, timed = 0, hash = 0;
    float *const us = static_cast<float *>(timed_us_.data()) + kTimedMax * index;
    std::int64_t step_ns = 0, reference_ns = 0, next_reference_ns = 0;
    while (steps_ > 0 ? done < steps_ : !all_->is_over.load(std::memory_order_relaxed)) {
      const auto step = worker.next();
      const bool has_reference = worker.has_reference();
      const std::int64_t begun = times_steps_ || has_reference ? now_ns() : 0;
      const std::uint64_t result = apply(step, &attempts);
      if (has_reference) {
        const std::int64_t ended = now_ns();
        counts.step_ns.store(step_ns += ended - begun, std::memory_order_relaxed);
        if (ended >= next_reference_ns) {
          reference_ns += run_references(worker);
          next_reference_ns = now_ns() + kReferenceEveryNs;
          counts.reference_ns.store(reference_ns, std::memory_order_relaxed);
          counts.references.fetch_add(kReferences, std::memory_order_relaxed);
        }
      }
      if (times_steps_ && timed < kTimedMax && all_->measures.load(std::memory_order_relaxed)) {
        us[timed++] = static_cast<float>(now_ns() - begun) / 1000;
        counts.timed.store(timed, std::memory_order_relaxed);
      }
      if (!worker.done(step, result)) counts.wrong.store(true, std::memory_order_relaxed);
      hash = hash * 0x100000001b3ULL + result + 1;
      counts.done.store(++done, std::memory_order_relaxed);
      counts.retries.store(attempts.all - done, std::memory_order_relaxed);
      counts.alone.store(attempts.alone, std::memory_order_relaxed);
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
  // Nanoseconds of kReferences runs.
  template <class Worker>
  static std::int64_t run_references(const Worker &worker) {
    for (int i = 0; i < kReferences; ++i) worker.run_reference();
    const std::int64_t begun = now_ns();
    for (int i = 0; i < kReferences; ++i) worker.run_reference();
    return now_ns() - begun;
  }

  // The keeper's copies of counts.
  struct Sample {
    std::uint64_t done, retries, alone, references;
    std::int64_t step_ns, reference_ns;
  };
  struct alignas(64) Counts {
    std::atomic<std::uint64_t> done, retries, alone, references, timed, hash;
    std::atomic<std::int64_t> step_ns, reference_ns;
    std::atomic<bool> wrong;
    // At the two ends of the measured time.
    Sample first, last;
    [[nodiscard]] Sample sample() const noexcept {
      return {
          done.load(std::memory_order_relaxed),    retries.load(std::memory_order_relaxed),
          alone.load(std::memory_order_relaxed),   references.load(std::memory_order_relaxed),
          step_ns.load(std::memory_order_relaxed), reference_ns.load(std::memory_order_relaxed)};
    }
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
