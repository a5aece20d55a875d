// tests/death/hybrid_death_test.cpp -- hybrid domains: what the dead leave to processes that see
// only a part of it, what a closing one leaves, and what a thread remembers of a segment that was
// unmapped.
// Source:     hierarchy/exchange/PROTOCOL.md, "Death"; docs/design.md 8.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include <tmh/tmh.hpp>

#include "levels/line/line_memory.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

DomainOptions hybrid(CrossPolicy cross = {}) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
  options.policies.escalation = "never";
  options.policies.cross = cross;
  return options;
}

Segment map(const Domain &domain, const std::string &file, std::uint64_t pages = 4) {
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = pages * kPageBytes;
  raw.max_bytes = 4 * kPageBytes;
  return domain.map(file, raw);
}

// The first one of a page.
field<std::uint64_t> &word(const Segment &segment, std::uint64_t page = 0) {
  return *reinterpret_cast<field<std::uint64_t> *>(segment.data() + page * kPageBytes);
}

std::uint64_t committed(const Domain &domain, const Segment &segment) {
  return query(domain, [&] { return word(segment).load(); });
}

class HybridDeathTest : public testing::Test {
 protected:
  // A process dies at a step of taking a page of words.raw, which is not mapped here, to level 2.
  // Then a page of `other` is moved, and after that a site asks for the dead one's.
  void die_moving_and_ask(const Domain &domain, const Segment &other, observe::Step at) {
    const ChildEnd end = run_in_child("mover", [&] {
      const Domain own = Domain::open(folder_.path(), hybrid());
      const Segment mapped = map(own, "words.raw");
      observe::crash_at(static_cast<std::uint32_t>(at), 1);
      atomically(own, [&] { word(mapped).store(7); });
    });
    ASSERT_EQ(end.signal, SIGKILL);
    atomically(domain, [&] { word(other).store(1); });
    const Segment words = map(domain, "words.raw");
    const Site site(domain, "asks");
    atomically(site, [&](Fields) { ++word(words); });
    EXPECT_EQ(committed(domain, words), 1U);
  }

  MemoryFolder folder_;
};

// Nobody waits under abort-lower, and a site that never goes to level 2 does not look after the
// dead there.
TEST_F(HybridDeathTest, AbortLowerWithoutEscalationOutlivesADeadUserOfThePage) {
  expect_child("survivor", [&] {
    const Domain domain = Domain::open(folder_.path(), hybrid(CrossPolicy::kAbortLower));
    const Segment words = map(domain, "words.raw");
    const ChildEnd end = run_in_child("victim", [&] {
      const Domain own = Domain::open(folder_.path(), hybrid());
      const Segment mapped = map(own, "words.raw");
      own.begin();
      word(mapped).store(7);
      static_cast<void>(kill(getpid(), SIGKILL));
    });
    EXPECT_EQ(end.signal, SIGKILL);
    const Site site(domain, "asks");
    atomically(site, [&](Fields) { ++word(words); });
    EXPECT_EQ(site.report().line_commits, 1U);
    EXPECT_EQ(committed(domain, words), 1U);
  });
}

// A page of a segment that the heir has unmapped: its directory is still open there, its line words
// are not.
TEST_F(HybridDeathTest, MoveOfAPageIsLeftToAProcessThatMapsItsSegment) {
  const Domain domain = Domain::open(folder_.path(), hybrid());
  const Segment other = map(domain, "other.raw");
  domain.unmap(map(domain, "words.raw"));
  die_moving_and_ask(domain, other, observe::Step::kRecallStart);
}

// The same, when all its lines are in U, and the heir moves a page of its own before anybody comes
// who maps the segment.
TEST_F(HybridDeathTest, MoveThatAnHeirCouldNotEndIsEndedByWhoeverAsks) {
  expect_child("asker", [&] {
    const Domain domain = Domain::open(folder_.path(), hybrid());
    const Segment other = map(domain, "other.raw");
    die_moving_and_ask(domain, other, observe::Step::kRecallMark);
  });
}

// A store beyond the segment's end is SIGBUS where it is made, as a plain one: behind the commit
// point it would be the heirs' as well.
TEST_F(HybridDeathTest, StoreBeyondTheEndKillsItsProcessAlone) {
  expect_child("survivor", [&] {
    const Domain domain = Domain::open(folder_.path(), hybrid());
    const Segment words = map(domain, "words.raw", 1);
    const ChildEnd end = run_in_child("victim", [&] {
      const Domain own = Domain::open(folder_.path(), hybrid());
      const Segment mapped = map(own, "words.raw", 1);
      const Site site(own, "goes too far");
      atomically(site, [&](Fields) {
        word(mapped).store(7);
        word(mapped, 1).store(7);
      });
    });
    EXPECT_EQ(end.signal, SIGBUS);
    EXPECT_EQ(committed(domain, words), 0U);
    const Site site(domain, "goes on");
    atomically(site, [&](Fields) { ++word(words); });
    EXPECT_EQ(site.report().line_commits, 1U);
    EXPECT_EQ(committed(domain, words), 1U);
  });
}

// Where loads take blocks (memory_folder()), a thread keeps what it has of a segment from one
// instance to the next. Another segment's words come to where this one's were.
TEST(HybridUnmapTest, SegmentThatIsMappedAgainIsValidatedByItsOwnWords) {
  const MemoryFolder folder;
  expect_child("remapper", [&] {
    const Domain domain = Domain::open(folder.path(), hybrid());
    const Site site(domain, "counts");
    const Segment before = map(domain, "words.raw");
    atomically(site, [&](Fields) { ++word(before); });
    domain.unmap(before);
    const Segment other = map(domain, "other.raw"), words = map(domain, "words.raw");
    int attempts = 0;
    atomically(site, [&](Fields) {
      const std::uint64_t seen = word(words).load();
      if (attempts++ == 0)
        std::thread([&] { atomically(site, [&](Fields) { ++word(words); }); }).join();
      word(words).store(seen + 1);
    });
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(committed(domain, words), 3U);
    EXPECT_EQ(committed(domain, other), 0U);
  });
}

class PartlyKnownCommitTest : public HybridDeathTest,
                              public testing::WithParamInterface<observe::Step> {
 protected:
  // Dies in a commit to both segments.
  void leave_a_corpse() {
    const ChildEnd end = run_in_child("committer", [&] {
      const Domain own = Domain::open(folder_.path(), hybrid());
      const Segment words = map(own, "words.raw"), other = map(own, "other.raw");
      const Site site(own, "commits");
      observe::crash_at(static_cast<std::uint32_t>(GetParam()), 1);
      atomically(site, [&](Fields) {
        word(other).store(7);
        word(words).store(7);
      });
    });
    ASSERT_EQ(end.signal, SIGKILL);
  }
  [[nodiscard]] static std::uint64_t expected() {
    return GetParam() >= observe::Step::kLineCommitPoint ? 7 : 0;
  }
};

// Whoever takes a page waits for its lines with the domain lock held: nobody else can come by who
// knows more.
TEST_P(PartlyKnownCommitTest, KeepsNobodyWaiting) {
  expect_child("survivor", [&] {
    const Domain domain = Domain::open(folder_.path(), hybrid());
    const Segment other = map(domain, "other.raw");
    leave_a_corpse();
    EXPECT_EQ(committed(domain, other), expected());
    EXPECT_EQ(committed(domain, map(domain, "words.raw")), expected());
  });
}

// Two who know one segment each.
TEST_P(PartlyKnownCommitTest, IsSettledByManyAsByOne) {
  const Domain witness = Domain::open(folder_.path(), hybrid());
  leave_a_corpse();
  for (const char *file : {"other.raw", "words.raw"}) {
    expect_child(file, [&] {
      const Domain own = Domain::open(folder_.path(), hybrid());
      const Segment mapped = map(own, file);
      EXPECT_EQ(committed(own, mapped), expected());
      const Site site(own, "goes on");
      atomically(site, [&](Fields) { ++word(mapped); });
      EXPECT_EQ(committed(own, mapped), expected() + 1);
    });
  }
  line::LineMemory lines;
  bool found = false;
  ASSERT_EQ(lines.open(folder_.path(), &found), Errc::kOk);
  ASSERT_TRUE(found);
  for (std::uint32_t i = 0; i < lines.contexts_high(); ++i)
    EXPECT_EQ(lines.context(i).owner.load(), line::Owner{}) << "context " << i;
}

INSTANTIATE_TEST_SUITE_P(Steps, PartlyKnownCommitTest,
                         testing::Values(observe::Step::kLineLock, observe::Step::kLineCommitPoint,
                                         observe::Step::kLineUnlock),
                         [](const testing::TestParamInfo<observe::Step> &step) {
                           std::string name = observe::step_name(step.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The last one to leave cannot bring home what a dead one has committed to a segment that it does
// not map. The next open can.
TEST_F(HybridDeathTest, CommitToASegmentThatNobodyElseMapsOutlivesTheLastClose) {
  Domain domain = Domain::open(folder_.path(), hybrid());
  static_cast<void>(map(domain, "other.raw"));
  const ChildEnd end = run_in_child("committer", [&] {
    const Domain own = Domain::open(folder_.path(), hybrid());
    const Segment mapped = map(own, "words.raw");
    const Site site(own, "commits");
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kLineCommitPoint), 1);
    atomically(site, [&](Fields) { word(mapped).store(7); });
  });
  ASSERT_EQ(end.signal, SIGKILL);
  domain.close();
  domain = Domain::open(folder_.path(), hybrid());
  EXPECT_EQ(committed(domain, map(domain, "words.raw")), 7U);
}

line::LineMemory *lines_seen = nullptr;
std::uint32_t owned_at_detach = 0, detaches = 0;

void look_at_contexts(observe::Step step) {
  if (step != observe::Step::kDetachStart) return;
  ++detaches;
  for (std::uint32_t i = 0; i < lines_seen->contexts_high(); ++i)
    owned_at_detach += lines_seen->context(i).owner.load() != line::Owner{} ? 1U : 0U;
}

// Whoever repairs takes a context whose owner's slot is free for a dead one's. Were it given back
// after that, it would be taken twice.
TEST_F(HybridDeathTest, CloseGivesContextsBackBeforeItsSlot) {
  Domain domain = Domain::open(folder_.path(), hybrid());
  const Segment words = map(domain, "words.raw");
  const Site site(domain, "commits");
  atomically(site, [&](Fields) { ++word(words); });
  line::LineMemory lines;
  bool found = false;
  ASSERT_EQ(lines.open(folder_.path(), &found), Errc::kOk);
  ASSERT_TRUE(found);
  lines_seen = &lines;
  observe::set_step_hook(look_at_contexts);
  domain.close();
  observe::set_step_hook(nullptr);
  EXPECT_GE(detaches, 1U);
  EXPECT_EQ(owned_at_detach, 0U);
}

// Nobody is in, and a process dies between removing line words and removing the directory, which
// gives a page to level 2. Level 1 would use that page as well.
class DeathInRemovalTest : public HybridDeathTest {
 protected:
  // Leaves words.raw's page at level 2.
  ChildEnd take_page(const std::function<void(Domain *)> &end) {
    return run_in_child("user", [&] {
      Domain own = Domain::open(folder_.path(), hybrid());
      const Segment mapped = map(own, "words.raw");
      atomically(own, [&] { word(mapped).store(7); });
      end(&own);
    });
  }

  void expect_no_update_is_lost() {
    expect_child("next", [&] {
      const Domain domain = Domain::open(folder_.path(), hybrid());
      const Segment words = map(domain, "words.raw");
      const Site site(domain, "lines");
      EXPECT_EQ(committed(domain, words), 7U);
      for (std::uint64_t count = 8; count < 40; count += 2) {
        atomically(domain, [&] { ++word(words); });  // written again and again: it stays mapped
        atomically(site, [&](Fields) { ++word(words); });
        ASSERT_EQ(committed(domain, words), count + 1);
      }
      EXPECT_GE(site.report().releases, 1U);
    });
  }
};

TEST_F(DeathInRemovalTest, OfTheLastToLeaveLosesNoUpdate) {
  const ChildEnd end = take_page([](Domain *own) {
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kLinesRemoved), 1);
    own->close();
  });
  ASSERT_EQ(end.signal, SIGKILL);
  expect_no_update_is_lost();
}

TEST_F(DeathInRemovalTest, OfTheFirstToComeLosesNoUpdate) {
  const auto die = [](Domain *) { static_cast<void>(kill(getpid(), SIGKILL)); };
  ASSERT_EQ(take_page(die).signal, SIGKILL);
  const ChildEnd end = run_in_child("first", [&] {
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kLinesRemoved), 1);
    static_cast<void>(Domain::open(folder_.path(), hybrid()));
  });
  ASSERT_EQ(end.signal, SIGKILL);
  expect_no_update_is_lost();
}

}  // namespace
}  // namespace tmh::test
