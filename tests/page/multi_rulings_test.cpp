// tests/page/multi_rulings_test.cpp -- who fails when two instances of an eager domain conflict:
// every policy, both directions.
// Invariants: exactly the instance that the policy names is FAILED at once and aborts at its end;
//             the other one commits.
// Source:     thesis, section 3.3 (abort policies).
#include <string>

#include "tests/support/stage.h"

namespace tmh::test {
namespace {

struct Ruling {
  const char *policy;
  bool older_discovers;
  bool older_fails;
};

// Thesis, section 3.3. The older instance begins first; the discoverer is the one whose access
// completes the conflict.
constexpr Ruling kRulings[] = {
    {"self-abort", false, false},   {"self-abort", true, true},     {"oldest-wins", false, false},
    {"oldest-wins", true, false},   {"selfish-abort", false, true}, {"selfish-abort", true, false},
    {"youngest-wins", false, true}, {"youngest-wins", true, true},
};

class RulingTest : public testing::TestWithParam<Ruling> {
 protected:
  static constexpr Mode kEagerMode{"EagerSignal", Detection::kEager, Tracking::kSignal};

  // `older_writes`: the older instance writes the page, else the younger one; the other one reads
  // it.
  void play(bool older_writes) const {
    const MemoryFolder folder;
    const DomainOptions options =
        options_for(kEagerMode, std::string(GetParam().policy) + ",fresh-age,backoff=none");
    const auto access = [](const Actor &self, bool writes) {
      if (writes) {
        self.set(0, 1);
      } else {
        static_cast<void>(self.get(0));
      }
    };
    const Shared<Turn> turn;
    Children children;
    for (const bool older : {true, false}) {
      children.spawn(older ? "older" : "younger", [&, older] {
        const Actor self(folder.path(), options);
        turn->await(older ? 0 : 1);
        self.domain.begin();
        turn->reach(older ? 1 : 2);
        const bool discovers = older == GetParam().older_discovers;
        turn->await(discovers ? 3 : 2);
        access(self, older == older_writes);
        turn->reach(discovers ? 4 : 3);
        turn->await(4);
        const bool fails = older == GetParam().older_fails;
        EXPECT_EQ(self.domain.validate(), fails ? Status::kFailed : Status::kPending);
        EXPECT_EQ(self.domain.end(), fails ? Status::kAborted : Status::kCommitted);
      });
    }
    children.expect_success();
  }
};

TEST_P(RulingTest, ReaderThenWriterOrWriterThenReader) {
  for (const bool older_writes : {true, false}) {
    SCOPED_TRACE(older_writes ? "the older one writes" : "the younger one writes");
    play(older_writes);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RulingTest, testing::ValuesIn(kRulings),
                         [](const auto &param_info) {
                           std::string name =
                               std::string(param_info.param.policy) +
                               (param_info.param.older_discovers ? "_OlderDiscovers"
                                                                 : "_YoungerDiscovers");
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tmh::test
