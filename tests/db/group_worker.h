// tests/db/group_worker.h -- a worker that runs random transactions on groups of records, and notes
// what it intends and what it was told; what an auditor makes of the notes.
// Notes:     kIntent (identifier, Intent) before a commit, kStrictAck and kAborted (identifier)
//            behind it. Of the shared file: kBufferedAck (worker, number) before a call,
//            kDurableUpTo (worker, calls) once they are durable. kRecovered: what was there, worker
//            and calls of the shared file with the highest bit.
#pragma once

#include <functional>

#include "tests/db/groups.h"
#include "tests/power/journal.h"
#include "tests/power/promises.h"

namespace tmh::test::groups {

inline constexpr std::uint64_t kOfShared = std::uint64_t{1} << 63;

// Writes what it has read.
inline void apply(const power::Entry &entry, Ledger *ledger) {
  using power::Note;
  if (!entry.is_note()) return;
  const std::uint64_t id = entry.offset;
  switch (entry.note()) {
    case Note::kIntent:
      return ledger->intend(id, Intent::of(entry.data));
    case Note::kStrictAck:
      return ledger->require(id);
    case Note::kAborted:
      return ledger->note_aborted(id);
    case Note::kBufferedAck:
      return ledger->note_shared_begun(id >> 32, id & 0xffff'ffff);
    case Note::kDurableUpTo:
      return ledger->require_shared(id >> 32, id & 0xffff'ffff);
    case Note::kRecovered: {
      std::set<std::uint64_t> ids;
      std::map<std::uint64_t, std::uint64_t> shared;
      for (const std::uint64_t each : power::ids_of(entry))
        if ((each & kOfShared) != 0)
          shared[(each & ~kOfShared) >> 32] = each & 0xffff'ffff;
        else
          ids.insert(each);
      return ledger->settle(ids, shared);
    }
    default:
      return;
  }
}

// Reads all files and judges them. Empty: all is right. journal: notes what is there, which is
// durable; or null. REQUIRES: no other process has them.
[[nodiscard]] inline std::string examine(Files *files, const Ledger &ledger, State *state,
                                         power::Journal *journal) {
  *state = files->read();
  std::set<std::uint64_t> ids;
  std::map<std::uint64_t, std::uint64_t> shared;
  std::string why = ledger.examine(*state, &ids, &shared);
  if (why.empty()) why = Files::wrong_in(files->folder());
  std::vector<std::uint64_t> all(ids.begin(), ids.end());
  for (const auto &[worker, calls] : shared) all.push_back(kOfShared | worker << 32 | calls);
  if (why.empty() && journal != nullptr)
    journal->note(power::Note::kRecovered, all.size(), all.data(), all.size() * sizeof all[0]);
  return why;
}

class GroupWorker {
 public:
  struct Plan {
    std::uint32_t number = 0;
    std::uint64_t seed = 1;
    // A commit is durable when it returns; so is a call on the shared file, unless the power goes.
    bool commits_are_durable = true, calls_are_durable = false;
    std::uint32_t closes_one_in = 6;  // of each file, behind a transaction
  };

  GroupWorker(Files *files, power::Journal *journal, const Plan &plan)
      : files_(*files), journal_(*journal), plan_(plan), random_(plan.seed) {}

  void transact() {
    const std::uint64_t id = next_id();
    if (tp_paper_begin() == 0) throw std::runtime_error(tp_last_error());
    Work work;
    bool is_victim = false;
    try {
      const std::uint64_t count = random(15) == 0 ? 40 : 1 + random(6);
      for (std::uint64_t i = 0; i < count; ++i) {
        if (random(8) != 0)
          change(id, &work);
        else
          change_and_go_back(id, work);
      }
      if (random(12) == 0) files_.close_in_transaction(static_cast<File>(random(5)));
    } catch (const Deadlock &) {
      is_victim = true;
    }
    if (is_victim || random(6) == 0) return abort(id);
    commit(id, work);
    for (std::uint64_t calls = random(4); calls > 0; --calls) call_shared();
    close_some();
  }
  // Begins one and leaves it.
  void leave_one() {
    if (tp_paper_begin() == 0) throw std::runtime_error(tp_last_error());
    Work work;
    try {
      for (int i = 0; i < 4; ++i) change(next_id(), &work);
    } catch (const Deadlock &) {
    }
  }

 private:
  struct Work {
    std::map<std::uint32_t, Clock> clocks;  // before it
    std::vector<Call> calls;
  };

  std::uint64_t random(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] std::uint64_t next_id() const {
    return std::uint64_t{plan_.number} << 32 | transactions_;
  }

  void change(std::uint64_t id, Work *work) {
    Call call;
    call.seed = random_();
    call.bytes = static_cast<std::uint32_t>(random(10) == 0 ? random(1600) : random(60));
    const std::uint64_t which = random(10);
    call.group = which == 0   ? kTextGroup
                 : which <= 2 ? kNumbersGroup
                              : static_cast<std::uint32_t>(random(kKeyGroups));
    if (!work->clocks.contains(call.group)) {
      const Clock before = files_.clock(call.group);
      files_.set_clock(call.group, behind(before, call.group, id));
      work->clocks[call.group] = before;
    }
    if (call.group >= kKeyGroups)
      choose_number(&call);
    else
      choose_key(&call);
    files_.perform(call);
    work->calls.push_back(call);
  }
  void choose_key(Call *call) {
    constexpr File kByKey[] = {File::kTree, File::kDuplicates, File::kTable};
    call->file = kByKey[random(3)];
    call->key = static_cast<std::uint32_t>(random(kKeys));
    call->act = random(3) == 0 ? Act::kErase : Act::kPut;
    if (call->file != File::kDuplicates) return;
    // Long enough to differ: an undo cannot tell apart what is the same.
    call->bytes = std::max(call->bytes, 24U);
    // Few keys, with many records.
    call->key = call->key / 4 * 4 + 1;
    if (random(3) == 0) call->act = Act::kPut;
    if (random(2) == 0) return;
    const std::uint32_t there = files_.count(call->file, key_of(call->group, call->key));
    if (there == 0) return;
    call->place = static_cast<std::uint32_t>(random(there));
    call->act = random(2) == 0 ? Act::kEraseOne : Act::kReplaceOne;
  }
  void choose_number(Call *call) {
    call->file = call->group == kTextGroup ? File::kText : File::kNumbers;
    const std::uint32_t count = files_.count(call->file);
    const std::uint64_t which = random(count < kRecordsMax ? 6 : 2);
    call->place = static_cast<std::uint32_t>(count == 0 ? 0 : 1 + random(count));
    if (count == 0 || which >= 4) {
      call->act = Act::kInsertBehind;
    } else {
      call->act = which == 0 ? Act::kEraseNumber : which == 1 ? Act::kReplace : Act::kInsertBefore;
    }
  }
  void change_and_go_back(std::uint64_t id, const Work &work) {
    tp_savepoint point{};
    if (tp_save(tp_paper_txn(), &point) != TP_OK) throw std::runtime_error(tp_last_error());
    Work gone = work;
    for (std::uint64_t times = 1 + random(3); times > 0; --times) change(id, &gone);
    if (tp_roll_back(tp_paper_txn(), &point) != TP_OK) throw std::runtime_error(tp_last_error());
  }
  void abort(std::uint64_t id) {
    ++transactions_;
    if (tp_paper_abort() != TP_OK) throw std::runtime_error(tp_last_error());
    journal_.note(power::Note::kAborted, id);
  }
  void commit(std::uint64_t id, const Work &work) {
    ++transactions_;
    Intent intent;
    for (const auto &[group, before] : work.clocks) intent.groups.push_back({group, before});
    intent.calls = work.calls;
    const std::vector<std::byte> bytes = intent.bytes();
    journal_.note(power::Note::kIntent, id, bytes.data(), bytes.size());
    if (tp_paper_commit() != TP_OK) throw std::runtime_error(tp_last_error());
    told_.push_back(id);
    if (!plan_.commits_are_durable && random(4) != 0) return;
    // What is in the log before a commit is durable with it.
    if (!plan_.commits_are_durable && tp_log_flush(tp_paper_env()) != TP_OK)
      throw std::runtime_error(tp_last_error());
    for (const std::uint64_t each : std::exchange(told_, {}))
      journal_.note(power::Note::kStrictAck, each);
    if (!intent.groups.empty()) note_shared_durable();
  }
  void call_shared() {
    journal_.note(power::Note::kBufferedAck, std::uint64_t{plan_.number} << 32 | calls_);
    SharedCalls::perform(&files_, plan_.number, calls_);
    ++calls_;
    if (plan_.calls_are_durable) note_shared_durable();
  }
  void note_shared_durable() {
    journal_.note(power::Note::kDurableUpTo, std::uint64_t{plan_.number} << 32 | calls_);
  }
  void close_some() {
    for (std::size_t i = 0; i < kFiles; ++i) {
      const auto file = static_cast<File>(i);
      if (random(plan_.closes_one_in) == 0) files_.close(file);
      if (random(60) == 0) files_.sync(file);
    }
  }

  Files &files_;
  power::Journal &journal_;
  const Plan plan_;
  std::mt19937_64 random_;
  std::uint64_t transactions_ = 0, calls_ = 0;
  std::vector<std::uint64_t> told_;  // and not durable, as far as it knows
};

}  // namespace tmh::test::groups
