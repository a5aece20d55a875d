// tests/exchange/multi_schedule_test.cpp -- the protocol's faults, by their numbers in
// hierarchy/exchange/PROTOCOL.md, planted in the code: a fixed schedule of its steps leads to what
// the history checker calls wrong, and the same schedule of the right code does not.
// Order:      tests/support/schedule.h; the processes' names are those of the comments. T is at
//             level 1; Q, U, C are at level 2.
// Invariant:  the steps have the names that protocol.pml prints.
// Source:     hierarchy/exchange/PROTOCOL.md, "The model" (the faults) and "Steps".
#include <gtest/gtest.h>
#include <tmh/field.hpp>
#include <tmh/lab.hpp>

#include "levels/line/layout.h"
#include "observe/planted.h"
#include "tests/histories/checker.h"
#include "tests/support/board.h"
#include "tests/support/level_rules.h"
#include "tests/support/schedule.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using observe::Planted;
using observe::Step;

class Scene {
 public:
  explicit Scene(Planted planted, Tracking tracking = Tracking::kAuto, CrossPolicy cross = {})
      : planted_(planted) {
    options_.levels = Levels::kHybrid;
    options_.tracking = tracking;
    options_.policies.cross = cross;
  }
  [[nodiscard]] const std::string &folder() const noexcept { return folder_.path(); }

  using Body = std::function<void(Player &)>;
  std::size_t lines(const std::string &name, const Body &body) {
    return add(name, PlaysAt::kOnlyLines, body);
  }
  std::size_t pages(const std::string &name, const Body &body) {
    return add(name, PlaysAt::kOnlyPages, body);
  }
  Reached run(std::size_t actor, std::uint32_t to) { return schedule_.run(actor, to); }
  Reached run(std::size_t actor, Step to) { return schedule_.run(actor, to_step(to)); }
  void kill(std::size_t actor) { schedule_.kill(actor); }

  // Everybody ends; then a query reads every cell.
  history::Verdict end() {
    schedule_.finish();
    expect_child("auditor", [this] {
      Board board(folder_.path(), options_);
      Player player(board, recorder_.open_lane());
      player.query([&] {
        for (history::Cell cell = 0; cell < Board::kCells; ++cell) (void)player.read(cell);
      });
      board.close();
    });
    return history::check(recorder_.read());
  }

 private:
  static constexpr std::uint32_t kOpened = 100;
  std::size_t add(const std::string &name, PlaysAt where, const Body &body) {
    const std::size_t actor = schedule_.add(name, [this, where, &body] {
      Board board(folder_.path(), options_);
      Player player(board, recorder_.open_lane());
      player.play_at(where);
      observe::plant(planted_);
      Schedule::mark(kOpened);
      body(player);
    });
    EXPECT_EQ(schedule_.run(actor, to_mark(kOpened)), Reached::kThere);
    return actor;
  }

  const Planted planted_;
  MemoryFolder folder_;
  DomainOptions options_;
  Recorder recorder_{8, 100'000};
  Schedule schedule_;
};

// Cells 0 to 5 lie on pages of their own.
Scene::Body writes(std::initializer_list<history::Cell> cells) {
  return [all = std::vector<history::Cell>(cells)](Player &player) {
    player.update([&] {
      for (const history::Cell cell : all) player.write(cell, 1);
    });
  };
}
// Reads `first`, is held at mark 1, reads `second`.
Scene::Body reads(history::Cell first, history::Cell second) {
  return [=](Player &player) {
    player.query([&] {
      (void)player.read(first);
      Schedule::mark(1);
      (void)player.read(second);
    });
  };
}

// T changes page 0, which Q has read, before Q reads page 1.
void release_does_not_look_at_pins(Scene &scene) {
  const auto q = scene.pages("Q", reads(0, 1)), t = scene.lines("T", writes({0, 1}));
  scene.run(q, to_mark(1));
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// T has committed and not written back: Q reads the old page 0, then the new page 1.
void recall_does_not_wait(Scene &scene) {
  const auto q = scene.pages("Q", reads(0, 1)), t = scene.lines("T", writes({0, 1}));
  scene.run(t, Step::kLineCommitPoint);
  scene.run(q, to_mark(1));
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// Each of T and S reads what the other writes; neither has stamped when the other validates.
void stamp_after_validation(Scene &scene) {
  const auto t = scene.lines("T", [](Player &player) {
    player.update([&] {
      (void)player.read(0);
      player.write(1, 1);
    });
  });
  const auto s = scene.lines("S", [](Player &player) {
    player.update([&] {
      (void)player.read(1);
      Schedule::mark(1);
      player.write(0, 1);
    });
  });
  scene.run(s, to_mark(1));
  scene.run(t, Step::kLineValidate);
  scene.run(s, kToEnd);
  scene.run(t, kToEnd);
}

// Q has read page 0 before U changed it, so its snapshot stays; T, which begins after U, changes
// page 1.
void no_undo_words(Scene &scene) {
  const auto q = scene.pages("Q", reads(0, 1)), u = scene.pages("U", writes({0})),
             t = scene.lines("T", writes({1}));
  scene.run(q, to_mark(1));
  scene.run(u, kToEnd);
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// R takes the old content of cell 0 for that of T's version.
void unlock_before_write_back(Scene &scene) {
  const auto r = scene.lines("R", reads(0, 1)), t = scene.lines("T", writes({0, 1}));
  scene.run(t, Step::kLineUnlock);
  scene.run(r, to_mark(1));
  scene.run(t, kToEnd);
  scene.run(r, kToEnd);
}

// Q is a resident of page 0 and begins between T's look and what would have told it.
void release_looks_before_it_tells(Scene &scene) {
  const auto q = scene.pages("Q", [](Player &player) {
    player.query([&] { (void)player.read(0); });
    Schedule::mark(1);
    player.query([&] {
      (void)player.read(0);
      Schedule::mark(2);
      (void)player.read(1);
    });
  });
  const auto t = scene.lines("T", writes({0, 1}));
  scene.run(q, to_mark(1));
  scene.run(t, Step::kReleaseLook);
  scene.run(q, to_mark(2));
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// T has read page 0 before C changed it, stamps next after its snapshot, and so does not validate.
// Q has seen C and not T; U keeps its snapshot where it is.
void recall_leaves_the_clock(Scene &scene) {
  const auto t = scene.lines("T", [](Player &player) {
    player.update([&] {
      (void)player.read(0);
      Schedule::mark(1);
      player.write(1, 1);
    });
  });
  const auto c = scene.pages("C", writes({0})), q = scene.pages("Q", reads(0, 1)),
             u = scene.pages("U", writes({0}));
  scene.run(t, to_mark(1));
  scene.run(c, kToEnd);
  scene.run(q, to_mark(1));
  scene.run(u, kToEnd);
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// T commits to page 0 between Q's look at its versions and its marks. Q cannot be after T: U,
// before T, has changed what Q has read.
void recall_reads_before_it_marks(Scene &scene) {
  const auto q = scene.pages("Q", reads(2, 0)), u = scene.pages("U", writes({2})),
             t = scene.lines("T", writes({0}));
  scene.run(q, to_mark(1));
  scene.run(u, kToEnd);
  scene.run(q, Step::kRecallStart);
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// Q, a resident of page 2, moves its snapshot on past U and T, and then maps page 2 as it was
// before U.
void extending_does_not_follow(Scene &scene) {
  const auto q = scene.pages("Q", [](Player &player) {
    player.query([&] { (void)player.read(2); });
    player.query([&] {
      Schedule::mark(1);
      (void)player.read(0);
      (void)player.read(2);
    });
  });
  const auto u = scene.pages("U", writes({2})), t = scene.lines("T", writes({0}));
  scene.run(q, to_mark(1));
  scene.run(u, kToEnd);
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// T dies when home is new: R has read the old cell 0 and takes the new cell 1 for old.
void recovery_undoes_a_commit(Scene &scene) {
  const auto r = scene.lines("R", reads(0, 1)), t = scene.lines("T", writes({0, 1}));
  scene.run(r, to_mark(1));
  scene.run(t, Step::kLineWriteBack);
  scene.kill(t);
  scene.run(r, kToEnd);
}

// The undo ring of the thread's context comes round: nothing of earlier commits is left in it.
void turn_undo_ring(const Board &board) {
  // Behind the slots of cell 5's page that lie at 0 and 64.
  auto *words = reinterpret_cast<field<std::uint64_t> *>(board.slot(5)) + 16;
  constexpr std::uint32_t kWords = 240;
  for (std::uint32_t undone = 0; undone < line::kUndoWords; undone += kWords) {
    atomically(board.only_lines_site(), [&](Fields) {
      for (std::uint32_t i = 0; i < kWords; ++i) words[i].store(undone + i + 1);
    });
  }
}

// Q, whose line pin counts for nothing, needs the undo words of T, and of S before T; U keeps Q's
// snapshot where it is. S stays, so that T has another context.
void no_line_pin_needs_no_undo_words(Scene &scene) {
  const auto q = scene.pages("Q", [](Player &player) {
    player.query([&] {
      Schedule::mark(1);
      (void)player.read(2);
      Schedule::mark(2);
      (void)player.read(1);
      (void)player.read(0);
    });
  });
  const auto s = scene.lines("S", [](Player &player) {
    player.update([&] { player.write(1, 1); });
    Schedule::mark(1);
  });
  const auto u = scene.pages("U", writes({2}));
  const auto t = scene.lines("T", [](Player &player) {
    player.update([&] { player.write(0, 1); });
    turn_undo_ring(player.board());
  });
  scene.run(q, to_mark(1));
  scene.run(s, to_mark(1));
  scene.run(t, kToEnd);
  scene.run(q, to_mark(2));
  scene.run(u, kToEnd);
  scene.run(q, kToEnd);
}

// R has read cell 0 before T, takes its new stamp for one that its new snapshot covers, and reads
// cell 1 after T.
void extending_compares_with_the_new(Scene &scene) {
  const auto r = scene.lines("R", reads(0, 1)), t = scene.lines("T", writes({0, 1}));
  scene.run(r, to_mark(1));
  scene.run(t, kToEnd);
  scene.run(r, kToEnd);
}

// Q gives way at page 0, which S has used. It knows the line's word before T, and copies the line
// after T.
void giving_way_trusts_its_copy(Scene &scene) {
  const auto s = scene.lines("S", writes({0, 1})), t = scene.lines("T", writes({0, 1}));
  const auto q = scene.pages("Q", [](Player &player) {
    player.update([&] {
      (void)player.read(0);
      (void)player.read(1);
      player.write(2, 1);
    });
  });
  scene.run(s, kToEnd);
  scene.run(q, Step::kGapBesideLooked);
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// Q copies page 0, which T then changes, with page 1, before Q takes page 1.
void copying_moves_on(Scene &scene) {
  const auto s = scene.lines("S", writes({0, 1})), t = scene.lines("T", writes({0, 1}));
  const auto q = scene.pages("Q", [](Player &player) {
    player.query([&] {
      player.copy_reads(100);
      (void)player.read(0);
      Schedule::mark(1);
      player.copy_reads(0);
      (void)player.read(1);
    });
  });
  scene.run(s, kToEnd);
  scene.run(q, to_mark(1));
  scene.run(t, kToEnd);
  scene.run(q, kToEnd);
}

// V changes cell 0 of page 0, so that Q's copy of the page has something to undo. Behind Q's look
// at V's undo words V changes cell 6 there, and then W: W's undo word has V's value.
void undoing_more_than_copied(Scene &scene) {
  const auto write = [](Player &player, history::Cell cell) {
    player.update([&] { player.write(cell, 1); });
  };
  const auto v = scene.lines("V", [&](Player &player) {
    write(player, 2);
    Schedule::mark(1);
    write(player, 0);
    Schedule::mark(2);
    write(player, 6);
  });
  const auto w = scene.lines("W", [&](Player &player) {
    write(player, 3);
    Schedule::mark(1);
    write(player, 6);
  });
  const auto q = scene.pages("Q", [](Player &player) {
    player.query([&] {
      player.copy_reads(100);
      Schedule::mark(1);
      (void)player.read(6);
      (void)player.read(0);
    });
  });
  scene.run(v, to_mark(1));
  scene.run(w, to_mark(1));
  scene.run(q, to_mark(1));
  scene.run(v, to_mark(2));
  scene.run(q, Step::kGapBesideRing);
  scene.run(v, kToEnd);
  scene.run(w, kToEnd);
  scene.run(q, kToEnd);
}

struct Fault {
  int number;
  const char *name;
  Planted planted;
  void (*play)(Scene &);
  Tracking tracking = Tracking::kAuto;
  CrossPolicy cross = CrossPolicy{};
};
constexpr Fault kFaults[] = {
    {1, "ReleaseDoesNotLookAtPins", Planted::kReleaseBlind, release_does_not_look_at_pins},
    {2, "RecallDoesNotWaitForLockedLines", Planted::kRecallNoWait, recall_does_not_wait},
    {3, "StampAfterValidation", Planted::kStampLate, stamp_after_validation},
    {4, "NoUndoWords", Planted::kNoUndoWords, no_undo_words},
    {5, "UnlockBeforeWriteBack", Planted::kLineUnlockFirst, unlock_before_write_back},
    {6, "ReleaseLooksBeforeItTells", Planted::kReleaseLooksFirst, release_looks_before_it_tells},
    {7, "RecallLeavesTheLineClockAlone", Planted::kRecallClockStands, recall_leaves_the_clock},
    {9, "RecallReadsVersionsBeforeItMarks", Planted::kRecallReadsFirst,
     recall_reads_before_it_marks},
    // Exact tracking: a page that stayed mapped would count as read.
    {10, "ExtendingDoesNotFollowTheLog", Planted::kExtendNoFollow, extending_does_not_follow,
     Tracking::kKernel},
    {11, "RecoveryUndoesACommittedContext", Planted::kRecoveryUndoes, recovery_undoes_a_commit},
    {13, "NoLinePinNeedsNoUndoWords", Planted::kLinePinLate, no_line_pin_needs_no_undo_words},
    {19, "ExtendingComparesWithTheNew", Planted::kExtendComparesNew,
     extending_compares_with_the_new},
    {20, "GivingWayTrustsItsCopy", Planted::kBesideTrusts, giving_way_trusts_its_copy,
     Tracking::kAuto, lab::kUpperYields},
    {21, "CopyingMovesTheSnapshotOn", Planted::kCopyMovesOn, copying_moves_on},
    {22, "UndoingMoreThanWasCopied", Planted::kBesideUndoesMore, undoing_more_than_copied},
};

class MultiScheduleTest : public testing::TestWithParam<Fault> {
 protected:
  void SetUp() override {
    constexpr Mode kExact = {"HybridKernel", Detection::kLazy, Tracking::kKernel, Levels::kHybrid};
    if (GetParam().tracking != Tracking::kKernel) return;
    if (const std::string why = why_unavailable(kExact); !why.empty()) GTEST_SKIP() << why;
  }
  static history::Verdict play(Planted planted) {
    Scene scene(planted, GetParam().tracking, GetParam().cross);
    GetParam().play(scene);
    return scene.end();
  }
};

TEST_P(MultiScheduleTest, IsFoundWhenPlantedAndOnlyThen) {
  const history::Verdict wrong = play(GetParam().planted);
  EXPECT_FALSE(wrong.ok()) << "the schedule does not lead to it";
  if (!wrong.ok())
    std::printf("fault %d: %s: %s\n", GetParam().number,
                history::to_string(wrong.violations.front().fault),
                wrong.violations.front().text.c_str());
  const history::Verdict right = play(Planted::kNone);
  EXPECT_TRUE(right.ok()) << right.report();
  EXPECT_GT(right.committed + right.unknown, 0U);
}

INSTANTIATE_TEST_SUITE_P(Fault, MultiScheduleTest, testing::ValuesIn(kFaults),
                         [](const testing::TestParamInfo<Fault> &fault) {
                           return std::to_string(fault.param.number) + "_" + fault.param.name;
                         });

// Fault 12 is one of progress: T asks for the page that Q, dead, was moving.
TEST(MultiSchedule, DeadMoversMoveIsEnded) {
  for (const Planted planted : {Planted::kMoveLeft, Planted::kNone}) {
    Scene scene(planted);
    const auto q = scene.pages("Q", reads(0, 1)), t = scene.lines("T", writes({0}));
    scene.run(q, Step::kRecallMark);
    scene.kill(q);
    Reached reached = scene.run(t, kToEnd);  // for kWaitsAfter of T's own time
    for (auto waited = kWaitsAfter; reached == Reached::kWaits && waited < go_on_limit();
         waited += kWaitsAfter)
      reached = scene.run(t, kToEnd);
    EXPECT_EQ(reached, planted == Planted::kNone ? Reached::kEnded : Reached::kWaits);
    if (reached == Reached::kWaits) scene.kill(t);
    EXPECT_TRUE(scene.end().ok());
  }
}

// Fault 8 is one of rule S1: whoever inherits the lock undoes it before anybody can act on it. So
// the words are looked at while T is held.
TEST(MultiSchedule, LinesOpenBehindTheirPageWord) {
  for (const Planted planted : {Planted::kReleaseOpensFirst, Planted::kNone}) {
    Scene scene(planted);
    const auto q = scene.pages("Q", reads(0, 2)), t = scene.lines("T", writes({0}));
    scene.run(q, kToEnd);
    EXPECT_EQ(open_line_above(scene.folder(), 0), "") << "page 0 is Q's";
    EXPECT_EQ(scene.run(t, Step::kGapReleaseLevel), Reached::kThere);
    EXPECT_EQ(open_line_above(scene.folder(), 0).empty(), planted == Planted::kNone);
    EXPECT_TRUE(scene.end().ok());
  }
}

}  // namespace
}  // namespace tmh::test
