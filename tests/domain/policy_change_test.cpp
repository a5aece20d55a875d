// tests/domain/policy_change_test.cpp -- set_policy() while other threads of the process begin,
// back off and ask for the policy.
// Invariants: (1) who reads the policy gets one that was set, whole. (2) set_policy() waits for
//             nobody's instance. Under ThreadSanitizer: there is no data race.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using Word = field<std::uint64_t>;

constexpr unsigned kThreads = 3;
constexpr std::uint64_t kCommits = 2000;  // per thread

struct Play {
  const char *name;
  const char *escalation;
  ThreadViewUse views;
};
constexpr Play kPlays[] = {{"lines", "never", ThreadViewUse::kAuto},
                           {"pages", "always", ThreadViewUse::kNever},
                           {"threadviews", "always", lab::kOwnViewAlways}};

class PolicyChangeTest : public testing::TestWithParam<Play> {
 protected:
  void open() {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.policies.thread_views = GetParam().views;
    options.policies.conflict = "oldest-wins,backoff=none";
    domain_ = Domain::open(folder_.path(), options);
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = raw.max_bytes = kPageBytes;
    words_ = reinterpret_cast<Word *>(domain_.map("words.raw", raw).data());
  }
  [[nodiscard]] Site site() const { return Site(domain_, "plays", GetParam().escalation); }

  MemoryFolder folder_;
  Domain domain_;
  Word *words_ = nullptr;
};

TEST_P(PolicyChangeTest, ReadersSeeOneOfThePoliciesThatWereSet) {
  expect_child("changes", [&] {
    open();
    domain_.set_policy("oldest-wins,keep-age,backoff=none");
    const Policy first = domain_.policy();
    domain_.set_policy("youngest-wins,fresh-age,backoff=exponential");
    const Policy second = domain_.policy();
    std::atomic<unsigned> running{kThreads};
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        const Site plays = site();
        for (std::uint64_t i = 0; i < kCommits; ++i) {
          atomically(plays, [&](Fields) { ++words_[0]; });
          const Policy seen = domain_.policy();
          EXPECT_TRUE(seen == first || seen == second) << to_string(seen);
        }
        --running;
      });
    }
    while (running != 0) {
      domain_.set_policy("oldest-wins,keep-age,backoff=none");
      domain_.set_policy("youngest-wins,fresh-age,backoff=exponential");
    }
    threads.clear();
    EXPECT_EQ(query(domain_, [&] { return words_[0].load(); }), kThreads * kCommits);
  });
}

TEST_P(PolicyChangeTest, WaitsForNoInstanceOfAnotherThread) {
  expect_child("does not wait", [&] {
    open();
    std::atomic<bool> inside{false}, changed{false};
    const std::jthread runs([&] {
      const Site plays = site();
      atomically(plays, [&](Fields) {
        ++words_[0];
        inside = true;
        EXPECT_TRUE(poll_until([&] { return changed.load(); }))
            << "set_policy() waits for this instance";
      });
    });
    EXPECT_TRUE(poll_until([&] { return inside.load(); }));
    domain_.set_policy("self-abort");
    changed = true;
  });
}

INSTANTIATE_TEST_SUITE_P(Levels, PolicyChangeTest, testing::ValuesIn(kPlays),
                         [](const auto &play) { return std::string(play.param.name); });

}  // namespace
}  // namespace tmh::test
