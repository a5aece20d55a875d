// tests/transaction/body_kind_test.cpp -- a site's body is what the program says it is, by what it
// takes: tmh::Fields (instrumented) or nothing (plain). Neither the environment nor the domain's
// levels nor another process change it.
// Order:      where two processes play, a comment at the side tells who runs.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/code_of.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using detail::BodyKind;
using detail::kKindOfBody;

// What the compiler decides.
using PlainFunction = void();
using InstrumentedFunction = std::uint64_t(Fields);
static_assert(kKindOfBody<decltype([] {})> == BodyKind::kPlain);
static_assert(kKindOfBody<decltype([](Fields) {})> == BodyKind::kInstrumented);
static_assert(kKindOfBody<decltype([](const Fields &) {})> == BodyKind::kInstrumented);
static_assert(kKindOfBody<decltype([](auto) {})> == BodyKind::kInstrumented);
static_assert(kKindOfBody<PlainFunction &> == BodyKind::kPlain);
static_assert(kKindOfBody<InstrumentedFunction &> == BodyKind::kInstrumented);
static_assert(kKindOfBody<const std::function<void()> &> == BodyKind::kPlain);
static_assert(kKindOfBody<std::function<int(Fields)>> == BodyKind::kInstrumented);
static_assert(std::is_same_v<detail::SiteBodyResult<InstrumentedFunction &>, std::uint64_t>);
// The library alone makes the token. A body may copy it and pass it on.
template <class Token>
concept MadeOfNothing = requires {
  Token({});
}
|| requires { Token{}; };
static_assert(!MadeOfNothing<Fields> && !std::is_default_constructible_v<Fields>);
static_assert(!std::is_default_constructible_v<detail::FieldsKey> &&
              !std::is_aggregate_v<detail::FieldsKey>);
static_assert(std::is_empty_v<Fields> && std::is_trivially_copyable_v<Fields>);
// What a body takes, not its site, says how it is run.
static_assert(std::is_constructible_v<Site, const Domain &, const char *, const char *>);
static_assert(!std::is_constructible_v<Site, const Domain &, const char *, const char *, BodyKind>);

constexpr int kUpdates = 1000;

struct Word {
  std::uint64_t plain;
  field<std::uint64_t> shared;
};

DomainOptions hybrid() {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
  return options;
}

// Two words in one line of one page.
struct Table {
  explicit Table(const std::string &folder, const DomainOptions &options = hybrid())
      : domain(Domain::open(folder, options)),
        segment(domain.map("words.db")),
        word(segment.root<Word>("word")) {}
  [[nodiscard]] std::uint64_t plain() const {
    return query(domain, [&] { return word->plain; });
  }
  [[nodiscard]] std::uint64_t shared() const {
    return query(domain, [&] { return word->shared.load(); });
  }
  Domain domain;
  Segment segment;
  Word *word;
};

class BodyKindTest : public testing::Test {
 protected:
  void count_to_a_thousand() const {
    const Table table(folder_.path(), {});
    const Site site(table.domain, "count");
    for (int i = 0; i < kUpdates; ++i) atomically(site, [&] { ++table.word->plain; });
    EXPECT_EQ(query(site, [&] { return table.word->plain; }), kUpdates);
  }
  // As a process finds it that comes later.
  void expect_a_thousand() const {
    expect_child("a reader", [&] { EXPECT_EQ(Table(folder_.path(), {}).plain(), kUpdates); });
  }
  MemoryFolder folder_;
};

TEST_F(BodyKindTest, APlainCounterInASiteKeepsEveryUpdateWhateverTmhLevelsSays) {
  for (const char *levels : {"page", "hybrid"}) {
    SCOPED_TRACE(levels);
    const MemoryFolder folder;
    expect_child("the counter", [&] {
      ASSERT_EQ(::setenv("TMH_LEVELS", levels, 1), 0);
      const Table table(folder.path(), {});
      const Site site(table.domain, "count");
      for (int i = 0; i < kUpdates; ++i) atomically(site, [&] { ++table.word->plain; });
      EXPECT_EQ(site.report().line_commits + site.report().page_commits, kUpdates);
    });
    expect_child("a reader", [&] { EXPECT_EQ(Table(folder.path(), {}).plain(), kUpdates); });
  }
}

TEST_F(BodyKindTest,
       APlainCounterInASiteKeepsEveryUpdateBesideAProcessThatHoldsTheDomainOpenAsHybrid) {
  const Shared<Turn> turn;
  Children children;
  children.spawn("the holder", [&] {
    const Table table(folder_.path());
    turn->reach(1);  // holder
    turn->await(2);
  });
  turn->await(1);
  expect_child("the counter", [&] { count_to_a_thousand(); });  //         counter
  turn->reach(2);
  children.expect_success();
  expect_a_thousand();
}

TEST_F(BodyKindTest, APlainStoreBesideAFieldInOnePlainBodyCommitsBoth) {
  const Table table(folder_.path());
  for (const char *escalation : {"never", "on-capacity", "adaptive", "always"}) {
    SCOPED_TRACE(escalation);
    const Site site(table.domain, escalation, escalation);
    const std::uint64_t plain = table.plain(), shared = table.shared();
    for (int i = 0; i < 10; ++i)
      atomically(site, [&] { ++table.word->plain, ++table.word->shared; });
    EXPECT_EQ(table.plain(), plain + 10);
    EXPECT_EQ(table.shared(), shared + 10);
    EXPECT_THROW(atomically(site,
                            [&] {
                              ++table.word->plain, ++table.word->shared;
                              throw std::runtime_error("undo both");
                            }),
                 std::runtime_error);
    EXPECT_EQ(table.plain(), plain + 10);
    EXPECT_EQ(table.shared(), shared + 10);
  }
}

TEST_F(BodyKindTest, OneSiteRunsBodiesOfBothKindsEachAtItsLevel) {
  const Table table(folder_.path());
  const Site site(table.domain, "both");
  for (int i = 0; i < 10; ++i) {
    atomically(site, [&](Fields) { ++table.word->shared; });
    atomically(site, [&] { ++table.word->plain, ++table.word->shared; });
  }
  EXPECT_EQ(table.plain(), 10U);
  EXPECT_EQ(table.shared(), 20U);
  EXPECT_EQ(site.report().line_commits, 10U);
  EXPECT_EQ(site.report().page_commits, 10U);
  EXPECT_EQ(query(site, [&](Fields) { return table.word->shared.load(); }), 20U);
  EXPECT_EQ(site.report().line_commits, 11U);
  EXPECT_EQ(query(site, [&] { return table.word->plain + table.word->shared; }), 30U);
  EXPECT_EQ(site.report().page_commits, 11U);
}

TEST_F(BodyKindTest, APlainBodyInsideAnInstrumentedOneSendsTheInstanceToLevelTwoAndLosesNothing) {
  const Table table(folder_.path());
  const Site inner(table.domain, "inner");
  int updates = 0;
  const auto expect_both = [&](const char *name, const std::function<void()> &plain) {
    SCOPED_TRACE(name);
    const Site outer(table.domain, name, "on-capacity");
    int attempts = 0;
    atomically(outer, [&](Fields) {
      ++attempts;
      ++table.word->shared;
      plain();
      ++table.word->shared;
    });
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(outer.report().escalations_needs_pages, 1U);
    EXPECT_EQ(outer.report().line_commits, 0U);
    ++updates;
    EXPECT_EQ(table.plain(), updates);
    EXPECT_EQ(table.shared(), 2 * updates);
  };
  const auto add = [&] { ++table.word->plain; };
  expect_both("another site's", [&] { atomically(inner, add); });
  expect_both("the domain's", [&] { atomically(table.domain, add); });
  expect_both("with a durability", [&] { atomically(inner, Durability::kNone, add); });
  expect_both("behind an instrumented one",
              [&] { atomically(inner, [&](Fields) { atomically(inner, add); }); });
  const Site stays(table.domain, "stays", "never");
  EXPECT_EQ(code_of([&] { atomically(stays, [&](Fields) { atomically(inner, add); }); }),
            Errc::kNeedsPages);
  EXPECT_EQ(code_of([&] { atomically(stays, [&](Fields) { atomically(stays, add); }); }),
            Errc::kNeedsPages);
  EXPECT_EQ(table.plain(), updates);
}

TEST_F(BodyKindTest, APlainQueryInsideAnInstrumentedBodySeesWhatThatBodyHasStored) {
  const Table table(folder_.path());
  const Site site(table.domain, "site");
  const auto seen = atomically(site, [&](Fields) {
    table.word->shared.store(7);
    return query(site,
                 [&] { return *reinterpret_cast<const std::uint64_t *>(&table.word->shared); });
  });
  EXPECT_EQ(seen, 7U);
}

TEST_F(BodyKindTest, AnInstrumentedBodyInsideAPlainOneRunsInIt) {
  const Table table(folder_.path());
  const Site site(table.domain, "site");
  const auto add = [&](Fields) { ++table.word->shared; };
  atomically(site, [&] {
    ++table.word->plain;
    atomically(site, add);
    EXPECT_EQ(query(site, [&](Fields) { return table.word->shared.load(); }), 1U);
  });
  atomically(table.domain, [&] {
    ++table.word->plain;
    atomically(site, add);
  });
  EXPECT_EQ(table.plain(), 2U);
  EXPECT_EQ(table.shared(), 2U);
  EXPECT_THROW(atomically(site,
                          [&] {
                            ++table.word->plain;
                            atomically(site, add);
                            throw std::runtime_error("undo both");
                          }),
               std::runtime_error);
  EXPECT_EQ(table.plain(), 2U);
  EXPECT_EQ(table.shared(), 2U);
  EXPECT_EQ(site.report().line_commits, 0U);
}

std::uint64_t twice(Fields, field<std::uint64_t> *word) {
  *word *= 2U;
  return *word;
}

TEST_F(BodyKindTest, TheTokenPassesThroughFunctionsAndFunctionObjects) {
  const Table table(folder_.path());
  const Site site(table.domain, "site");
  atomically(site, [&](Fields) { table.word->shared.store(21); });
  EXPECT_EQ(atomically(site, [&](Fields fields) { return twice(fields, &table.word->shared); }),
            42U);
  const std::function<void(Fields)> add = [&](Fields) { ++table.word->shared; };
  atomically(site, add);
  atomically(site, Durability::kNone, add);
  EXPECT_EQ(table.shared(), 44U);
  EXPECT_EQ(site.report().line_commits, 4U);
  const std::function<void()> plain = [&] { ++table.word->plain; };
  atomically(site, plain);
  EXPECT_EQ(table.plain(), 1U);
}

}  // namespace
}  // namespace tmh::test
