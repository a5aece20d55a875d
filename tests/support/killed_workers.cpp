// tests/support/killed_workers.cpp -- which worker dies when.
#include "tests/support/killed_workers.h"

#include <csignal>
#include <ctime>
#include <string>

#include "observe/steps.h"
#include "tests/support/seed.h"

namespace tmh::test {

void Life::die_where_asked() noexcept {
  if (const std::uint64_t order = armed.exchange(0); order != 0)
    observe::crash_at(static_cast<std::uint32_t>(order), static_cast<std::uint32_t>(order >> 32));
}

KilledWorkers::KilledWorkers(std::vector<Life *> lives, Work work)
    : lives_(std::move(lives)), work_(std::move(work)), child_of_(lives_.size()), random_(seed()) {}

void KilledWorkers::start(std::uint32_t number) {
  child_of_[number] =
      children_.spawn("worker " + std::to_string(number),
                      [this, number, random_seed = random_()] { work_(number, random_seed); });
}

// At a random step of the library, or at any instruction behind some of the worker's own.
void KilledWorkers::strike(std::uint32_t victim, const Kills &kills) {
  Life &life = *lives_[victim];
  const std::uint64_t enough = life.steps + random(kills.steps_between);
  if (random(2) == 0) life.armed = (1 + random(3)) << 32 | random(observe::kStepCount);
  const auto is_over = [&] {
    return !children_.running(child_of_[victim]) || life.steps >= enough;
  };
  EXPECT_TRUE(poll_until(is_over)) << "worker " << victim << " is hung";
  const timespec pause{0, static_cast<long>(random(static_cast<std::uint64_t>(kills.aim_ns)))};
  nanosleep(&pause, nullptr);
  bury(victim);
}

void KilledWorkers::bury(std::uint32_t victim) {
  if (!children_.running(child_of_[victim])) {
    // At its step.
    EXPECT_EQ(children_.wait(child_of_[victim]).signal, SIGKILL) << "worker " << victim;
  }
  children_.bury(child_of_[victim]);
  lives_[victim]->armed = 0;
}

void KilledWorkers::kill(const Kills &kills, const std::function<void()> &judge) {
  const auto count = static_cast<std::uint32_t>(lives_.size());
  for (std::uint32_t i = 0; i < count; ++i) start(i);
  for (std::uint64_t done = 0; done < kills.count && !testing::Test::HasFailure();) {
    const auto victim = static_cast<std::uint32_t>(random(count));
    const auto for_others = [&](void (KilledWorkers::*what)(std::uint32_t)) {
      for (std::uint32_t i = 0; i < count; ++i)
        if (i != victim) (this->*what)(i);
    };
    strike(victim, kills);
    ++done;
    if (random(kills.all_one_in) == 0) {
      for_others(&KilledWorkers::bury);
      done += count - 1;
      judge();
      for_others(&KilledWorkers::start);
    }
    start(victim);
  }
}

}  // namespace tmh::test
