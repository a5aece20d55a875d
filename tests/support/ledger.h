// tests/support/ledger.h -- double entry for a domain's counters: what each process says that it
// did, beside what was counted for it.
// Shape:     anonymous shared memory, one account per process. A process says what it is about to
//            do before each call of the library, and what the call did when it has returned; what
//            happened inside it hears from the engine's events (observe/trace.h), which go to a
//            ring in its account. With each statement it compares the totals of its own slot and
//            context with what they were when it came.
// Invariant: every unit of every ruled total belongs to one process. Of a process that was killed,
//            its last statement, the events after it and the values that others read leave few ways
//            how the one call under way may have been counted: its totals, as the next owner of its
//            slot and context found them, must be one of these, exactly.
// Ruled:     begins, commits, queries, ends of queries and aborts by cause of level 2; begins,
//            commits, aborts by cause, commits in RTM and escalations by reason of level 1; thread
//            views and irrevocables, which are 0 here. Not: sizes of sets, aborts in RTM,
//            de-escalations. Accounts are in the order in which their processes had slot and
//            context: whoever opens one holds both.
// Sharing:   an account is its process's; a statement is published by one store, so a killed
//            process has said it or not.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <tmh/domain.hpp>

#include "levels/line/layout.h"
#include "levels/line/software.h"
#include "observe/trace.h"
#include "storage/participants.h"
#include "tests/histories/history.h"
#include "tests/support/recorder.h"
#include "tests/support/shared.h"

namespace tmh::test {

struct Tally {
  std::array<std::uint64_t, static_cast<std::size_t>(storage::Count::kEnd)> pages{};
  std::array<std::uint64_t, static_cast<std::size_t>(line::LineCount::kEnd)> lines{};

  [[nodiscard]] Tally with(storage::Count count, std::uint64_t amount = 1) const;
  [[nodiscard]] Tally with(line::LineCount count, std::uint64_t amount = 1) const;
  friend bool operator==(const Tally &, const Tally &) = default;
};
[[nodiscard]] Tally operator-(const Tally &left, const Tally &right);
[[nodiscard]] Tally operator+(const Tally &left, const Tally &right);
// "died 3 instead of 2, ...": what is not the same.
[[nodiscard]] std::string difference(const Tally &counted, const Tally &expected);

// What a process says. Everything but `said` and `events_heard` is about its present, or last,
// instance.
struct Statement {
  enum class Phase : std::uint8_t { kOutside, kBeginning, kRunning, kEnding, kGivingUp };
  Phase phase = Phase::kOutside;
  bool is_query = false;
  // By its last event; in RTM an attempt, which may have left no other trace.
  history::RanAt begun = history::RanAt::kUnknown;
  bool is_committed = false, is_aborted = false, is_escalated = false;  // by its events
  std::uint32_t cause = 0;                                              // AbortCause
  // Of an escalation, as the probe has them.
  std::uint32_t reason = 0, need = 0;
  std::uint64_t events_heard = 0;
  Tally said;  // since it came
};

struct Account {
  static constexpr std::uint32_t kNoContext = ~0u;
  std::uint32_t slot, context;
  std::uint32_t process;  // in the history
  Tally opened;           // its slot's and its context's totals when it came
  Statement statements[2];
  std::atomic<std::uint64_t> stated;  // the last one is statements[stated % 2]; 0: it never came
  char finding[512];                  // the first one; empty: none
  observe::TraceHeaderV1 events_head;
  observe::TraceEventV1 events[observe::kTraceEvents];
};

class Ledger {
 public:
  explicit Ledger(std::uint32_t processes);

  // An unused one; also from children. Throws when there is none left. REQUIRES: the caller has its
  // slot and its context.
  [[nodiscard]] Account &open();
  // When nobody else is there any more, and the dead have been cleaned up after: the totals as they
  // are left.
  void close(const Domain &domain);

  struct Result {
    std::vector<std::string> findings;
    Tally total;             // of all processes
    std::uint64_t cut = 0;   // processes that were killed within a call or a body
    std::uint64_t ways = 0;  // ... in how many ways these may have been counted, in all
  };
  // committed(p): do the values that others read say that the last instance of the history's
  // process p committed? REQUIRES: closed.
  template <class Committed>
  [[nodiscard]] Result audit(const Committed &committed) const {
    Result result;
    for (std::uint32_t i = 0; i < *used_; ++i)
      if (accounts_[i].stated != 0) audit(accounts_[i], committed(accounts_[i].process), &result);
    return result;
  }

 private:
  static constexpr std::uint32_t kPlaces = 64;  // slots, and contexts
  struct Closing {
    Tally places[kPlaces];
  };
  void audit(const Account &account, bool is_committed, Result *result) const;
  [[nodiscard]] Tally left_behind(const Account &account) const;

  std::uint32_t processes_;
  SharedBytes accounts_bytes_;
  Account *accounts_;
  Shared<std::atomic<std::uint32_t>> used_;
  Shared<Closing> closing_;
};

// Keeps the account of the calling process; a lane tells it what is recorded.
class Bookkeeper : public Witness {
 public:
  // The domain's events go to an account of the ledger from here on.
  Bookkeeper(Ledger &ledger, const Domain &domain, std::uint32_t process);
  void saw(Moment moment, std::uint64_t what) override;

 private:
  [[nodiscard]] Tally counted() const;
  void hear_events(Statement *statement);
  void find(const std::string &what);

  const storage::Participant &participant_;
  line::SoftwareThread *const thread_;  // null: a domain without level 1
  Account &account_;                    // opened last
};

}  // namespace tmh::test
