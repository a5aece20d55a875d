// tests/support/workload.cpp -- the transactions and their invariants.
#include "tests/support/workload.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/leaks.h"

namespace tmh::test {

void Workload::set_up() {
  player_.update([&] {
    for (std::uint64_t i = 0; i < kAccounts; ++i) player_.write(i, kBalance);
    for (std::uint64_t i = 0; i < kPairCells; ++i) player_.write(kFirstPairCell + i, 1);
    for (std::uint64_t i = 0; i < kRingNodes; ++i)
      player_.write(kFirstNode + i, (i + 1) % kRingNodes);
  });
}

void Workload::step() {
  switch (pick(10)) {
    case 0:
    case 1:
    case 2:
      return transfer();
    case 3:
    case 4:
      return change_duty();
    case 5:
    case 6:
      return turn_ring();
    case 7:
      return audit();
    case 8:
      return audit_inside_update();
    default:
      return start_and_give_up();
  }
}

void Workload::update_step() {
  switch (pick(4)) {
    case 0:
      return transfer();
    case 1:
      return change_duty();
    case 2:
      return turn_ring();
    default:
      return pick(4) == 0 ? audit_inside_update() : transfer();
  }
}

void Workload::transfer() {
  const std::uint64_t from = pick(kAccounts), to = (from + 1 + pick(kAccounts - 1)) % kAccounts,
                      amount = 1 + pick(50);
  const bool look_at_all = pick(4) == 0, irrevocable = pick(8) == 0;
  player_.update([&] {
    if (look_at_all) check_bank();
    if (irrevocable) player_.become_irrevocable();
    const std::uint64_t balance = player_.read(from);
    if (balance < amount) return;
    player_.write(from, balance - amount);
    player_.write(to, player_.read(to) + amount);
    if (look_at_all) check_bank();  // now with our own writes in it
  });
}

// Each may leave only while the other is on duty: two instances that leave at once, each reading
// what the other writes, are the textbook's write skew.
void Workload::change_duty() {
  const std::uint64_t mine = kFirstPairCell + pick(kPairCells);
  const std::uint64_t other = kFirstPairCell + ((mine - kFirstPairCell) ^ 1);
  player_.update([&] {
    if (player_.read(mine) + player_.read(other) == 0 && !tolerates_skew_)
      throw InvariantBroken("nobody of a pair is on duty");
    if (promotes_) player_.promote(other);
    if (player_.read(mine) == 0) {
      player_.write(mine, 1);
    } else if (player_.read(other) == 1) {
      player_.write(mine, 0);
    }
  });
}

// r -> a -> b -> c becomes r -> b -> a -> c.
void Workload::turn_ring() {
  const std::uint64_t start = pick(kRingNodes);
  player_.update([&] {
    const std::uint64_t a = player_.read(kFirstNode + start);
    const std::uint64_t b = player_.read(kFirstNode + a);
    const std::uint64_t c = player_.read(kFirstNode + b);
    player_.write(kFirstNode + start, b);
    player_.write(kFirstNode + b, a);
    player_.write(kFirstNode + a, c);
    if (pick(4) == 0) check_ring();
  });
}

void Workload::audit() {
  player_.query([&] {
    check_bank();
    check_pairs();
    check_ring();
  });
}

void Workload::audit_inside_update() {
  player_.update([&] {
    check_ring();
    check_bank();
    check_pairs();
  });
}

void Workload::start_and_give_up() {
  const std::uint64_t account = pick(kAccounts);
  player_.attempt([&] {
    player_.write(account, player_.read(account) + 1'000'000);  // dirty on purpose
    player_.write(kFirstNode + pick(kRingNodes), 0);
    Player::give_up();
  });
}

void Workload::check_bank() {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < kAccounts; ++i) sum += player_.read(i);
  if (sum != kAccounts * kBalance)
    throw InvariantBroken("the accounts add up to " + std::to_string(sum));
}

void Workload::check_pairs() {
  for (std::uint64_t i = 0; i < kPairCells; i += 2) {
    if (player_.read(kFirstPairCell + i) + player_.read(kFirstPairCell + i + 1) == 0 &&
        !tolerates_skew_) {
      throw InvariantBroken("nobody of pair " + std::to_string(i / 2) + " is on duty");
    }
  }
}

void Workload::check_ring() {
  std::uint64_t node = 0;
  for (std::uint64_t hop = 1; hop <= kRingNodes; ++hop) {
    node = player_.read(kFirstNode + node);
    if (node >= kRingNodes) throw InvariantBroken("the ring leads to node " + std::to_string(node));
    if (node == 0 && hop != kRingNodes)
      throw InvariantBroken("the ring closes after " + std::to_string(hop) + " hops");
  }
  if (node != 0) throw InvariantBroken("the ring does not close");
}

void audit_alone(const std::string &folder, const DomainOptions &options, Recorder *recorder,
                 bool may_be_skewed) {
  expect_child("auditor", [&] {
    Board board(folder, options);
    Player player(board, recorder->open_lane());
    player.play_at(PlaysAt::kOnlyPages);  // a thread's view would be a participant, too
    Workload workload(player, 1);
    if (may_be_skewed) workload.use_isolation(0, false);
    workload.audit();
    const std::uint64_t versions_left = board.domain().collect();
    EXPECT_EQ(versions_left, 0U);
    const Counters counters = board.domain().counters();
    EXPECT_EQ(counters.versions_live, 0U);
    EXPECT_EQ(counters.versions_bytes, 0U);
    for (const ParticipantInfo &participant : board.domain().participants()) {
      EXPECT_EQ(participant.pid, getpid()) << "slot " << participant.slot << " is leaked";
    }
    EXPECT_EQ(board.domain().participants().size(), 1U);
    expect_no_leaked_slots(folder);
    board.close();
  });
}

history::Verdict expect_right_history(const Recorder &recorder, const std::string &title) {
  history::Verdict verdict = history::check(recorder.read());
  std::printf("%s: %s", title.c_str(), verdict.report().c_str());
  EXPECT_TRUE(verdict.ok()) << title;
  return verdict;
}

}  // namespace tmh::test
