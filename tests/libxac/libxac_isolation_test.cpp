// tests/libxac/libxac_isolation_test.cpp -- snapshot isolation and promotion in the C interface.
// Invariants: those of tests/page/multi_isolation_test.cpp, as xSetPolicy() and xPromote() ask for
//             them; what is wrong has a code of its own.
#include <gtest/gtest.h>
#include <xac.h>

#include <cstdint>

#include "tests/support/children.h"
#include "tests/support/libxac.h"
#include "tests/support/shared.h"

namespace tmh::test {
namespace {

// Two processes: each decides by what the other one writes. Without promotion both commit.
TEST_F(Libxac, PromotionEndsTheSkewOfSnapshotIsolation) {
  for (const bool promotes : {false, true}) {
    const Shared<Turn> turn;
    Children children;
    for (const bool is_first : {true, false}) {
      children.spawn(is_first ? "first" : "second", role(*turn, [&, is_first] {
                       init();
                       int *const mine = map(is_first ? "first.db" : "second.db", PAGESIZE);
                       const int *const other = map(is_first ? "second.db" : "first.db", PAGESIZE);
                       EXPECT_EQ(xSetPolicy("isolation=snapshot"), 0);
                       turn->await(is_first ? 0 : 1);
                       ASSERT_EQ(xbegin(), 0);
                       *mine = *other + 1;
                       if (promotes) {
                         EXPECT_EQ(xPromote(other, sizeof *other), 0);
                       }
                       if (is_first) {
                         turn->reach(1);
                         turn->await(2);
                         EXPECT_EQ(xend(), promotes ? ABORTED : COMMITTED);
                       } else {
                         EXPECT_EQ(xend(), COMMITTED);
                         turn->reach(2);
                       }
                       EXPECT_EQ(xShutdown(), 0);
                     }));
    }
    children.expect_success();
  }
}

TEST_F(Libxac, PromoteRefusesWhatIsNotThere) {
  init();
  int *const x = map("input.db", PAGESIZE);
  int local = 0;
  EXPECT_EQ(xPromote(x, sizeof *x), code(Errc::kEndWithoutBegin));
  ASSERT_EQ(xbegin(), 0);
  EXPECT_EQ(xPromote(&local, sizeof local), code(Errc::kNotMapped));
  EXPECT_EQ(xPromote(nullptr, 1), code(Errc::kNotMapped));
  EXPECT_EQ(xPromote(x, PAGESIZE + 1), code(Errc::kNotMapped));
  EXPECT_EQ(xPromote(x, SIZE_MAX), code(Errc::kNotMapped));
  EXPECT_EQ(xPromote(x, 0), 0);
  EXPECT_EQ(xPromote(x, PAGESIZE), 0);
  EXPECT_EQ(xend(), COMMITTED);
  ASSERT_EQ(xbeginQuery(), 0);
  EXPECT_EQ(xPromote(x, PAGESIZE), 0) << "in a query nothing happens";
  EXPECT_EQ(xendQuery(), 0);
}

}  // namespace
}  // namespace tmh::test
