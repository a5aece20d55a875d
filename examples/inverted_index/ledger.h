// examples/inverted_index/ledger.h -- what the processes of the domain tell the program that kills
// them.
// Shape:     one anonymous memory file (memfd) of the program's, mapped by supervisors and workers
//            too. It lies outside the domain and survives all of them.
// Invariant: acknowledged[l] is at most what the library has acknowledged of lane l: it is raised
//            after a commit was.
// Ordering:  a supervisor fills `opening`, then stores lives_opened (release). It fills the copy of
//            its totals that does not count, then stores current_totals (release): killed anywhere,
//            it leaves one that is whole.
// Sharing:   one supervisor at a time; any number of workers, for acknowledged only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tmh/tmh.hpp>

namespace inverted_index {

inline constexpr std::size_t kLanesMax = 4096;  // bounds --lanes

// What one life of the domain came to, as its supervisor last told it.
struct LifeTotals {
  tmh::Counters counters;  // of this life alone
  std::uint64_t versions_after_collect = 0;
  std::uint64_t work_ended_ns = 0;  // steady clock; 0: it did not end
  // The longest time in which no unit was done, though some were left.
  double standstill_seconds = 0;
  std::uint32_t workers_started = 0;
  std::uint32_t reserved_zero = 0;
};

// What a supervisor found when it had opened the domain; no worker runs yet.
struct Opening {
  tmh::RecoveryInfo recovery;
  std::uint64_t work_begins_ns = 0;  // steady clock
  std::uint64_t batch_count = 0;
  std::uint32_t shard_count = 0;
  std::uint32_t lane_count = 0;
  std::uint64_t next_unit[kLanesMax] = {};
};
static_assert(std::is_trivially_copyable_v<LifeTotals> && std::is_trivially_copyable_v<Opening>);

struct LedgerPage {
  std::atomic<std::uint64_t> beats;  // changes while a supervisor lives
  std::atomic<std::uint64_t> units_done, units_total;
  std::atomic<std::uint32_t> workers;  // alive
  std::atomic<std::uint32_t> kills;    // of single workers, over all lives
  std::atomic<std::uint32_t> lives_opened;
  std::atomic<std::uint32_t> current_totals;
  Opening opening;
  LifeTotals totals[2];
  char failure[1024];  // why a supervisor ended with an error; zero-terminated
  std::atomic<std::uint64_t> acknowledged[kLanesMax];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

class Ledger {
 public:
  // Makes one; children and the programs they start inherit the descriptor.
  Ledger();
  explicit Ledger(int descriptor);  // maps one; the descriptor stays its maker's
  Ledger(const Ledger &) = delete;
  Ledger &operator=(const Ledger &) = delete;
  ~Ledger();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] LedgerPage *operator->() const noexcept { return page_; }

  // The library has acknowledged a commit that left the lane at `next_unit`, or a later one's.
  void acknowledge(std::size_t lane, std::uint64_t next_unit) const noexcept;
  // By the supervisor.
  void tell(const LifeTotals &totals) const noexcept;
  void tell_failure(const std::string &sentence) const noexcept;
  // REQUIRES: no supervisor is alive.
  [[nodiscard]] LifeTotals totals() const noexcept;

 private:
  void map();
  int descriptor_;
  bool made_;
  LedgerPage *page_ = nullptr;
};

}  // namespace inverted_index
