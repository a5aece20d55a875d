// tests/domain/unmap_threads_test.cpp -- unmap() and close() while other threads of the process run
// instances.
// Invariants: (1) both return only when no instance that another thread had begun is running, at
//             any level; what those stored is there. (2) an instance that begins after a close gets
//             kNotInitialized; one that commits is not lost. (3) no thread waits for ever: neither
//             one that unmaps in an action, nor one that asks for it inside its own instance, nor
//             those beside it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/process_state.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using Word = field<std::uint64_t>;
using Thread = std::jthread;

constexpr unsigned kThreads = 6;
constexpr std::uint64_t kPages = 8;

SegmentOptions words_options() {
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = raw.max_bytes = kPages * kPageBytes;
  return raw;
}

// The levels that a thread's instances run at.
struct Play {
  const char *name;
  const char *escalation;
  ThreadViewUse views = ThreadViewUse::kAuto;
  const char *storm_capacity = "";
};
constexpr Play kPlays[] = {{"lines", "never"},
                           {"pages", "always", ThreadViewUse::kNever},
                           {"threadviews", "always", lab::kOwnViewAlways},
                           {"mixed", "after-n=2", ThreadViewUse::kAuto, "1KiB/1/64,read=3"}};

class UnmapThreadsTest : public testing::TestWithParam<Play> {
 protected:
  // capacity: of level 1, beyond which mixed instances go on at level 2.
  void open(const std::string &capacity = {}) {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.policies.thread_views = GetParam().views;
    options.policies.capacity = capacity;
    domain_ = Domain::open(folder_.path(), options);
    first_ = domain_.map("first.raw", words_options());
    second_ = domain_.map("second.raw", words_options());
    words_ = {word_in(first_), word_in(second_)};
  }
  [[nodiscard]] static Word *word_in(const Segment &segment) {
    return reinterpret_cast<Word *>(segment.data());
  }
  // In the page of that number.
  [[nodiscard]] static Word &at(Word *words, std::uint64_t page) {
    return words[page * kPageBytes / sizeof(Word)];
  }
  [[nodiscard]] Site site() const { return Site(domain_, "plays", GetParam().escalation); }
  [[nodiscard]] std::uint64_t committed(Word *words, std::uint64_t page) const {
    return query(domain_, [&] { return at(words, page).load(); });
  }
  // One thread runs an instance, which commits at its first attempt, another one calls `leave`
  // meanwhile: it must not return before the instance has ended.
  void expect_waits(const std::function<void()> &leave) {
    std::atomic<bool> inside{false}, left{false}, ended{false};
    {
      Thread runs([&] {
        const Site plays = site();
        atomically(plays, [&](Fields) {
          ++at(words_.second, 0);
          inside = true;
          for (int i = 0; i < 100 && !left; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_FALSE(left) << "returned while an instance ran";
          ++at(words_.second, 1);
          ended = true;
        });
      });
      EXPECT_TRUE(poll_until([&] { return inside.load(); }));
      leave();
      left = true;
      EXPECT_TRUE(ended);
    }
  }

  MemoryFolder folder_;
  Domain domain_;
  Segment first_, second_;
  std::pair<Word *, Word *> words_;
};

TEST_P(UnmapThreadsTest, UnmapWaitsForAnotherThreadsInstance) {
  expect_child("waits", [&] {
    open();
    expect_waits([&] { domain_.unmap(second_); });
    second_ = domain_.map("second.raw", words_options());
    EXPECT_EQ(committed(word_in(second_), 0), 1U);
    EXPECT_EQ(committed(word_in(second_), 1), 1U);
  });
}

TEST_P(UnmapThreadsTest, CloseWaitsForAnotherThreadsInstance) {
  expect_child("waits", [&] {
    open();
    Domain other = domain_;
    expect_waits([&] { other.close(); });
    open();
    EXPECT_EQ(committed(words_.second, 0), 1U);
    EXPECT_EQ(committed(words_.second, 1), 1U);
  });
}

// Whoever keeps instances out of level 1 is not there in a child: it must be told that it is
// detached, not wait.
TEST_P(UnmapThreadsTest, ChildForkedDuringAnUnmapIsDetached) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "TSan does not follow a fork of several threads";
#endif
  expect_child("forks", [&] {
    open();
    const Site plays = site();
    // The forking thread has been at level 1.
    atomically(plays, [&](Fields) { ++at(words_.first, 0); });
    std::atomic<bool> inside{false}, forked{false};
    Thread runs([&] {
      atomically(site(), [&](Fields) {
        ++at(words_.first, 1);
        inside = true;
        EXPECT_TRUE(poll_until([&] { return forked.load(); }));
      });
    });
    EXPECT_TRUE(poll_until([&] { return inside.load(); }));
    std::atomic<pid_t> unmaps_id{0};
    Thread unmaps([&] {
      unmaps_id = gettid();
      domain_.unmap(second_);
    });
    await_sleep(unmaps_id);
    const pid_t child = fork();
    if (child == 0) {
      // Should it wait: it dies before its parent counts as hung.
      alarm(static_cast<unsigned>(hang_deadline() / std::chrono::seconds(2)));
      try {
        atomically(plays, [&](Fields) { ++at(words_.first, 2); });
      } catch (const Error &error) {
        _exit(error.errc() == Errc::kDetached ? 0 : 2);
      }
      _exit(1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    forked = true;
  });
}

// Its end needs nothing that an unmap() waits for: an instance may wait for it.
TEST_P(UnmapThreadsTest, ThreadEndsWhileAnUnmapWaitsForAnInstanceThatWaitsForItsEnd) {
  expect_child("ends", [&] {
    open();
    const Site plays = site();
    std::atomic<bool> has_run{false}, may_end{false}, inside{false};
    Thread ends([&] {
      atomically(plays, [&](Fields) { ++at(words_.second, 0); });
      has_run = true;
      EXPECT_TRUE(poll_until([&] { return may_end.load(); }));
    });
    EXPECT_TRUE(poll_until([&] { return has_run.load(); }));
    std::atomic<pid_t> unmaps_id{0};
    {
      Thread runs([&] {
        atomically(plays, [&](Fields) {
          ++at(words_.second, 0);
          inside = true;
          await_sleep(unmaps_id);
          may_end = true;
          if (ends.joinable()) ends.join();
        });
      });
      EXPECT_TRUE(poll_until([&] { return inside.load(); }));
      unmaps_id = gettid();
      domain_.unmap(second_);
    }
    second_ = domain_.map("second.raw", words_options());
    EXPECT_EQ(committed(word_in(second_), 0), 2U);
    EXPECT_EQ(domain_.participants().size(), 1U) << "views of threads that have ended";
  });
}

// Threads touch the segment as long as a flag says that it is there; whoever clears the flag and
// unmaps needs no more than that.
TEST_P(UnmapThreadsTest, SegmentThatComesAndGoesLosesNothing) {
  constexpr int kRounds = 60;
  expect_child("storm", [&] {
    open(GetParam().storm_capacity);
    std::atomic<bool> is_there{true}, stop{false};
    std::atomic<std::uint64_t> both{0}, total{0};
    {
      std::vector<Thread> threads;
      for (unsigned number = 0; number < kThreads; ++number) {
        threads.emplace_back([&, number] {
          const Site plays = site();
          for (std::uint64_t i = number; !stop; ++i) {
            const bool was_there = atomically(plays, [&](Fields) {
              ++at(words_.first, i % kPages);
              if (!is_there) return false;
              ++at(words_.second, i % kPages);
              if (i % 4 == 0)
                ++at(words_.second, (i + 1) % kPages), ++at(words_.second, (i + 1) % kPages);
              return true;
            });
            total += 1;
            if (was_there) both += i % 4 == 0 ? 3 : 1;
          }
        });
      }
      for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t before = total;
        EXPECT_TRUE(poll_until([&] { return total > before + kThreads; }));
        is_there = false;
        domain_.unmap(second_);
        second_ = domain_.map("second.raw", words_options());
        ASSERT_EQ(word_in(second_), words_.second);
        is_there = true;
      }
      stop = true;
    }
    std::uint64_t in_first = 0, in_second = 0;
    for (std::uint64_t page = 0; page < kPages; ++page) {
      in_first += committed(words_.first, page);
      in_second += committed(words_.second, page);
    }
    EXPECT_EQ(in_first, total);
    EXPECT_EQ(in_second, both);
  });
}

TEST_P(UnmapThreadsTest, CloseUnderRunningThreadsLosesNoCommit) {
  constexpr int kRounds = 25;
  expect_child("storm", [&] {
    std::atomic<std::uint64_t> commits{0};
    for (int round = 0; round < kRounds; ++round) {
      open(GetParam().storm_capacity);
      const std::uint64_t before = commits;
      std::vector<Thread> threads;
      for (unsigned number = 0; number < kThreads; ++number) {
        threads.emplace_back([&, number, plays = site()] {
          expect_error(Errc::kNotInitialized, [&] {
            for (std::uint64_t i = number;; ++i) {
              atomically(plays, [&](Fields) { ++at(words_.first, i % kPages); });
              ++commits;
            }
          });
        });
      }
      EXPECT_TRUE(poll_until([&] { return commits > before + kThreads; }));
      domain_.close();
    }
    open();
    std::uint64_t sum = 0;
    for (std::uint64_t page = 0; page < kPages; ++page) sum += committed(words_.first, page);
    EXPECT_EQ(sum, commits);
  });
}

TEST_P(UnmapThreadsTest, InsideItsOwnInstanceItIsRefused) {
  open();
  const Site plays = site();
  atomically(plays, [&](Fields) {
    ++at(words_.first, 0);
    expect_error(Errc::kInstanceRunning, [&] { domain_.unmap(second_); });
    expect_error(Errc::kInstanceRunning, [&] { Domain(domain_).close(); });
    ++at(words_.second, 0);
  });
  EXPECT_EQ(committed(words_.second, 0), 1U);
}

// An action runs outside its instance, so it may unmap, whoever else runs; and others may unmap or
// close at the same time.
TEST_P(UnmapThreadsTest, ActionsOfSeveralThreadsMayUnmapAndClose) {
  expect_child("end", [&] {
    open();
    std::atomic<unsigned> unmapped{0}, closed{0};
    {
      const Site plays = site();
      std::vector<Thread> threads;
      for (unsigned number = 0; number < kThreads; ++number) {
        threads.emplace_back([&, domain = domain_]() mutable {
          try {
            atomically(plays, [&](Fields) {
              on_commit([&] {
                std::error_code error;
                if (!domain.unmap("second.raw", error)) ++unmapped;
                if (!domain.close(error)) ++closed;
              });
              ++at(words_.first, 0);
            });
          } catch (const Error &error) {
            EXPECT_EQ(error.errc(), Errc::kNotInitialized) << "begins after another one's close";
          }
        });
      }
    }
    EXPECT_EQ(unmapped, 1U);
    EXPECT_EQ(closed, 1U);
  });
}

INSTANTIATE_TEST_SUITE_P(Levels, UnmapThreadsTest, testing::ValuesIn(kPlays),
                         [](const auto &play) { return std::string(play.param.name); });

}  // namespace
}  // namespace tmh::test
