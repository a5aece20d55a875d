// tests/transaction/between_attempts_test.cpp -- hybrid domains: what the user's code does to an
// instance from outside its attempts: actions that run instances, exceptions that it makes of an
// abort, a fork in the body. Instances of another domain in the body.
// Invariants: (1) why an attempt failed, and what retry() waits for, is the attempt's, whatever its
//             actions run in between. (2) an exception of an attempt that was aborted does not
//             leave atomically(). (3) a forked child is told that it is detached.
//             (4) an instance begins in no other domain's. (5) its actions run, whatever else there
//                 is no memory for.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/threads/line_users.h"
#include "levels/line/line_memory.h"
#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/failing_new.h"
#include "tests/support/stage.h"
#include "tests/support/stray_allowed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kPages = 16;

class BetweenAttemptsTest : public testing::Test {
 protected:
  void open(const std::string &capacity = {}, CrossPolicy cross = {}) {
    DomainOptions options;
    options.policies.cross = cross;
    options.levels = Levels::kHybrid;
    options.policies.capacity = capacity;
    domain_ = Domain::open(folder_.path(), options);
    segment_ = domain_.map("words.raw", words_options(kPages));
  }
  // The first one of a page.
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page) const {
    return *reinterpret_cast<field<std::uint64_t> *>(segment_.data() + page * kPageBytes);
  }
  [[nodiscard]] std::uint64_t committed(std::uint64_t page) const {
    return query(domain_, [&] { return word(page).load(); });
  }
  // In a thread of its own, which has an instance of its own.
  void set_elsewhere(const Site &site, std::uint64_t page, std::uint64_t value) const {
    std::thread([&] { atomically(site, [&](Fields) { word(page).store(value); }); }).join();
  }

  MemoryFolder folder_;
  Domain domain_;
  Segment segment_;
};

// The instance that the action runs fits; the one that it belongs to never will.
TEST_F(BetweenAttemptsTest, ActionDoesNotHideThatTheAttemptWasTooLarge) {
  expect_child("escalates", [&] {
    open("1KiB/1/64,read=4");
    const Site large(domain_, "large", "on-capacity"), small(domain_, "small", "never");
    atomically(large, [&](Fields) {
      on_abort([&] { atomically(small, [&](Fields) { ++word(kPages - 1); }); });
      for (std::uint64_t page = 0; page < kPages - 1; ++page) ++word(page);
    });
    EXPECT_EQ(large.report().escalations_capacity, 1U);
    EXPECT_EQ(large.report().line_aborts, 1U);
    EXPECT_EQ(committed(kPages - 1), 1U);
    EXPECT_EQ(committed(0), 1U);
  });
}

TEST_F(BetweenAttemptsTest, ActionThatClosesTheDomainEndsTheInstance) {
  expect_child("is told", [&] {
    open("1KiB/1/64,read=4");
    const Site large(domain_, "large", "on-capacity");
    expect_error(Errc::kNotInitialized, [&] {
      atomically(large, [&](Fields) {
        on_abort([&] { domain_.close(); });
        for (std::uint64_t page = 0; page < kPages; ++page) ++word(page);
      });
    });
  });
}

// The first commit at level 1 after an escalation is noted with the thread's context, which goes
// with the domain.
TEST_F(BetweenAttemptsTest, ActionThatClosesTheDomainAfterAReturnToLevelOne) {
  expect_child("returns", [&] {
    open("1KiB/1/64,read=4");
    const Site site(domain_, "comes back", "adaptive");
    const auto update = [&](std::uint64_t pages, const std::function<void()> &then) {
      atomically(site, [&](Fields) {
        if (then != nullptr) on_commit(then);
        for (std::uint64_t page = 0; page < pages; ++page) ++word(page);
      });
    };
    int small = 0;
    update(kPages, nullptr);
    for (; site.report().de_escalations == 0; ++small) update(1, nullptr);
    update(kPages, nullptr);
    for (int i = 1; i < small; ++i) update(1, nullptr);
    const std::uint64_t at_lines = site.report().line_commits;
    update(1, [&] { domain_.close(); });
    EXPECT_EQ(site.report().line_commits, at_lines + 1);
    EXPECT_EQ(site.report().de_escalations, 2U);
  });
}

// What it waits for comes before the action's own instance, which reads something else.
TEST_F(BetweenAttemptsTest, RetryAtLevelOneWaitsForWhatItsAttemptHasRead) {
  expect_child("waits", [&] {
    open();
    const Site site(domain_, "waits", "never"), other(domain_, "other", "never");
    int bodies = 0;
    atomically(site, [&](Fields) {
      ++bodies;
      on_abort([&] {
        set_elsewhere(other, 0, 1);
        EXPECT_EQ(atomically(other, [&](Fields) { return word(1).load(); }), 0U);
      });
      if (word(0) == 0) retry();
    });
    EXPECT_EQ(bodies, 2);
    EXPECT_EQ(site.report().line_aborts, 0U) << "retry() is no failure";
  });
}

TEST_F(BetweenAttemptsTest, RetryAtLevelTwoWaitsForWhatItsAttemptHasRead) {
  expect_child("waits", [&] {
    open();
    const Site other(domain_, "other", "always");
    for (const bool at_site : {true, false}) {
      const Site site(domain_, "waits", "always");
      const auto body = [&] {
        on_abort([&] {
          set_elsewhere(other, 0, 1);
          EXPECT_EQ(committed(1), 0U);
        });
        if (word(0) == 0) retry();
        word(0).store(0);
      };
      if (at_site)
        atomically(site, [&](Fields) { return body(); });
      else
        atomically(domain_, body);
      EXPECT_EQ(committed(0), 0U);
    }
  });
}

// What it waits for is noted in memory of the program's.
TEST_F(BetweenAttemptsTest, RetryAtLevelOneWithoutMemoryEndsTheInstanceWithItsActions) {
  open();
  const Site site(domain_, "waits", "never");
  int commits = 0, aborts = 0;
  const auto waits = [&] {
    atomically(site, [&](Fields) {
      on_commit([&] { ++commits; });
      on_abort([&] { ++aborts; });
      if (word(0) != 0) return;
      new_failure.after = 0;
      retry();
    });
  };
  EXPECT_THROW(waits(), std::bad_alloc);
  EXPECT_LT(new_failure.after, 0) << "it was asked for";
  EXPECT_EQ(aborts, 1);
  atomically(site, [&](Fields) { ++word(0); });  // whose are they?
  EXPECT_EQ(commits, 0);
  EXPECT_EQ(aborts, 1);
  waits();
  EXPECT_EQ(commits, 1);
}

// So many threads at once that the list of their words must grow for some.
TEST(LineUsersTest, ThreadWithoutMemoryForItsWordIsNowhere) {
  constexpr int kThreads = 64;
  detail::LineUsers users;
  std::atomic<int> failures{0}, arrived{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int allocation = 0; allocation < 2; ++allocation) {
        new_failure.after = allocation;
        try {
          users.enter();
          new_failure.after = -1;
        } catch (const std::bad_alloc &) {
          ++failures;
          EXPECT_EQ(detail::current().line_user, nullptr);
        }
        EXPECT_EQ(users.is_inside(), detail::current().line_user != nullptr);
        detail::LineUsers::leave();
      }
      users.enter();
      EXPECT_TRUE(users.is_inside());
      detail::LineUsers::leave();
      for (++arrived; arrived < kThreads;) std::this_thread::yield();
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_GT(failures, kThreads) << "none of them while the list grew";
}

// It waits, and then sees a later snapshot. Nested, the outer instance does.
TEST_F(BetweenAttemptsTest, RetryInAQueryWaitsForALaterSnapshot) {
  expect_child("waits", [&] {
    open();
    const Site other(domain_, "other", "never");
    std::uint64_t wanted = 0;
    const auto body = [&] {
      if (word(0) == wanted) return word(0).load();
      retry();
    };
    for (const bool is_nested : {false, true}) {
      ++wanted;
      std::thread sets([&] { set_elsewhere(other, 0, wanted); });
      EXPECT_EQ(is_nested ? atomically(domain_, [&] { return query(domain_, body); })
                          : query(domain_, body),
                wanted);
      EXPECT_EQ(domain_.depth(), 0U);
      sets.join();
    }
  });
}

// The guard against starvation holds against level 1 as well: the ninth attempt has the turn.
TEST_F(BetweenAttemptsTest, UpdateWithTheTurnIsNotFailedByLevelOne) {
  constexpr int kEnough = 20;
  open({}, CrossPolicy::kAbortUpper);
  std::atomic<int> asks{0};
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    const Site site(domain_, "asks", "never");
    while (!stop) {
      atomically(site, [&](Fields) {
        ++asks;
        ++word(0);
      });
    }
  });
  int attempts = 0;
  atomically(domain_, [&] {
    ++word(1);
    ++word(0);
    if (++attempts == kEnough) stop = true;
    for (const int seen = asks; asks < seen + 2 && !stop;) std::this_thread::yield();
  });
  stop = true;
  asker.join();
  EXPECT_EQ(attempts, 9);
  EXPECT_EQ(committed(1), 1U);
}

// Words that a snapshot may need fill the undo ring. They go with it, so this is not a body that is
// too large.
TEST_F(BetweenAttemptsTest, UpdateThatMayNotEscalateOutlivesALongQuery) {
  constexpr std::uint64_t kUpdates = line::kUndoWords + 10;
  expect_child("updates", [&] {
    open();
    const Site site(domain_, "updates", "never");
    std::thread updates;
    query(domain_, [&] {
      EXPECT_EQ(word(1).load(), 0U);
      updates = std::thread([&] {
        for (std::uint64_t i = 0; i < kUpdates; ++i) atomically(site, [&](Fields) { ++word(0); });
      });
      while (site.report().line_aborts == 0 && site.report().line_commits < kUpdates)
        std::this_thread::yield();
    });
    updates.join();
    EXPECT_GT(site.report().line_aborts, 0U);
    EXPECT_EQ(committed(0), kUpdates);
  });
}

// What an instance has written is found at its end, in lists on the heap. Where these find no
// memory it aborts, and the program goes on.
TEST_F(BetweenAttemptsTest, LargeUpdateWithoutMemoryAborts) {
  constexpr std::uint64_t kMany = 8192;
  expect_child("writes", [&] {
    open();
    const Segment large = domain_.map("large.raw", words_options(kMany));
    const auto write_all = [&](std::uint64_t value) {
      for (std::uint64_t page = 0; page < kMany; ++page)
        *reinterpret_cast<std::uint64_t *>(large.data() + page * kPageBytes) = value;
    };
    const auto read_last = [&] {
      return query(domain_, [&] {
        return *reinterpret_cast<const std::uint64_t *>(large.data() + (kMany - 1) * kPageBytes);
      });
    };
    constexpr NewFailure kSecondLarge{1, 32u << 10};
    std::uint64_t refused = 0;
    for (Errc error = Errc::kOutOfMemory; error != Errc::kOk && refused < 10;) {
      domain_.begin();
      write_all(1);
      new_failure = kSecondLarge;
      error = code_of([&] { (void)domain_.end(); });
      new_failure = {};
      if (error == Errc::kOk) break;
      EXPECT_EQ(error, Errc::kOutOfMemory);
      EXPECT_EQ(read_last(), 0U);
      ++refused;
    }
    EXPECT_GE(refused, 2U) << "at lists of what it has written, and at slots for that";
    EXPECT_EQ(read_last(), 1U);
  });
}

// Whatever ends an attempt, and whatever its actions run in between: a site's report tells of its
// own pages, and of all of them.
TEST_F(BetweenAttemptsTest, PagesThatAnAttemptMovedAreItsSites) {
  expect_child("counts", [&] {
    open("1KiB/1/64,read=4");
    const Site above(domain_, "above", "always"), other(domain_, "other", "never");
    const auto recall = [&] { atomically(above, [&](Fields) { ++word(0); }); };
    std::uint64_t recalls = 0;
    const auto expect_release = [&](const char *name,
                                    const std::function<void(const Site &)> &run) {
      recall();
      EXPECT_EQ(above.report().recalls, ++recalls) << name;
      const Site site(domain_, name, "on-capacity");
      run(site);
      EXPECT_EQ(site.report().releases, 1U) << name;
      EXPECT_EQ(other.report().releases, 0U) << name;
    };
    expect_release("throws", [&](const Site &site) {
      EXPECT_THROW(atomically(site,
                              [&](Fields) {
                                ++word(0);
                                throw std::runtime_error("not now");
                              }),
                   std::runtime_error);
      atomically(other, [&](Fields) { ++word(1); });
    });
    expect_release("waits", [&](const Site &site) {
      atomically(site, [&](Fields) {
        on_abort([&] { atomically(other, [&](Fields) { ++word(0); }); });
        if (word(0) == 1) retry();
      });
    });
    expect_release("fails", [&](const Site &site) {
      atomically(site, [&](Fields) {
        on_abort([&] { atomically(other, [&](Fields) { ++word(1); }); });
        for (std::uint64_t page = 0; page < kPages; ++page) ++word(page);
      });
      recalls += site.report().recalls;
      EXPECT_EQ(site.report().recalls, kPages);
    });
    EXPECT_EQ(domain_.counters().releases, 3U);
    // Of a body that ends by an exception at level 2.
    const Site throws(domain_, "throws above", "always");
    atomically(other, [&](Fields) { ++word(2); });
    EXPECT_THROW(atomically(throws,
                            [&](Fields) {
                              ++word(2);
                              throw std::runtime_error("not now");
                            }),
                 std::runtime_error);
    EXPECT_EQ(throws.report().recalls, 1U);
    EXPECT_EQ(domain_.counters().recalls, recalls + 1);
  });
}

// At the end of a query that stored, and of an update that found the disk full, the error is told
// after them.
TEST_F(BetweenAttemptsTest, ActionThatFailsDoesNotChangeWhatAnErrorSays) {
  const StrayAllowed allowed;
  open();
  const Site site(domain_, "stores");
  char at[32];
  std::snprintf(at, sizeof at, "%p", static_cast<const void *>(&word(3)));
  const auto body = [&] {
    const auto fails = [&] {
      std::error_code error;
      EXPECT_TRUE(domain_.unmap("nowhere.raw", error));
    };
    on_commit(fails);
    on_abort(fails);
    word(3).store(1);
  };
  for (const bool at_site : {false, true}) {
    try {
      at_site ? query(site, [&](Fields) { return body(); }) : query(domain_, body);
      ADD_FAILURE() << "a query stored";
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), Errc::kQueryWrote);
      EXPECT_NE(std::string(error.what()).find(at), std::string::npos) << error.what();
    }
  }
}

// Level 2 has room for many more threads.
TEST_F(BetweenAttemptsTest, ThreadWithoutAContextRunsAtPagesUntilThereIsOne) {
  expect_child("goes on", [&] {
    open();
    const Site site(domain_, "goes on", "after-n=8"), never(domain_, "never", "never");
    line::LineMemory others;
    bool found = false;
    ASSERT_EQ(others.open(folder_.path(), &found), Errc::kOk);
    std::vector<std::uint32_t> taken(line::kContextsMax);
    for (std::uint32_t &number : taken) ASSERT_EQ(others.take_context(0, 1, &number), Errc::kOk);
    for (int i = 0; i < 3; ++i) atomically(site, [&](Fields) { ++word(0); });
    EXPECT_EQ(site.report().page_commits, 3U);
    expect_error(Errc::kTooManyParticipants, [&] { atomically(never, [](Fields) {}); });
    for (const std::uint32_t number : taken) others.give_back(number);
    set_elsewhere(site, 1, 1);
    EXPECT_EQ(site.report().line_commits, 1U);
    EXPECT_EQ(committed(0), 3U);
    EXPECT_EQ(committed(1), 1U);
  });
}

// What it inherits of the parent's instance is not in its way.
TEST_F(BetweenAttemptsTest, ChildForkedInABodyRunsInstancesOfItsOwn) {
  expect_child("forks", [&] {
    open();
    const Site never(domain_, "never", "never");
    atomically(never, [&](Fields) {
      word(0).store(1);
      const ChildEnd end = run_in_child("child", [&] {
        const Domain own = Domain::open(folder_.path());
        const Segment same = own.map("words.raw", words_options(kPages));
        auto &count = *reinterpret_cast<field<std::uint64_t> *>(same.data() + kPageBytes);
        atomically(own, [&] { ++count; });
        atomically(Site(own, "own", "never"), [&](Fields) { ++count; });
      });
      EXPECT_TRUE(end.succeeded());
    });
    EXPECT_EQ(committed(0), 1U);
    EXPECT_EQ(committed(1), 2U);
  });
}

// Between its store and its commit.
TEST_F(BetweenAttemptsTest, PageThatLevelTwoTakesBeforeTheCommitIsAskedFor) {
  open();
  const Site never(domain_, "never", "never");
  int bodies = 0;
  atomically(never, [&](Fields) {
    word(0).store(7);
    if (++bodies != 1) return;
    std::thread([&] {  // often: the page stays mapped, as it is
      for (int i = 0; i < 4; ++i) atomically(domain_, [&] { ++(&word(0))[1]; });
    })
        .join();
  });
  EXPECT_EQ(bodies, 1);
  EXPECT_EQ(committed(0), 7U);
  EXPECT_EQ(query(domain_, [&] { return (&word(0))[1].load(); }), 4U);
}

// Nobody begins at level 2, and nobody opens the domain.
TEST_F(BetweenAttemptsTest, ContextsOfTheDeadAreThereForNewThreads) {
  expect_child("goes on", [&] {
    open();
    const Site never(domain_, "never", "never");
    const ChildEnd end = run_in_child("has all", [&] {
      const Domain own = Domain::open(folder_.path());
      const detail::DomainImpl &mine = *detail::impl_of(own);
      const std::uint64_t incarnation = mine.memory().participant(mine.slot()).incarnation.load();
      line::LineMemory contexts;
      bool found = false;
      ASSERT_EQ(contexts.open(folder_.path(), &found), Errc::kOk);
      for (std::uint32_t i = 0, number = 0; i < line::kContextsMax; ++i)
        ASSERT_EQ(contexts.take_context(mine.slot(), incarnation, &number), Errc::kOk);
      static_cast<void>(kill(getpid(), SIGKILL));
    });
    EXPECT_EQ(end.signal, SIGKILL);
    atomically(never, [&](Fields) { ++word(0); });
    EXPECT_EQ(never.report().line_commits, 1U);
  });
}

// A thread's first instance.
TEST_F(BetweenAttemptsTest, ThreadWithoutMemoryForItsContextSaysSo) {
  open();
  const Site never(domain_, "never", "never");
  std::uint64_t refused = 0, began = 0;
  for (int allocation = 0; began == 0; ++allocation) {
    std::thread([&] {
      try {
        new_failure.after = allocation;
        atomically(never, [&](Fields) {
          new_failure.after = -1;
          ++word(0);
        });
        ++began;
      } catch (const Error &error) {
        EXPECT_EQ(error.errc(), Errc::kOutOfMemory);
        ++refused;
      } catch (const std::bad_alloc &) {
        ++refused;
      }
      new_failure.after = -1;
    }).join();
  }
  EXPECT_GT(refused, 3U);
  EXPECT_EQ(committed(0), 1U);
}

// As at level 2 an exception of a FAILED instance.
TEST_F(BetweenAttemptsTest, ExceptionMadeOfAnAbortDoesNotLeave) {
  open();
  const Site site(domain_, "translates", "never"), other(domain_, "other", "never");
  int bodies = 0;
  atomically(site, [&](Fields) {
    const std::uint64_t seen = word(0);
    if (++bodies == 1) {
      set_elsewhere(other, 0, 1);
      set_elsewhere(other, 1, 1);
    }
    try {
      EXPECT_EQ(word(1).load(), seen);
    } catch (...) {
      throw std::runtime_error("cannot be read");
    }
  });
  EXPECT_EQ(bodies, 2);
  EXPECT_EQ(site.report().line_aborts, 1U);
}

// Level 1 of the inner domain knows nothing of the outer one: it would commit what the outer
// instance rolls back, or runs again.
TEST_F(BetweenAttemptsTest, InstanceOfAnotherDomainIsRefusedAtEitherLevel) {
  expect_child("refuses", [&] {
    open();
    const MemoryFolder elsewhere;
    DomainOptions hybrid;
    hybrid.levels = Levels::kHybrid;
    const Domain other = Domain::open(elsewhere.path(), hybrid);
    const Site inner(other, "inner", "never");
    for (const char *const level : {"always", "on-capacity"}) {
      const Site outer(domain_, level, level);
      expect_error(Errc::kNestedMisuse, [&] {
        atomically(outer, [&](Fields) {
          ++word(0);
          atomically(inner, [](Fields) {});
        });
      });
    }
    expect_error(Errc::kNestedMisuse,
                 [&] { atomically(domain_, [&] { atomically(inner, [](Fields) {}); }); });
    expect_error(Errc::kNestedMisuse,
                 [&] { query(domain_, [&] { atomically(inner, [](Fields) {}); }); });
    EXPECT_EQ(inner.report().line_commits, 0U);
    EXPECT_EQ(committed(0), 0U);
  });
}

// In a view of the thread's own the inner one's end took the view away: the rest of the body
// touched the process's, outside every instance.
TEST_F(BetweenAttemptsTest, InstanceInAViewOfItsOwnSurvivesARefusedOneOfAnotherDomain) {
  expect_child("goes on", [&] {
    setenv("TMH_THREAD_VIEWS", "always", 1);
    open();
    const MemoryFolder elsewhere;
    DomainOptions hybrid;
    hybrid.levels = Levels::kHybrid;
    const Domain other = Domain::open(elsewhere.path(), hybrid);
    const Site outer(domain_, "outer", "always"), inner(other, "inner", "never");
    atomically(outer, [&](Fields) {
      ++word(0);
      expect_error(Errc::kNestedMisuse, [&] { atomically(inner, [](Fields) {}); });
      ++word(1);
    });
    EXPECT_EQ(committed(0), 1U);
    EXPECT_EQ(committed(1), 1U);
  });
}

TEST_F(BetweenAttemptsTest, ChildForkedInABodyCannotCommit) {
  open();
  const Site site(domain_, "forks", "never");
  pid_t child = -1;
  try {
    atomically(site, [&](Fields) {
      ++word(0);
      child = fork();
    });
    if (child == 0) _exit(1);  // it takes itself for committed
  } catch (const Error &error) {
    if (child != 0) throw;
    _exit(error.code() == make_error_code(Errc::kDetached) ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(committed(0), 1U);
}

// The instance is the parent's, and so is what is to be done once it has ended.
TEST_F(BetweenAttemptsTest, ChildForkedInABodyRunsNoneOfItsActions) {
  open();
  const Site site(domain_, "forks", "never");
  for (const bool at_site : {true, false}) {
    int actions = 0;
    pid_t child = -1;
    const auto body = [&] {
      on_commit([&] { ++actions; });
      on_abort([&] { ++actions; });
      ++word(0);
      child = fork();
    };
    try {
      if (at_site)
        atomically(site, [&](Fields) { return body(); });
      else
        atomically(domain_, body);
    } catch (const Error &) {
      if (child != 0) throw;
      const MemoryFolder elsewhere;
      const Domain own = Domain::open(elsewhere.path());
      atomically(own, [] {});
      _exit(actions);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << (at_site ? "at a site" : "plain");
    EXPECT_EQ(actions, 1);
  }
}

}  // namespace
}  // namespace tmh::test
