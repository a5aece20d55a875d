// bench/support/snapshots_cell.cpp -- one measurement of the snapshots bench.
#include "bench/support/snapshots_cell.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include <tmh/tmh.hpp>

#include "bench/support/modes.h"
#include "bench/support/snapshots_memory.h"
#include "bench/support/snapshots_tally.h"
#include "bench/support/team.h"
#ifdef TMH_BENCH_ITM
#include "bench/support/snapshots_itm.h"
#include "platform/assert.h"
#endif

namespace tmh::bench {

namespace {

template <class Data>
std::uint64_t portions_of(std::uint64_t size) {
  return (size + Data::kPortion - 1) / Data::kPortion;
}
template <class Mix>
WorkerPlace place_of(const Cell<Mix> &cell, unsigned index) {
  TMH_ASSERT(index < cell.workers.size() && cell.size > 0);
  return {index, static_cast<unsigned>(cell.workers.size()), cell.size, cell.seed + index};
}

// The structure in the domain of a folder, in one process.
template <class Mix>
class InSegment {
 public:
  using Data = typename Mix::template Data<allocator<std::byte>>;

  InSegment(const Cell<Mix> &cell, Isolation isolation, const std::string &folder)
      : domain_(open(isolation, folder)), segment_(map(domain_, cell)) {
    if constexpr (Data::kIsFlat)
      data_ = &flat_.emplace(segment_.data(), cell.size);
    else
      data_ = segment_.root<Data>("data");
    TMH_ASSERT(data_ != nullptr);
  }
  void fill(std::uint64_t size) {
    for (std::uint64_t i = 0; i < portions_of<Data>(size); ++i)
      atomically(domain_, [&] { data_->fill(size, i); });
  }
  [[nodiscard]] std::uint64_t apply(const typename Data::Step &step, Attempts *attempts) {
    if (step.is_query()) {
      return query(domain_, [&] {
        ++attempts->all;
        return data_->read(step);
      });
    }
    return atomically(domain_, [&] {
      ++attempts->all;
      return data_->update(step);
    });
  }
  [[nodiscard]] std::uint64_t fingerprint() const {
    return query(domain_, [&] { return data_->fingerprint(); });
  }

 private:
  static Domain open(Isolation isolation, const std::string &folder) {
    Mode mode{"ours"};
    mode.durability = Durability::kNone;
    mode.isolation = isolation;
    return open_domain(mode, folder);
  }
  static Segment map(const Domain &domain, const Cell<Mix> &cell) {
    if constexpr (Data::kIsFlat) {
      SegmentOptions raw;
      raw.layout = Layout::kRaw;
      const std::uint64_t bytes = Data::bytes(cell.size, kSnapshotWorkersMax);
      raw.size_bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
      return domain.map("data", raw);
    } else {
      return domain.map("data");
    }
  }
  Domain domain_;
  Segment segment_;
  std::optional<Data> flat_;
  Data *data_ = nullptr;
};

template <class Mix>
void run_in_processes(const Cell<Mix> &cell, Isolation isolation, const std::string &folder,
                      SnapshotTally *tally) {
  static_assert(kSnapshotWorkersMax < kTeamMembersMax, "who keeps the time is a member, too");
  TMH_ASSERT(tally != nullptr);
  const auto workers = static_cast<unsigned>(cell.workers.size());
  run_alone([&] { InSegment<Mix>(cell, isolation, folder).fill(cell.size); });
  (void)run_team_ns(workers + 1, [&](unsigned index, const TeamClock &clock) {
    if (index == workers) {
      clock.start();
      tally->keep_time(workers);
      return;
    }
    InSegment<Mix> structure(cell, isolation, folder);
    typename Mix::Worker worker(cell.workers[index], place_of(cell, index));
    clock.start();
    tally->work(index, worker, [&](const auto &step, Attempts *attempts) {
      return structure.apply(step, attempts);
    });
  });
  run_alone([&] { tally->set_fingerprint(InSegment<Mix>(cell, isolation, folder).fingerprint()); });
}

// The structure in the memory of a process, with threads.
template <class Mix>
class InMemory {
 public:
  using Data = typename Mix::template Data<MallocAllocator<std::byte>>;

  explicit InMemory(const Cell<Mix> &cell) {
    if constexpr (Data::kIsFlat) {
      struct alignas(kPageBytes) Page {
        std::byte bytes[kPageBytes];
      };
      const std::size_t pages = Data::bytes(cell.size, kSnapshotWorkersMax) / sizeof(Page) + 1;
      memory_ = std::shared_ptr<std::byte>(
          reinterpret_cast<std::byte *>(new Page[pages]()),
          [](std::byte *first) { delete[] reinterpret_cast<Page *>(first); });
      data_.emplace(memory_.get(), cell.size);
    } else {
      data_.emplace();
    }
    for (std::uint64_t i = 0; i < portions_of<Data>(cell.size); ++i) data_->fill(cell.size, i);
  }
  [[nodiscard]] Data &data() { return *data_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::optional<Data> data_;
};

template <class Data>
std::uint64_t run_plainly(Data &data, const typename Data::Step &step) {
  return step.is_query() ? data.read(step) : data.update(step);
}

class Plain {
 public:
  template <class Data>
  std::uint64_t apply(Data &data, const typename Data::Step &step, Attempts *attempts) {
    ++attempts->all;
    return run_plainly(data, step);
  }
};
class Lock {
 public:
  template <class Data>
  std::uint64_t apply(Data &data, const typename Data::Step &step, Attempts *attempts) {
    ++attempts->all;
    const std::lock_guard<std::mutex> held(mutex_);
    return run_plainly(data, step);
  }

 private:
  std::mutex mutex_;
};
#ifdef TMH_BENCH_ITM
class Itm {
  // Then libitm runs the transaction alone (in its retry.cc: restart_total > 100).
  static constexpr std::uint64_t kAttemptsTogether = 101;

 public:
  // Method ml_wt (multiple locks, write-through), as in the line bench; libitm reads it at the
  // process's first transaction.
  Itm() { setenv("ITM_DEFAULT_METHOD", "ml_wt", 1); }
  template <class Data>
  std::uint64_t apply(Data &data, const typename Data::Step &step, Attempts *attempts) {
    const std::uint64_t result =
        step.is_query() ? ItmSteps<Data>::read(data, step) : ItmSteps<Data>::update(data, step);
    const std::uint64_t all = itm_attempts();
    if (all - attempts->all > kAttemptsTogether) ++attempts->alone;
    attempts->all = all;
    return result;
  }
};
#endif

template <class Runner, class Mix>
void run_in_threads(const Cell<Mix> &cell, SnapshotTally *tally) {
  TMH_ASSERT(tally != nullptr);
  run_alone([&] {
    Runner runner;
    InMemory<Mix> structure(cell);
    std::vector<std::thread> threads;
    const auto workers = static_cast<unsigned>(cell.workers.size());
    for (unsigned index = 0; index < workers; ++index) {
      threads.emplace_back([&, index] {
        typename Mix::Worker worker(cell.workers[index], place_of(cell, index));
        tally->work(index, worker, [&](const auto &step, Attempts *attempts) {
          return runner.apply(structure.data(), step, attempts);
        });
      });
    }
    tally->keep_time(workers);
    for (std::thread &thread : threads) thread.join();
    tally->set_fingerprint(structure.data().fingerprint());
  });
}

}  // namespace

const char *to_string(SnapshotContestant contestant) noexcept {
  switch (contestant) {
    case SnapshotContestant::kPlain:
      return "plain";
    case SnapshotContestant::kLock:
      return "lock";
    case SnapshotContestant::kItm:
      return "libitm";
    case SnapshotContestant::kSerializable:
      return "tmh-serializable";
    default:
      return "tmh-snapshot";
  }
}
bool is_built(SnapshotContestant contestant) noexcept {
#ifdef TMH_BENCH_ITM
  return contestant <= SnapshotContestant::kSnapshot;
#else
  return contestant != SnapshotContestant::kItm;
#endif
}

template <class Mix>
CellOutcome run_cell(const Cell<Mix> &cell, SnapshotContestant contestant,
                     const std::string &folder) {
  const auto workers = static_cast<unsigned>(cell.workers.size());
  if (workers == 0 || workers > kSnapshotWorkersMax ||
      (workers > 1 && (cell.steps > 0 || contestant == SnapshotContestant::kPlain)))
    throw std::invalid_argument("a cell with another number of workers");
  TMH_ASSERT(is_built(contestant));
  SnapshotTally tally(cell.warm_up_seconds, cell.seconds, cell.steps, cell.times_steps);
  switch (contestant) {
    case SnapshotContestant::kPlain:
      run_in_threads<Plain>(cell, &tally);
      break;
    case SnapshotContestant::kLock:
      run_in_threads<Lock>(cell, &tally);
      break;
    case SnapshotContestant::kItm:
#ifdef TMH_BENCH_ITM
      run_in_threads<Itm>(cell, &tally);
#endif
      break;
    case SnapshotContestant::kSerializable:
      run_in_processes(cell, Isolation::kSerializable, folder, &tally);
      break;
    case SnapshotContestant::kSnapshot:
      run_in_processes(cell, Isolation::kSnapshot, folder, &tally);
      break;
  }
  return tally.outcome(workers);
}

template CellOutcome run_cell<BankMix>(const Cell<BankMix> &, SnapshotContestant,
                                       const std::string &);
template CellOutcome run_cell<ListMix>(const Cell<ListMix> &, SnapshotContestant,
                                       const std::string &);
template CellOutcome run_cell<ReservationMix>(const Cell<ReservationMix> &, SnapshotContestant,
                                              const std::string &);
template CellOutcome run_cell<YcsbMix>(const Cell<YcsbMix> &, SnapshotContestant,
                                       const std::string &);

}  // namespace tmh::bench
