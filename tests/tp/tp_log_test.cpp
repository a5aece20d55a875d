// tests/tp/tp_log_test.cpp -- records that are kept, read, rolled through, forgotten; and what lies
// outside of segments.
// Invariants: (1) what is kept are the records of committed transactions, in the order of LSNs.
//             (2) after a crash, what lies elsewhere is done again for those who had committed, in
//                 that order, and undone for the others.
#include <gtest/gtest.h>
#include <tp.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint32_t kNote = 5, kFile = 6;

// Stands for an object outside of segments: what has been done to it, as text.
std::string &elsewhere() {
  static std::string text;
  return text;
}
std::string text_of(const tp_record *record) {
  return {static_cast<const char *>(record->data), record->bytes};
}
int undo_there(tp_step_t *, const tp_record *record, void *) {
  elsewhere() += "-" + text_of(record);
  return 0;
}
int redo_there(const tp_record *record, void *) {
  elsewhere() += "+" + text_of(record);
  return 0;
}

tp_env *open(const std::string &folder, unsigned flags) {
  const tp_type types[] = {{kNote, "note", nullptr, nullptr, TP_FIELDS, nullptr},
                           {kFile, "file", undo_there, nullptr, TP_FIELDS, redo_there}};
  tp_options options{};
  options.durability = 1;
  options.types = types;
  options.type_count = 2;
  options.flags = flags;
  tp_env *env = nullptr;
  EXPECT_EQ(tp_open(folder.c_str(), &options, &env), TP_OK) << tp_last_error();
  return env;
}
void close(tp_env *env) { EXPECT_EQ(tp_close(env), TP_OK) << tp_last_error(); }

struct Note {
  std::uint32_t type;
  std::string text;
  tp_lsn lsn;
};
int write(tp_step_t *step, void *argument) {
  auto &note = *static_cast<Note *>(argument);
  return tp_log(step, note.type, note.text.data(), note.text.size(), &note.lsn);
}
tp_lsn log(tp_txn *txn, const std::string &text, std::uint32_t type = kNote) {
  Note note{type, text, 0};
  EXPECT_EQ(tp_step(txn, TP_FIELDS, write, &note), TP_OK) << tp_last_error();
  return note.lsn;
}
tp_txn *begin(tp_env *env) {
  tp_txn *txn = nullptr;
  EXPECT_EQ(tp_begin(env, &txn), TP_OK) << tp_last_error();
  return txn;
}

int note_down(const tp_record *record, void *to) {
  auto &seen = *static_cast<std::vector<Note> *>(to);
  seen.push_back({record->type, text_of(record), record->lsn});
  return seen.size() == 100 ? 77 : 0;
}
std::string all_of(tp_env *env, tp_lsn from) {
  std::vector<Note> seen;
  EXPECT_EQ(tp_log_roll(env, from, note_down, &seen), TP_OK) << tp_last_error();
  std::string all;
  tp_lsn before = 0;
  for (const Note &note : seen) {
    EXPECT_GT(note.lsn, before);
    before = note.lsn;
    all += note.text;
  }
  return all;
}

TEST(TpLogTest, CommittedRecordsAreKeptInTheirOrder) {
  const MemoryFolder folder;
  tp_env *env = open(folder.path(), TP_LOG_KEEP);
  tp_txn *one = begin(env), *other = begin(env), *aborted = begin(env);
  log(one, "a");
  const tp_lsn second = log(other, "b");
  log(aborted, "x");
  log(one, "c");
  EXPECT_EQ(all_of(env, 0), "");
  EXPECT_EQ(tp_commit(other), TP_OK);
  EXPECT_EQ(all_of(env, 0), "b");
  EXPECT_EQ(tp_commit(one), TP_OK);
  EXPECT_EQ(tp_abort(aborted), TP_OK);
  EXPECT_EQ(all_of(env, 0), "abc");
  EXPECT_EQ(all_of(env, second), "bc");
  close(env);

  env = open(folder.path(), 0);
  EXPECT_EQ(all_of(env, 0), "abc");
  tp_txn *late = begin(env);
  EXPECT_GT(log(late, "not kept"), second);
  EXPECT_EQ(tp_commit(late), TP_OK);
  EXPECT_EQ(all_of(env, 0), "abc");
  EXPECT_EQ(tp_log_forget(env, second + 1), TP_OK);
  EXPECT_EQ(all_of(env, 0), "abc");  // they committed later
  EXPECT_EQ(tp_log_forget(env, ~0ull), TP_OK);
  EXPECT_EQ(all_of(env, 0), "");
  close(env);
}

TEST(TpLogTest, ARecordIsFoundByItsLsn) {
  const MemoryFolder folder;
  tp_env *env = open(folder.path(), TP_LOG_KEEP);
  tp_txn *txn = begin(env);
  const std::string large(10'000, 'z');
  const tp_lsn first = log(txn, "first"), second = log(txn, large);
  std::vector<Note> seen;
  EXPECT_EQ(tp_log_read(env, nullptr, first, note_down, &seen), static_cast<int>(Errc::kNotHeld));
  EXPECT_EQ(tp_log_read(env, txn, second, note_down, &seen), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_commit(txn), TP_OK);
  EXPECT_EQ(tp_log_read(env, nullptr, first, note_down, &seen), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_log_read(env, nullptr, second, note_down, &seen), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_log_read(env, nullptr, 1, note_down, &seen), static_cast<int>(Errc::kNotHeld));
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].text, large);
  EXPECT_EQ(seen[1].text, "first");
  EXPECT_EQ(seen[2].text, large);
  close(env);
}

TEST(TpLogTest, AWalkEndsWhereItsVisitorSays) {
  const MemoryFolder folder;
  tp_env *env = open(folder.path(), TP_LOG_KEEP);
  for (int i = 0; i < 300; ++i) {
    tp_txn *txn = begin(env);
    log(txn, "n");
    EXPECT_EQ(tp_commit(txn), TP_OK);
  }
  std::vector<Note> seen;
  EXPECT_EQ(tp_log_roll(env, 0, note_down, &seen), 77);
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(tp_log_forget(env, ~0ull), TP_OK);
  EXPECT_EQ(tp_log_flush(env), TP_OK);
  close(env);
}

TEST(TpLogTest, WhatLiesElsewhereIsDoneAgainAndThenUndone) {
  const MemoryFolder folder;
  const ChildEnd end = run_in_child("before", [&] {
    tp_env *env = open(folder.path(), 0);
    tp_txn *one = begin(env), *other = begin(env), *lost = begin(env);
    log(one, "a", kFile);
    log(lost, "x", kFile);
    log(other, "b", kFile);
    log(one, "c", kFile);
    log(lost, "y", kFile);
    EXPECT_EQ(tp_commit(one), TP_OK);
    EXPECT_EQ(tp_commit(other), TP_OK);
    EXPECT_EQ(elsewhere(), "");
    die_unless_failed();
  });
  EXPECT_EQ(end.signal, SIGKILL);
  elsewhere().clear();
  tp_env *env = open(folder.path(), 0);
  EXPECT_EQ(elsewhere(), "+a+b+c-y-x");
  elsewhere().clear();
  EXPECT_EQ(tp_log_forget(env, ~0ull), TP_OK);
  close(env);
  env = open(folder.path(), 0);
  EXPECT_EQ(elsewhere(), "");
  close(env);
}

TEST(TpLogTest, WhatWasUnlockedEarlyMayBeTwosAfterACrash) {
  const MemoryFolder folder;
  const ChildEnd end = run_in_child("before", [&] {
    tp_env *env = open(folder.path(), 0);
    tp_txn *one = begin(env), *other = begin(env);
    for (tp_txn *txn : {one, other}) {
      EXPECT_EQ(tp_lock(txn, {1, 1}, TP_EXCLUSIVE, TP_TRY), TP_OK);
      log(txn, txn == one ? "a" : "b", kFile);
      EXPECT_EQ(tp_unlock(txn, {1, 1}, TP_EXCLUSIVE), TP_OK);
    }
    EXPECT_EQ(tp_log_flush(env), TP_OK);
    die_unless_failed();
  });
  EXPECT_EQ(end.signal, SIGKILL);
  elsewhere().clear();
  close(open(folder.path(), 0));
  EXPECT_TRUE(elsewhere() == "-a-b" || elsewhere() == "-b-a") << elsewhere();
}

TEST(TpLogTest, UnrollingLeavesTheTransactionRunning) {
  const MemoryFolder folder;
  tp_env *env = open(folder.path(), 0);
  tp_txn *txn = begin(env);
  log(txn, "a", kFile);
  log(txn, "b", kFile);
  elsewhere().clear();
  EXPECT_EQ(tp_log_unroll(txn), TP_OK);
  EXPECT_EQ(elsewhere(), "-b-a");
  EXPECT_EQ(tp_txn_state(txn), TP_RUNNING);
  EXPECT_EQ(tp_commit(txn), TP_OK);
  close(env);
}

}  // namespace
}  // namespace tmh::test
