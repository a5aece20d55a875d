// tests/support/workload.h -- random transactions on a board: a bank, write-skew-prone pairs and a
// linked ring.
// Invariant: (1) the accounts' balances add up to the same sum, (2) of every pair at least one is
//            on duty, (3) the ring is one cycle through all its nodes -- in every instance, also in
//            those that will abort. Each instance asserts what it reads. (4) the recorded history
//            is strictly serializable with consistent views (history::check).
// Source:    FoundationDB's Cycle workload; thesis section 2.2.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <stdexcept>

#include "tests/histories/checker.h"
#include "tests/support/board.h"
#include "tests/support/children.h"

namespace tmh::test {

// Thrown by an instance that saw what no committed state can be.
class InvariantBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Workload {
 public:
  static constexpr std::uint64_t kAccounts = 10, kPairCells = 6, kRingNodes = 8;
  static constexpr std::uint64_t kFirstPairCell = kAccounts, kFirstNode = kAccounts + kPairCells;
  // Of each account at first; a balance never gets below zero.
  static constexpr std::uint64_t kBalance = 1000;
  static_assert(kFirstNode + kRingNodes == Board::kCells);

  Workload(Player &player, std::uint64_t seed)
      : player_(player), random_(seed), promotes_(player.uses_snapshots()) {}

  // Updates ask for snapshot isolation, so many of a hundred, and promote what a decision of theirs
  // rests on; or they do not, and leave pairs of which nobody is on duty.
  void use_isolation(std::uint32_t snapshot_percent, bool promotes) noexcept {
    player_.use_isolation(snapshot_percent);
    promotes_ = promotes;
    tolerates_skew_ = !promotes;
  }
  // The first process calls this alone.
  void set_up();
  // One random transaction, retried until it commits (or gives up on purpose).
  void step();
  // The same, but no query.
  void update_step();
  // One query that reads every cell and asserts every invariant.
  void audit();

 private:
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }
  void transfer();
  void change_duty();
  void turn_ring();
  void audit_inside_update();
  void start_and_give_up();
  void check_bank();
  void check_pairs();
  void check_ring();

  Player &player_;
  std::mt19937_64 random_;
  bool promotes_, tolerates_skew_ = false;
};

// Of the recorder: room for the attempts of one step, else stop.
inline constexpr std::uint64_t kEntriesPerStep = 20'000;

// What remains of a domain after all participants are gone: opens it alone, audits, and expects no
// leaked slot or version.
void audit_alone(const std::string &folder, const DomainOptions &options, Recorder *recorder,
                 bool may_be_skewed = false);

// Expects the recorded history to be right; prints the counts.
history::Verdict expect_right_history(const Recorder &recorder, const std::string &title);

}  // namespace tmh::test
