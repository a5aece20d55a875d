// compat/libtp/transaction.cpp -- steps, and their undo.
#include "compat/libtp/transaction.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include <tmh/transaction.hpp>

#include "compat/libtp/interruption.h"
#include "compat/libtp/words.h"
#include "hierarchy/api/handles.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::tp {

namespace {

thread_local unsigned steps_here = 0;
// A forked child has no step.
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] { steps_here = 0; });

class InStep {
 public:
  explicit InStep(bool *is_in_step) noexcept : is_in_step_(is_in_step) {
    TMH_ASSERT(!*is_in_step_);
    *is_in_step_ = true;
    ++steps_here;
  }
  InStep(const InStep &) = delete;
  InStep &operator=(const InStep &) = delete;
  ~InStep() {
    TMH_ASSERT(*is_in_step_ && steps_here > 0);
    *is_in_step_ = false;
    --steps_here;
  }

 private:
  bool *is_in_step_;
};

}  // namespace

bool is_step_here() noexcept { return steps_here != 0 || detail::is_instance_here(); }

Transaction::Transaction(Managers &managers, const Slot &slot, std::uint64_t id) noexcept
    : managers_(managers), slot_(slot), id_(id), chain_(managers.chains(), slot.head) {
  TMH_ASSERT(slot.head != BlockIndex::kNone);
}

namespace {

[[noreturn]] void throw_not_here(std::uint64_t id, const char *why) {
  throw Error(Errc::kInstanceRunning, "transaction " + std::to_string(id) + why);
}

[[noreturn]] void throw_lost(std::uint64_t id) {
  throw Error(Errc::kNotLocked, "transaction " + std::to_string(id) +
                                    " has stored what another one has stored to, without a lock: "
                                    "it can only abort");
}

void check_between_steps(std::uint64_t id, std::size_t pins, bool is_in_step) {
  if (pins != 0) throw_not_here(id, ": pages are pinned");
  if (is_in_step || is_step_here()) throw_not_here(id, ": in a step, or in another instance");
}

void check_pinned_here(std::uint64_t id, std::size_t pins) {
  if (pins != 0 && steps_here == 0) throw_not_here(id, ": its pages are pinned by another thread");
}

}  // namespace

void Transaction::check_running() const {
  check_between_steps(id_, pinned_.size(), is_in_step_);
  if (has_lost_) throw_lost(id_);
  if (state_ != TP_RUNNING)
    throw Error(Errc::kBadArgument,
                "transaction " + std::to_string(id_) +
                    (state_ == TP_ABORTING     ? " is being rolled back"
                     : state_ == TP_COMMITTING ? " has committed, and is not durable: tp_commit() "
                                                 "waits for that again"
                                               : " has ended"));
}

namespace {

void add_noted(const Record &record, std::vector<NotedLock> *to) {
  TMH_ASSERT(record.type == kLocksTaken);
  for (std::size_t i = 0; (i + 1) * sizeof(NotedLock) <= record.data.size(); ++i)
    std::memcpy(&to->emplace_back(), record.data.data() + i * sizeof(NotedLock), sizeof(NotedLock));
}

// visit(record) of all, last one first, in the running instance.
template <class Visit>
void for_each_record(const Chain &chain, const Visit &visit) {
  for (Place at = chain.last(); at != Place::kNone;) {
    const Record record = chain.read(at);
    visit(record);
    at = record.before;
  }
}

}  // namespace

template <class Attempt>
void Transaction::run_instance(unsigned flags, const Site *site, const Attempt &attempt) {
  for (;;) {
    try {
      if ((flags & TP_FIELDS) != 0) {
        atomically(site != nullptr ? *site : managers_.chains().site(), Durability::kBuffered,
                   [&](Fields) { attempt(); });
      } else {
        // Each step is serializable with all others, whatever its locks are.
        const Domain &domain = managers_.domain();
        for (;;) {
          domain.begin(Isolation::kSerializable);
          try {
            attempt();
          } catch (...) {
            if (domain.depth() != 0) domain.abort();
            throw;
          }
          if (domain.end(Durability::kBuffered) == Status::kCommitted) break;
          domain.backoff();
        }
      }
      return;
    } catch (const NoBlock &) {
      managers_.chains().grow();
    }
  }
}

void Transaction::run(unsigned flags, const Site *site, const Body &body, bool commits) {
  check_running();
  if ((flags & ~static_cast<unsigned>(TP_FIELDS)) != 0)
    throw Error(Errc::kBadArgument, "unknown flags of a step");
  TMH_ASSERT(body.run != nullptr);
  commits_ = commits;
  chain_.begin();
  try {
    const InStep in_step(&is_in_step_);
    run_instance(flags, site, [&] {
      chain_.rewind();
      has_noted_ = false;
      const int why = body.run(this, body.argument);
      if (why != 0) throw Refused{why};
      if (commits && !chain_.is_empty()) end_chain();
    });
  } catch (...) {
    chain_.rewind();
    throw;
  }
  if (has_noted_) unnoted_.clear();
  observe::step(observe::Step::kTpStepped);
}

// --- Pinned pages -----------------------------------------------------------------------------

void Transaction::begin_pinned() {
  // What is read without a lock is the caller's risk; what is stored, lines are compared for. Eager
  // domains have no snapshots.
  const bool is_eager = managers_.domain().detection() == Detection::kEager;
  managers_.domain().begin(is_eager ? Isolation::kSerializable : Isolation::kSnapshot);
  chain_.begin();
  has_noted_ = false;
  commits_ = false;
  is_in_step_ = true;
  ++steps_here;
}

void Transaction::end_pinned() {
  TMH_ASSERT(is_in_step_ && steps_here > 0);
  is_in_step_ = false;
  --steps_here;
  Status status = Status::kAborted;
  try {
    status = managers_.domain().end(Durability::kBuffered);
  } catch (...) {
    chain_.rewind();
    has_lost_ = true;
    pinned_.clear();
    throw;
  }
  if (status == Status::kCommitted) {
    if (has_noted_) unnoted_.clear();
    observe::step(observe::Step::kTpStepped);
    return;
  }
  chain_.rewind();
  has_lost_ = true;
}

void Transaction::pin(const void *page) {
  check_pinned_here(id_, pinned_.size());
  // Nothing fails behind the step's begin.
  if (pinned_.size() == pinned_.capacity()) pinned_.reserve(2 * pinned_.size() + 4);
  if (pinned_.empty()) {
    check_running();
    begin_pinned();
  }
  pinned_.push_back(page);
}

void Transaction::unpin(const void *page) {
  check_pinned_here(id_, pinned_.size());
  if (pinned_.empty() && has_lost_) throw_lost(id_);
  if (pinned_.empty()) throw Error(Errc::kEndWithoutBegin, "no page is pinned");
  const auto found = std::find(pinned_.begin(), pinned_.end(), page);
  if (found == pinned_.end()) throw Error(Errc::kBadArgument, "a page that is not pinned");
  pinned_.erase(found);
  if (!pinned_.empty()) return;
  end_pinned();
  if (has_lost_) throw_lost(id_);
}

template <class Wait>
Errc Transaction::between_steps(const Wait &wait) {
  if (pinned_.empty()) return wait();
  check_pinned_here(id_, pinned_.size());
  end_pinned();
  const Errc error = has_lost_ ? platform::fail(Errc::kNotLocked, "stored without a lock") : wait();
  try {
    begin_pinned();
  } catch (...) {
    pinned_.clear();
    throw;
  }
  return error;
}

// --- Steps ------------------------------------------------------------------------------------

void Transaction::step(unsigned flags, const Site *site, const Body &body, Commits commits) {
  if (commits == Commits::kYes) store_waiting(this);
  run(flags, site, body, commits == Commits::kYes);
  if (commits == Commits::kYes) end(Ending::kCommitted);
}

void Transaction::commit() {
  if (state_ == TP_COMMITTING && !is_step_here()) return end(Ending::kCommittedBefore);
  check_running();
  if (observe::is_planted(observe::Planted::kUnlockedTooSoon))
    (void)managers_.locks().unlock_all(slot_.locker);
  observe::step(observe::Step::kTpCommits);
  if (!waiting_.is_empty()) {
    const Body body{[](tp_step_t *step, void *waiting) {
                      return static_cast<WaitingChanges *>(waiting)->run(step, TP_STORE_LAST);
                    },
                    &waiting_};
    run(TP_FIELDS, nullptr, body, true);
    waiting_.end(TP_STORED);
  } else if (!chain_.is_empty()) {
    state_ = TP_COMMITTING;
    try {
      chain_.begin();
      run_instance(TP_FIELDS, nullptr, [&] {
        chain_.rewind();
        end_chain();
      });
    } catch (...) {
      chain_.rewind();
      state_ = TP_RUNNING;
      throw;
    }
  }
  end(Ending::kCommitted);
}

void store_waiting(Transaction *transaction) {
  TMH_ASSERT(transaction != nullptr);
  if (transaction->waiting().is_empty()) return;
  const Transaction::Body body{[](tp_step_t *step, void *waiting) {
                                 return static_cast<WaitingChanges *>(waiting)->run(step,
                                                                                    TP_STORE_NOW);
                               },
                               &transaction->waiting()};
  transaction->step(TP_FIELDS, nullptr, body, Transaction::Commits::kNo);
  transaction->waiting().end(TP_STORED);
}

void Transaction::end_chain() {
  is_kept_ = is_elsewhere_ || managers_.keeps_log();
  if (!is_kept_) return chain_.clear();
  // Before the LSN is drawn: a transaction that is kept meanwhile makes this attempt fail.
  static_cast<void>(managers_.chains().header().last_kept.load());
  chain_.keep(managers_.draw_lsn());
}

void Transaction::end(Ending how) {
  TMH_ASSERT(!is_in_step_ && state_ != TP_IDLE);
  observe::step(observe::Step::kTpCommitted);
  const bool is_told_too_soon = observe::is_planted(observe::Planted::kToldTooSoon);
  // Also of one that has read only: what it has read.
  const bool waits = how != Ending::kAborted && managers_.is_strict() && !is_told_too_soon;
  state_ = waits ? TP_COMMITTING : TP_IDLE;
  if (how == Ending::kCommitted) lock::note_commit(managers_.locks().file(), slot_.locker);
  (void)managers_.locks().unlock_all(slot_.locker);
  observe::step(observe::Step::kTpUnlocked);
  if (waits) managers_.await_log();
  state_ = TP_IDLE;
}

// One record. Most are undone in the instance that reads them; where plain stores undo one, its
// undo is an instance of its own, at pages.
void Transaction::undo_last() {
  TMH_ASSERT(!chain_.is_empty() && !is_in_step_);
  std::vector<NotedLock> noted;
  bool is_plain = false;
  const auto undo_it = [&](unsigned flags_here) {
    chain_.rewind();
    noted.clear();
    const Record record = chain_.read(Place::kNone);
    const Undo undo = undo_of(record);
    is_plain = (undo.flags & TP_FIELDS) == 0 && undo.function != nullptr;
    if (is_plain && (flags_here & TP_FIELDS) != 0) return;
    run_undo(undo, record);
    // The locks stay until the end.
    if (record.type == kLocksTaken) add_noted(record, &noted);
    chain_.cut(record);
  };
  chain_.begin();
  try {
    const InStep in_step(&is_in_step_);
    run_instance(TP_FIELDS, nullptr, [&] { undo_it(TP_FIELDS); });
    if (is_plain) run_instance(TP_PAGES, nullptr, [&] { undo_it(TP_PAGES); });
  } catch (...) {
    chain_.rewind();
    throw;
  }
  unnoted_.insert(unnoted_.end(), noted.begin(), noted.end());
  observe::step(observe::Step::kTpUndone);
}

Undo Transaction::undo_of(const Record &record) const {
  const std::optional<Undo> undo = managers_.types().find(record.type);
  if (undo.has_value()) return *undo;
  throw Error(Errc::kBadArgument, "transaction " + std::to_string(id_) + ": its record " +
                                      std::to_string(record.lsn) + " is of type " +
                                      std::to_string(record.type) +
                                      ", which nothing in this process undoes");
}

void Transaction::run_undo(const Undo &undo, const Record &record) {
  if (undo.function == nullptr || observe::is_planted(observe::Planted::kUndoLeftOut)) return;
  const tp_record told{record.type, record.lsn, id_, record.data.data(), record.data.size()};
  const int times = observe::is_planted(observe::Planted::kUndoneTwice) ? 2 : 1;
  for (int i = 0; i < times; ++i)
    if (const int why = undo.function(this, &told, undo.context); why != 0) throw Refused{why};
}

void Transaction::abort() {
  lock::note_rollback(managers_.locks().file(), id_, undo_all(), lock::UndoneBy::kOwner);
  end(Ending::kAborted);
}

std::uint64_t Transaction::undo_all() {
  check_pinned_here(id_, pinned_.size());
  if (!pinned_.empty()) {
    // What has been stored since the last lock goes with its records.
    pinned_.clear();
    is_in_step_ = false;
    --steps_here;
    if (managers_.domain().depth() != 0) managers_.domain().abort();
    chain_.rewind();
  }
  has_lost_ = false;
  if (state_ == TP_ABORTING)
    check_between_steps(id_, pinned_.size(), is_in_step_);
  else
    check_running();
  waiting_.end(TP_DROP);
  state_ = TP_ABORTING;
  std::uint64_t records = 0;
  for (; !chain_.is_empty(); ++records) undo_last();
  return records;
}

void Transaction::roll_back(std::uint64_t to_lsn) {
  check_running();
  waiting_.end(TP_DROP);
  // The last record's LSN, which is that of the last one that has been logged only at first.
  for (;;) {
    if (chain_.is_empty()) return;
    Record last;
    run_instance(TP_FIELDS, nullptr, [&] { last = chain_.read(Place::kNone); });
    if (last.lsn <= to_lsn) return;
    undo_last();
  }
}

std::uint64_t Transaction::append(RecordType type, std::span<const std::byte> first,
                                  std::span<const std::byte> second, bool is_elsewhere) {
  TMH_ASSERT(is_in_step_);
  const std::uint64_t lsn = managers_.draw_lsn();
  // What is undone never is not stored; but for readers of the log.
  const bool is_needed = !commits_ || is_elsewhere_ || managers_.keeps_log();
  if (!is_needed || observe::is_planted(observe::Planted::kNoUndoRecord)) return lsn;
  TMH_ASSERT(lsn > chain_.last_lsn());
  if (!has_noted_ && !unnoted_.empty()) {
    has_noted_ = true;
    add(kLocksTaken, lsn, std::as_bytes(std::span(unnoted_)), {});
    return append(type, first, second, is_elsewhere);
  }
  add(is_elsewhere ? type | kElsewhere : type, lsn, first, second);
  return lsn;
}

void Transaction::add(RecordType type, std::uint64_t lsn, std::span<const std::byte> first,
                      std::span<const std::byte> second) {
  if (pinned_.empty()) return chain_.append(id_, type, lsn, first, second);
  // The step cannot begin again: the file grows in the middle of it.
  for (const Chain::Mark mark = chain_.mark();;) {
    try {
      return chain_.append(id_, type, lsn, first, second);
    } catch (const NoBlock &) {
      chain_.back_to(mark);
      managers_.chains().grow();
    }
  }
}

std::uint64_t Transaction::log(RecordType type, std::span<const std::byte> data) {
  if (!is_in_step_) throw Error(Errc::kEndWithoutBegin, "a record is logged in a step");
  const auto known = type == 0 || type > TP_TYPE_MAX ? std::nullopt : managers_.types().find(type);
  if (!known.has_value())
    throw Error(Errc::kBadArgument, "record type " + std::to_string(type) + " is not known");
  const bool is_elsewhere = known->redo != nullptr;
  if (is_elsewhere) is_elsewhere_ = true;
  return append(type, data, {}, is_elsewhere);
}

std::uint64_t Transaction::log_bytes(const void *address, std::size_t bytes) {
  if (!is_in_step_) throw Error(Errc::kEndWithoutBegin, "a record is logged in a step");
  if (!managers_.ranges().lies_within(address, bytes))
    throw Error(Errc::kNotMapped,
                "bytes that lie in no segment of the environment, or in one that "
                "has no fixed address");
  const auto at = reinterpret_cast<std::uint64_t>(address);
  // Most are a word or a record.
  std::array<std::byte, 256> small;
  std::vector<std::byte> large(bytes <= small.size() ? 0 : bytes);
  std::byte *const before = large.empty() ? small.data() : large.data();
  load_bytes(static_cast<const std::byte *>(address), before, bytes);
  return append(kBytesBefore, std::as_bytes(std::span(&at, 1)), {before, bytes}, false);
}

lock::Patience Transaction::patience_here(lock::Patience wanted) const noexcept {
  if (is_step_here()) return lock::Patience::none();
  wanted.is_over = end_of_waits();
  return wanted;
}

Errc Transaction::lock(const lock::ObjectId &object, lock::Mode mode, lock::Patience patience) {
  if (state_ != TP_RUNNING)
    return platform::fail(Errc::kBadArgument,
                          "transaction " + std::to_string(id_) + " does not run");
  lock::LockId taken{};
  const Errc error = between_steps([&] {
    return managers_.locks().lock(slot_.locker, object, mode, patience_here(patience), &taken);
  });
  if (error != Errc::kOk) return error;
  observe::step(observe::Step::kTpLocked);
  // What is only read another one may have after a crash.
  if (managers_.is_durable() && managers_.locks().file().modes().is_write(mode))
    unnoted_.push_back({object.space, object.id, static_cast<std::uint64_t>(mode)});
  return Errc::kOk;
}

Errc Transaction::trade(const lock::ObjectId &object, lock::Mode from, lock::Mode to,
                        lock::Patience patience) {
  lock::LockId held{};
  TMH_TRY(managers_.locks().find(slot_.locker, object, from, &held));
  const Errc error = between_steps([&] {
    return managers_.locks().upgrade(slot_.locker, held, to, patience_here(patience), &held);
  });
  if (error == Errc::kOk && managers_.is_durable() && managers_.locks().file().modes().is_write(to))
    unnoted_.push_back({object.space, object.id, static_cast<std::uint64_t>(to)});
  return error;
}

Errc Transaction::unlock(const lock::ObjectId &object, lock::Mode mode) {
  const auto noted = std::find_if(unnoted_.rbegin(), unnoted_.rend(), [&](const NotedLock &lock) {
    return lock.space == object.space && lock.id == object.id &&
           lock.mode == static_cast<std::uint64_t>(mode);
  });
  const Errc error = managers_.locks().unlock(slot_.locker, object, mode);
  if (error == Errc::kOk && noted != unnoted_.rend()) unnoted_.erase(std::next(noted).base());
  return error;
}

void Transaction::leave() {
  check_between_steps(id_, pinned_.size(), is_in_step_);
  if (state_ == TP_RUNNING && !has_lost_) store_waiting(this);
  if (state_ == TP_COMMITTING || (unnoted_.empty() && state_ != TP_ABORTING && !has_lost_)) return;
  const bool is_aborting = state_ == TP_ABORTING || has_lost_;
  chain_.begin();
  try {
    const InStep in_step(&is_in_step_);
    run_instance(TP_FIELDS, nullptr, [&] {
      chain_.rewind();
      if (is_aborting) managers_.chains().block(slot_.head).is_aborting = 1;
      if (!unnoted_.empty())
        add(kLocksTaken, managers_.draw_lsn(), std::as_bytes(std::span(unnoted_)), {});
    });
  } catch (const Error &error) {
    chain_.rewind();
    // No process goes on with it: recovery undoes it, as far as the log goes.
    if (error.errc() != Errc::kLogFailed) throw;
  }
  unnoted_.clear();
}

void Transaction::inherit() {
  TMH_ASSERT(!is_step_here());
  run_instance(TP_FIELDS, nullptr, [&] {
    chain_.learn();
    for_each_record(chain_, [&](const Record &record) {
      if (record.is_elsewhere) is_elsewhere_ = true;
    });
  });
  unnoted_.clear();
}

std::optional<Record> Transaction::find(std::uint64_t lsn) const {
  return managers_.chains().run([&](Fields) {
    std::optional<Record> found;
    for_each_record(chain_, [&](const Record &record) {
      if (record.lsn == lsn) found = record;
    });
    return found;
  });
}

bool Transaction::is_known() const {
  return managers_.chains().run([&](Fields) {
    bool is_known = true;
    for_each_record(chain_, [&](const Record &record) {
      is_known = is_known && managers_.types().find(record.type).has_value();
    });
    return is_known;
  });
}

std::vector<NotedLock> Transaction::noted_locks() const {
  return managers_.chains().run([&](Fields) {
    std::vector<NotedLock> locks;
    for_each_record(chain_, [&](const Record &record) {
      if (record.type == kLocksTaken) add_noted(record, &locks);
    });
    return locks;
  });
}

}  // namespace tmh::tp
