// tests/transaction/retry_test.cpp -- retry() that nothing would wake, and what other threads take
// away while it sleeps.
// Invariants: (1) an instance that has read nothing gets kNothingRead at once, whatever stays
//             mapped from earlier ones. (2) who sleeps while another thread unmaps what it has read
//             gets kNotMapped, while another thread closes the domain kNotInitialized, when the log
//             fails kLogFailed.
//             (3) no other unmapping is its business, nor one that a change which it has waited for
//             announces. (4) retry_until() sleeps to its deadline at most, and a retry() after it
//             without one. (5) who has been woken in vain looks again soon.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "hierarchy/transaction/retry.h"
#include "platform/disk.h"
#include "platform/event_count.h"
#include "tests/support/children.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using Word = field<std::uint64_t>;

// Where and with which tracking the sleeper's instances run. By hand: atomically(domain, body).
struct Play {
  const char *name;
  const char *escalation;
  Tracking tracking = Tracking::kAuto;
  ThreadViewUse views = ThreadViewUse::kNever;
  [[nodiscard]] bool is_of_domain() const { return *escalation == 0; }
};
constexpr Play kPlays[] = {{"lines", "never"},
                           {"pages", "always"},
                           {"signalpages", "always", Tracking::kSignal},
                           {"signalhotpages", "always", Tracking::kSignalHot},
                           {"threadviews", "always", Tracking::kAuto, lab::kOwnViewAlways},
                           {"plain", ""},
                           {"plainsignal", "", Tracking::kSignal}};

class RetryTest : public testing::TestWithParam<Play> {
 protected:
  // In a child: a sleeper that is never woken must not outlive the test.
  void open(Durability durability = Durability::kNone) {
    DomainOptions options;
    options.durability = durability;
    options.levels = Levels::kHybrid;
    options.tracking = GetParam().tracking;
    options.policies.thread_views = GetParam().views;
    domain_ = Domain::open(folder_.path(), options);
    first_ = map("first.raw");
    second_ = map("second.raw");
    one_ = reinterpret_cast<Word *>(first_.data());
    two_ = reinterpret_cast<Word *>(second_.data());
  }
  [[nodiscard]] Segment map(const char *file) const {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = raw.max_bytes = 4 * kPageBytes;
    return domain_.map(file, raw);
  }
  void touch_both() const {
    run([&] {
      one().store(one().load());
      two().store(two().load());
    });
  }
  void run(const std::function<void()> &body) const {
    if (GetParam().is_of_domain())
      atomically(domain_, body);
    else
      atomically(Site(domain_, "waits", GetParam().escalation), [&](Fields) { return body(); });
  }
  // Runs the body in a thread that has touched both segments before; `meanwhile` once the body has
  // run so often. error: what comes of it.
  void run_beside(const std::function<void()> &body, int runs,
                  const std::function<void()> &meanwhile, Errc error) {
    std::thread sleeper([&] {
      for (int i = 0; i < 3; ++i) touch_both();
      const auto counted = [&] {
        ++runs_;
        body();
      };
      if (error == Errc::kOk)
        run(counted);
      else
        expect_error(error, [&] { run(counted); });
    });
    EXPECT_TRUE(poll_until([&] { return runs_.load() >= runs; }));
    meanwhile();
    sleeper.join();
  }
  // Once more, to learn what it reads, where pages stay mapped.
  [[nodiscard]] int runs_until_asleep() const {
    const Tracking tracking = domain_.tracking().tracking;
    const bool keeps = tracking == Tracking::kKernelHot || tracking == Tracking::kSignalHot;
    return keeps && std::string(GetParam().escalation) != "never" ? 2 : 1;
  }
  [[nodiscard]] Word &one() const { return *one_; }
  [[nodiscard]] Word &two() const { return *two_; }

  MemoryFolder folder_;
  Domain domain_;
  Segment first_, second_;
  std::atomic<int> runs_{0};
  Word *one_ = nullptr, *two_ = nullptr;
};

TEST_P(RetryTest, OfAnInstanceThatHasReadNothingIsRefused) {
  expect_child("is told", [&] {
    open();
    run([&] { one() = one() + 1; });  // stays mapped, where pages do
    expect_error(Errc::kNothingRead, [&] { run([] { retry(); }); });
    EXPECT_EQ(query(domain_, [&] { return one().load(); }), 1U);
    expect_error(Errc::kEndWithoutBegin, [] { retry(); });
  });
}

TEST_P(RetryTest, EndsWhenWhatItHasReadIsUnmapped) {
  expect_child("is told", [&] {
    open();
    run_beside(
        [&] {
          if (one().load() + two().load() == 0) retry();
        },
        1, [&] { domain_.unmap(second_); }, Errc::kNotMapped);
  });
}

int refuse_log_writes(const platform::DiskEvent &event) {
  return event.op == platform::DiskOp::kWriteDurable ? EIO : 0;
}

TEST_P(RetryTest, EndsWhenTheLogFails) {
  expect_child("is told", [&] {
    open(Durability::kBuffered);
    run_beside(
        [&] {
          if (one().load() == 0) retry();
        },
        runs_until_asleep(),
        [&] {
          platform::set_disk_hook(refuse_log_writes);
          atomically(domain_, [&] { two() = two() + 1; });
          // kIo, or kLogFailed when the housekeeper was first
          EXPECT_THROW(domain_.flush(), Error);
        },
        Errc::kLogFailed);
  });
}

TEST_P(RetryTest, EndsWhenTheDomainIsClosed) {
  expect_child("is told", [&] {
    open();
    run_beside(
        [&] {
          if (one().load() == 0) retry();
        },
        1, [&] { Domain(domain_).close(); }, Errc::kNotInitialized);
  });
}

TEST_P(RetryTest, SleepsOnWhenAnotherSegmentIsUnmapped) {
  expect_child("sleeps on", [&] {
    open();
    const auto unmap_and_wake = [&] {
      domain_.unmap(second_);
      run([&] { one().store(1); });
    };
    run_beside(
        [&] {
          if (one().load() == 0) retry();
        },
        runs_until_asleep(), unmap_and_wake, Errc::kOk);
  });
}

TEST_P(RetryTest, ChangeThatAnnouncesTheUnmappingWakes) {
  expect_child("wakes", [&] {
    open();
    const auto announce_and_unmap = [&] {
      run([&] { one().store(1); });
      domain_.unmap(second_);
    };
    run_beside(
        [&] {
          if (one().load() == 0 && two().load() == 0) retry();
        },
        1, announce_and_unmap, Errc::kOk);
  });
}

TEST_P(RetryTest, EndsAtItsDeadline) {
  expect_child("runs again", [&] {
    open();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    const auto wait_in_vain = [&] {
      run_beside(
          [&] {
            if (one().load() == 0 && std::chrono::steady_clock::now() < deadline)
              retry_until(deadline);
          },
          1, [] {}, Errc::kOk);
    };
    wait_in_vain();
    EXPECT_GE(std::chrono::steady_clock::now(), deadline);
    EXPECT_LE(runs_.load(), runs_until_asleep() + 1) << "it has not slept";
  });
}

TEST_P(RetryTest, ChangeBeforeTheDeadlineWakes) {
  expect_child("wakes", [&] {
    open();
    run_beside(
        [&] {
          if (one().load() == 0) retry_until(std::chrono::steady_clock::time_point::max());
        },
        runs_until_asleep(), [&] { run([&] { one().store(1); }); }, Errc::kOk);
    EXPECT_LE(runs_.load(), runs_until_asleep() + 1);
  });
}

TEST_P(RetryTest, DeadlineIsForgottenByTheNext) {
  expect_child("sleeps on", [&] {
    open();
    const int with_deadline = runs_until_asleep();  // the last of them ends at once
    run_beside(
        [&] {
          if (one().load() != 0) return;
          if (runs_.load() <= with_deadline)
            retry_until(std::chrono::steady_clock::time_point::min());
          on_abort([&] {  // runs an instance whose deadline is its own
            bool is_first = true;
            run([&] {
              if (two().load() == 0 && std::exchange(is_first, false))
                retry_until(std::chrono::steady_clock::time_point::min());
            });
          });
          retry();
        },
        2 * with_deadline, [&] { run([&] { one().store(1); }); }, Errc::kOk);
    EXPECT_LE(runs_.load(), 2 * with_deadline + 1) << "it has not slept";
  });
}

// Each wake-up makes the next look one that a commit may miss (platform/event_count.h): were the
// sleep after it as long as all before, 20 us doubled 25 times, this would take ten minutes.
TEST(RetrySleepTest, IsShortAgainAfterEachWakeUpInVain) {
  constexpr int kInVain = 25;
  constexpr std::int64_t kHourNs = 3'600'000'000'000;
  platform::EventCount changed{};
  int prepared = 0;
  const detail::Slept slept = detail::sleep_until(
      [&](detail::Awaited *awaited) {
        if (awaited == nullptr) return false;
        awaited->prepare(changed);
        if (++prepared <= kInVain) changed.notify();
        return prepared == kInVain + 2;
      },
      detail::kNoDeadline, kHourNs);
  EXPECT_EQ(slept.wakes, static_cast<std::uint64_t>(kInVain));
}

INSTANTIATE_TEST_SUITE_P(Levels, RetryTest, testing::ValuesIn(kPlays),
                         [](const auto &play) { return std::string(play.param.name); });

}  // namespace
}  // namespace tmh::test
