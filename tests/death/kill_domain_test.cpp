// tests/death/kill_domain_test.cpp -- all processes of a durable domain are killed at once, at a
// random moment, again and again.
// Invariants: after each massacre the next opener finds exactly a prefix of the commit order that
//             holds every acknowledged commit, and works on (tests/power/judge.h). Deaths during
//             recovery count: some rounds kill the first opener, too.
// Size:       TMH_DOMAIN_KILLS massacres (default 25), on the disk that holds the temporary folder.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <string>

#include "tests/power/run.h"
#include "tests/power/world.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {
namespace {

// Then a new one: the audit replays everything from the beginning.
constexpr std::uint64_t kRoundsPerDomain = 40;
constexpr std::uint64_t kNotesPerRound = 400;  // about half of them are commits
// An opener that is to die in recovery lives up to so long.
constexpr std::uint64_t kOpenUs = 20'000;

class KillDomainTest : public testing::Test {
 protected:
  // Openers that die before or while they recover, or soon after.
  void kill_openers(const std::string &folder, const DomainOptions &options,
                    std::mt19937_64 &random) {
    for (std::uint64_t deaths = random() % 3; deaths > 0; --deaths) {
      Children children;
      const std::size_t opener = children.spawn("opener", [&] {
        const World world(folder, options);
        raise(SIGSTOP);  // alive, with everything open, until it is killed
      });
      const timespec pause{0, static_cast<long>(random() % (kOpenUs * 1000))};
      nanosleep(&pause, nullptr);
      children.bury(opener);
    }
  }

  void run(RunPlan plan, std::uint64_t rounds, std::uint64_t first_seed) {
    std::mt19937_64 random(first_seed);
    std::uint64_t deaths = 0;
    for (std::uint64_t done = 0; done < rounds && !HasFailure();) {
      const TempFolder folder;
      Journal journal(1u << 21, 1ull << 32);
      Workers workers(folder.path(), plan, &journal, random());
      const std::uint64_t until = std::min(rounds, done + kRoundsPerDomain);
      for (; done < until && !HasFailure(); ++done) {
        workers.start();
        workers.work_until(journal.count() + random() % kNotesPerRound);
        workers.kill_all();
        kill_openers(folder.path(), plan.options, random);
        workers.audit("after massacre " + std::to_string(done + 1));
      }
      deaths += workers.kills();
    }
    std::printf("%llu massacres, %llu workers killed\n", static_cast<unsigned long long>(rounds),
                static_cast<unsigned long long>(deaths));
  }

  [[nodiscard]] static RunPlan plan() {
    RunPlan plan;
    plan.options = power_options();
    plan.record_disk = false;
    plan.kill_every_ms = 0;
    return plan;
  }
  [[nodiscard]] static std::uint64_t massacres() {
    return environment_number("TMH_DOMAIN_KILLS", 25);
  }
};

TEST_F(KillDomainTest, StrictDomainComesBackWithAllThatWasAcknowledged) {
  run(plan(), massacres(), seed());
}

TEST_F(KillDomainTest, EagerDomainToo) {
  RunPlan eager = plan();
  eager.options.policies.detection = Detection::kEager;
  run(eager, massacres() / 4 + 1, seed());
}

TEST_F(KillDomainTest, DomainWithBothLevelsToo) {
  RunPlan hybrid = plan();
  hybrid.options.levels = Levels::kHybrid;
  run(hybrid, massacres(), seed());
}

TEST_F(KillDomainTest, ManySmallTransactions) {
  RunPlan small = plan();
  small.only_ledger = true;
  run(small, massacres() / 4 + 1, seed());
}

}  // namespace
}  // namespace tmh::test::power
