// tests/domain/open_without_memory_test.cpp -- opens of a domain, maps, instances and a thread's
// views in which one allocation fails.
// Invariants: (1) what an open without memory has made of a new folder is no domain: the next open
//             gets what it asks for. (2) it leaves no participant behind: the next one is the
//             first, and finds what the dead have left. (3) instances go on without views of the
//             thread, or with more versions than needed. (4) an instance, a flush and a thread's
//             first instance without memory end the program in no case: they happen, or fail;
//             kOutOfMemory says that nothing was committed; and with memory again they happen. (5)
//             a map() that fails has mapped nothing.
// Steps:      the n-th allocation of kBytesMin or more fails, for each n until the open needs no
//             more: those are its objects and buffers; the names of files are thousands. Where the
//             library may not throw, the process ends: those n are left to the tests of deaths.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/failing_new.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kBytesMin = 512;
constexpr std::uint64_t kMiB = 1u << 20;

enum class Opened : std::uint8_t { kYes, kNo, kDied };

// Opens with the n-th allocation failing; then, in the same process if it did not open, `after`.
Opened open_at(int n, const std::string &folder, const DomainOptions &options,
               const std::function<void()> &after) {
  const Shared<bool> has_opened;
  const ChildEnd end = run_in_child("without memory", [&] {
    signal(SIGABRT, [](int) { _exit(7); });  // std::terminate(): no core, and nothing said
    new_failure = {n, kBytesMin};
    std::error_code error;
    const Domain domain = Domain::open(folder, options, error);
    new_failure = {};
    *has_opened = !error;
    if (!error) return;
    EXPECT_EQ(error, make_error_code(Errc::kOutOfMemory)) << n << ": " << error.message();
    after();
  });
  if (end.exit_code == 7) return Opened::kDied;
  EXPECT_TRUE(end.succeeded()) << n;
  return *has_opened ? Opened::kYes : Opened::kNo;
}

DomainOptions strict_hybrid(std::uint64_t log_file_bytes) {
  DomainOptions options = durable_options();
  options.log_file_bytes = log_file_bytes;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  return options;
}

TEST(OpenWithoutMemoryTest, MakesNoDomain) {
  int refused = 0, n = 0;
  for (Opened opened = Opened::kNo; opened != Opened::kYes; ++n) {
    SCOPED_TRACE(n);
    const TempFolder parent;
    const std::string folder = parent.path() + "/new";
    opened = open_at(n, folder, strict_hybrid(2 * kMiB), [&] {
      Domain domain = Domain::open(folder, strict_hybrid(kMiB));
      EXPECT_EQ(std::filesystem::file_size(folder + "/tmh.log.0000000000"), kMiB);
      domain.close();
    });
    refused += opened == Opened::kNo ? 1 : 0;
  }
  EXPECT_GT(refused, 2) << "of " << n;
}

TEST(OpenWithoutMemoryTest, LeavesNoParticipantBehind) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  int refused = 0, n = 0;
  for (Opened opened = Opened::kNo; opened != Opened::kYes; ++n) {
    SCOPED_TRACE(n);
    const TempFolder folder;
    in_domain(folder.path(), options, Ending::kKilled,
              [](const Domain &domain, const Segment &segment) { commit(domain, segment, 10); });
    opened = open_at(n, folder.path(), options, [&] {
      const Domain domain = Domain::open(folder.path(), options);
      EXPECT_EQ(domain.participants().size(), 1U);
      const Segment segment = domain.map("a.db", raw_pages(64));
      EXPECT_EQ(query(domain, [&] { return word_of(segment, 9); }), 9U);
    });
    refused += opened == Opened::kNo ? 1 : 0;
  }
  EXPECT_GT(refused, 2) << "of " << n;
}

// Who finds no memory for views of its own runs on the process's.
TEST(OpenWithoutMemoryTest, ThreadRunsOnTheViewsOfTheProcess) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  options.policies.thread_views = lab::kOwnViewAlways;
  int without_views = 0, n = 0;
  for (bool has_views = false; !has_views; ++n) {
    SCOPED_TRACE(n);
    const TempFolder folder;
    const Shared<bool> had_views;
    expect_child("a thread", [&] {
      const Domain domain = Domain::open(folder.path(), options);
      const Segment segment = domain.map("a.db", raw_pages(64));
      auto *const words = reinterpret_cast<field<std::uint64_t> *>(segment.data());
      const Site site(domain, "adds", "always");
      std::thread([&] {
        const auto add = [&] { atomically(site, [&](Fields) { ++words[0]; }); };
        new_failure = {n, kBytesMin};
        add();
        *had_views = new_failure.after >= 0;
        new_failure = {};
        add();
      }).join();
      EXPECT_EQ(query(domain, [&] { return words[0].load(); }), 2U);
      if (*had_views)
        EXPECT_EQ(domain.counters().thread_view_instances, 2U);
      else
        EXPECT_LE(domain.counters().thread_view_instances, 1U);
    });
    has_views = *had_views;
    without_views += has_views ? 0 : 1;
    if (HasFailure()) break;
  }
  EXPECT_GT(without_views, 2) << "of " << n;
}

// Somebody's snapshot keeps what is committed from going home; whose it is must be remembered for
// that.
TEST(OpenWithoutMemoryTest, CommitsGoOnUnderASnapshot) {
  constexpr std::uint64_t kCommits = 40;
  const TempFolder folder;
  const Shared<Turn> turn;
  Children children;
  const std::size_t reader = children.spawn("reader", [&] {
    const Domain domain = Domain::open(folder.path());
    const Segment segment = domain.map("a.db", raw_pages(64));
    domain.begin_query();
    EXPECT_EQ(word_of(segment, 0), 0U);
    turn->reach(1);
    turn->await(2);
    EXPECT_EQ(word_of(segment, 0), 0U);
    domain.end_query();
  });
  turn->await(1);
  expect_child("writer", [&] {
    const Domain domain = Domain::open(folder.path());
    const Segment segment = domain.map("a.db", raw_pages(64));
    atomically(domain, [&] { word_of(segment, 1) = 1; });
    for (std::uint64_t i = 1; i <= kCommits; ++i) {
      new_failure = {0, 1};  // the first allocation of each
      atomically(domain, [&] { word_of(segment, 0) = i; });
      new_failure = {0, 1};
      (void)domain.collect();
      new_failure = {};
    }
    EXPECT_LE(domain.collect(), 2U) << "versions are folded when there is memory again";
    EXPECT_EQ(query(domain, [&] { return word_of(segment, 0); }), kCommits);
  });
  turn->reach(2);
  EXPECT_TRUE(children.wait(reader).succeeded());
}

enum class Call : std::uint8_t {
  kSite,
  kLargeSite,
  kPages,
  kManyPages,
  kFlush,
  kThread,
  kThreadSite
};

struct Play {
  const char *name;
  Call call;
  DomainOptions options;
};
void PrintTo(const Play &play, std::ostream *out) { *out << play.name; }

DomainOptions volatile_hybrid(const std::string &capacity = {}) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  options.policies.capacity = capacity;
  return options;
}

constexpr std::uint64_t kPages = 2000;
// One to each word, at whatever level.
void add_to_all(const Domain &domain, const Segment &segment, const Site &site, Call call) {
  const auto add_fields = [&](std::uint64_t count) {
    atomically(site, [&](Fields) {
      for (std::uint64_t i = 0; i < count; ++i)
        ++reinterpret_cast<field<std::uint64_t> *>(segment.data())[i * 512];
    });
  };
  const auto add_words = [&](std::uint64_t count) {
    Status status = Status::kAborted;  // by the library, with no error
    while (status != Status::kCommitted) {
      domain.begin();
      for (std::uint64_t i = 0; i < count; ++i) ++word_of(segment, i);
      status = domain.end(call == Call::kFlush ? Durability::kBuffered : Durability::kStrict);
    }
  };
  if (call == Call::kSite || call == Call::kThreadSite) return add_fields(1);
  if (call == Call::kLargeSite) return add_fields(kPages);
  add_words(call == Call::kManyPages ? kPages : 1);
  if (call == Call::kFlush) domain.flush();
}

// Runs `body` in a thread of its own if the call is about one, with the n-th allocation failing.
// False: it needs no more.
bool fails_at(int n, Call call, const std::function<void()> &body, std::error_code *error) {
  bool has_failed = false;
  const auto run = [&] {
    new_failure = {n, 1};
    try {
      body();
    } catch (const Error &thrown) {
      new_failure.after = -1;
      *error = thrown.code();
      has_failed = true;
    } catch (const std::bad_alloc &) {
      *error = make_error_code(Errc::kOutOfMemory);
    }
    has_failed = has_failed || new_failure.after < 0;
    new_failure = {};
  };
  if (call == Call::kThread || call == Call::kThreadSite)
    std::thread(run).join();
  else
    run();
  return has_failed;
}

class WithoutMemoryTest : public testing::TestWithParam<Play> {};

TEST_P(WithoutMemoryTest, InstancesHappenOrFail) {
  // No structured binding: clang 14 has none in lambdas.
  const Call call = GetParam().call;
  const DomainOptions &options = GetParam().options;
  bool goes_on = true;
  for (int n = 0; goes_on && !HasFailure(); ++n) {
    SCOPED_TRACE(n);
    const MemoryFolder folder;
    const Shared<bool> failed;
    expect_child("without memory", [&] {
      const Domain domain = Domain::open(folder.path(), options);
      const Segment segment = domain.map("a.db", raw_pages(kPages));
      const Site site(domain, "site");
      std::error_code error;
      *failed = fails_at(
          n, call, [&] { add_to_all(domain, segment, site, call); }, &error);
      const std::uint64_t before = query(domain, [&] { return word_of(segment, 0); });
      if (!error) {
        EXPECT_EQ(before, 1U);
      } else if (error == make_error_code(Errc::kOutOfMemory)) {
        EXPECT_EQ(before, 0U) << "it said that there was no memory, and has committed";
      } else {
        // Committed, and perhaps not durable.
        EXPECT_EQ(error, make_error_code(Errc::kIo)) << error.message();
        EXPECT_EQ(before, 1U);
      }
      add_to_all(domain, segment, site, call);
      EXPECT_EQ(query(domain, [&] { return word_of(segment, 0); }), before + 1);
      if (domain.durability() != Durability::kNone) domain.flush();
    });
    goes_on = *failed;
  }
}

const Play kPlays[] = {
    {"Site", Call::kSite, volatile_hybrid()},
    {"SiteDurable", Call::kSite, strict_hybrid(kMiB)},
    {"SiteCapacity", Call::kSite, volatile_hybrid("32KiB/8/64")},
    {"LargeSite", Call::kLargeSite, volatile_hybrid()},
    {"LargeSiteDurable", Call::kLargeSite, strict_hybrid(kMiB)},
    {"Pages", Call::kPages, strict_hybrid(kMiB)},
    {"ManyPages", Call::kManyPages, durable_options()},
    {"ManyPagesHybrid", Call::kManyPages, strict_hybrid(kMiB)},
    {"Flush", Call::kFlush, strict_hybrid(kMiB)},
    {"Thread", Call::kThread, {}},
    {"ThreadSite", Call::kThreadSite, volatile_hybrid()},
};
INSTANTIATE_TEST_SUITE_P(Plays, WithoutMemoryTest, testing::ValuesIn(kPlays),
                         [](const auto &of) { return std::string(of.param.name); });

// Where it fails with an error; names of files, and what comes behind them, end the program as in
// an open.
TEST(OpenWithoutMemoryTest, MapLeavesNothingMapped) {
  int refused = 0, n = 0;
  for (bool goes_on = true; goes_on && !HasFailure(); ++n) {
    const MemoryFolder folder;
    const Shared<int> outcome;
    SCOPED_TRACE(n);
    const ChildEnd end = run_in_child("without memory", [&] {
      signal(SIGABRT, [](int) { _exit(7); });
      const Domain domain = Domain::open(folder.path());
      const Segment before = domain.map("before.db", raw_pages(4));
      std::error_code error;
      new_failure = {n, 1};
      Segment segment = domain.map("a.db", raw_pages(4), error);
      new_failure = {};
      *outcome = error ? 1 : 2;
      if (error) segment = domain.map("a.db", raw_pages(4));
      atomically(domain, [&] { ++word_of(segment, 0); });
      EXPECT_EQ(segment_of(segment.data()).name(), "a.db");
    });
    if (end.exit_code != 7) {
      EXPECT_TRUE(end.succeeded());
    }
    refused += *outcome == 1 ? 1 : 0;
    goes_on = *outcome != 2;
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace tmh::test
