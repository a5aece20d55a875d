// tests/page/multi_claims_test.cpp -- what the claimer does before a touch, kind by kind, as the
// instance and others see it.
// Invariants: (1) kind none: touches are not registered, so another instance may store to what this
//                 one has read; and its snapshot stands still. (2) kind failing: they are
//                 registered, the first store behind a load included, until the instance ends; and
//                 each moves the snapshot to the present.
// Source:     thesis, section 3.3.
#include <cstdint>
#include <string>

#include "levels/page/views/claim_kind.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using page::claim_kind;
using page::ClaimKind;

static_assert(claim_kind(Detection::kLazy) == ClaimKind::kNone);
static_assert(claim_kind(Detection::kEager) == ClaimKind::kFailing);
static_assert(!registers_touches(ClaimKind::kNone) && registers_touches(ClaimKind::kFailing));
static_assert(!moves_snapshot(ClaimKind::kNone) && moves_snapshot(ClaimKind::kFailing));

// The discoverer of a conflict fails.
constexpr const char *kSelf = "self-abort,fresh-age,backoff=none";

class ClaimsTest : public ModeTest {
 protected:
  [[nodiscard]] ClaimKind kind() const { return claim_kind(GetParam().detection); }
};

TEST_P(ClaimsTest, SnapshotMovesWithATouchWhereTheKindSaysSo) {
  run_pair(
      "",
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        EXPECT_EQ(self.get(1), 0U);
        turn.reach(1);
        turn.await(2);  // the other one has committed page 2
        EXPECT_EQ(self.get(2), moves_snapshot(kind()) ? 5U : 0U);
        EXPECT_EQ(self.domain.end(), Status::kCommitted) << "it has only read, and at one moment";
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.commit(2, 5);
        turn.reach(2);
      });
}

TEST_P(ClaimsTest, LoadIsRegisteredUntilTheInstanceEndsWhereTheKindSaysSo) {
  run_pair(
      kSelf,
      [&](Actor &self, Turn &turn) {
        self.domain.begin();
        EXPECT_EQ(self.get(1), 0U);
        turn.reach(1);
        turn.await(2);  // the other one has stored to the page
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.domain.begin();
        self.set(1, 5);
        const bool fails = registers_touches(kind());
        EXPECT_EQ(self.domain.validate(), fails ? Status::kFailed : Status::kPending);
        EXPECT_EQ(self.domain.end(), fails ? Status::kAborted : Status::kCommitted);
        turn.reach(2);
        turn.await(3);
        self.commit(1, 6);
        EXPECT_EQ(self.committed(1), 6U);
      });
}

// The page is there since the load: the store itself must still come to the claimer.
TEST_P(ClaimsTest, FirstStoreBehindALoadIsSeenWhereTheKindSaysSo) {
  run_pair(
      kSelf,
      [&](Actor &self, Turn &turn) {
        self.commit(1, 4);
        self.domain.begin();
        EXPECT_EQ(self.get(1), 4U);
        turn.reach(1);
        turn.await(2);  // the other one has read it, too
        EXPECT_EQ(self.domain.validate(), Status::kPending);
        self.set(1, 5);
        const bool fails = registers_touches(kind());
        EXPECT_EQ(self.domain.validate(), fails ? Status::kFailed : Status::kPending);
        EXPECT_EQ(self.domain.end(), fails ? Status::kAborted : Status::kCommitted);
        turn.reach(3);
      },
      [&](Actor &self, Turn &turn) {
        turn.await(1);
        self.domain.begin();
        EXPECT_EQ(self.get(1), 4U);
        turn.reach(2);
        turn.await(3);
        EXPECT_EQ(self.domain.end(), Status::kCommitted);
      });
}

INSTANTIATE_TEST_SUITE_P(Kinds, ClaimsTest,
                         testing::Values(Mode{"None", Detection::kLazy, Tracking::kSignal},
                                         Mode{"Failing", Detection::kEager, Tracking::kSignal}),
                         mode_name);

}  // namespace
}  // namespace tmh::test
