// tests/support/ledger.cpp -- statements, and what becomes of the last one of a killed process.
#include "tests/support/ledger.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <tmh/site.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/domain/line_domain.h"
#include "observe/probes.h"

namespace tmh::test {

using history::RanAt;
using line::line_abort_count;
using line::LineCount;
using observe::TraceKind;
using storage::abort_count;
using storage::Count;
using Phase = Statement::Phase;

namespace {

constexpr std::size_t index(Count count) { return static_cast<std::size_t>(count); }
constexpr std::size_t index(LineCount count) { return static_cast<std::size_t>(count); }

constexpr const char *kCauses[kAbortCauseCount] = {
    "none", "validation", "conflict-self", "conflict-other", "user",     "query-wrote",
    "died", "no-space",   "capacity",      "cross-level",    "spurious", "needs-pages"};

constexpr bool is_ruled(Count count) {
  switch (count) {
    case Count::kPagesRead:
    case Count::kPagesWritten:
    case Count::kLinesWritten:
    case Count::kFaultsSignal:
    case Count::kFaultsKernel:
    case Count::kLockRecoveries:
    case Count::kTurns:
      return false;
    default:
      return true;
  }
}
constexpr bool is_ruled(LineCount count) { return count != LineCount::kDeEscalations; }

// REQUIRES: it is ruled.
std::string name_of(Count count) {
  if (count >= Count::kAborts0 && count <= Count::kAbortsLast)
    return std::string("page aborts: ") + kCauses[index(count) - index(Count::kAborts0)];
  switch (count) {
    case Count::kBegins:
      return "page begins";
    case Count::kCommits:
      return "page commits";
    case Count::kQueries:
      return "queries";
    case Count::kQueryEnds:
      return "ends of queries";
    case Count::kThreadViewInstances:
      return "instances in a thread's view";
    case Count::kThreadViewFallbacks:
      return "fallbacks from a thread's view";
    case Count::kIrrevocables:
      return "irrevocables";
    case Count::kRetrySleeps:
      return "sleeps in retry()";
    case Count::kRetryWakes:
      return "wakes from these";
    default:
      return {};
  }
}
std::string name_of(LineCount count) {
  if (count >= LineCount::kAborts0 && count <= LineCount::kAbortsLast)
    return std::string("line aborts: ") + kCauses[index(count) - index(LineCount::kAborts0)];
  if (count >= LineCount::kForNeed0 && count <= LineCount::kForNeedLast)
    return std::string("escalations: needs pages, ") +
           to_string(static_cast<Need>(index(count) - index(LineCount::kForNeed0)));
  switch (count) {
    case LineCount::kBegins:
      return "line begins";
    case LineCount::kCommits:
      return "line commits";
    case LineCount::kHardwareCommits:
      return "RTM commits";
    case LineCount::kForCapacity:
      return "escalations: capacity";
    case LineCount::kForAttempts:
      return "escalations: attempts";
    default:
      return {};
  }
}

template <class CountType, std::size_t kSize>
void compare(const std::array<std::uint64_t, kSize> &counted,
             const std::array<std::uint64_t, kSize> &expected, std::string *text) {
  for (std::size_t i = 0; i < kSize; ++i) {
    if (counted[i] == expected[i]) continue;
    const std::string name = name_of(static_cast<CountType>(i));
    text->append(text->empty() ? "" : "; ")
        .append(name)
        .append(" ")
        .append(std::to_string(counted[i]));
    text->append(", not ").append(std::to_string(expected[i]));
  }
}

// Only what is ruled.
Tally pages_of(const storage::Participant &participant) {
  Tally tally;
  for (std::size_t i = 0; i < tally.pages.size(); ++i)
    if (is_ruled(static_cast<Count>(i))) tally.pages[i] = participant.count(static_cast<Count>(i));
  return tally;
}
Tally lines_of(const line::LineContextV1 &context) {
  Tally tally;
  for (std::size_t i = 0; i < tally.lines.size(); ++i)
    if (is_ruled(static_cast<LineCount>(i)))
      tally.lines[i] = context.count(static_cast<LineCount>(i));
  return tally;
}

Count begin_count(const Statement &statement) {
  return statement.is_query ? Count::kQueries : Count::kBegins;
}
Count commit_count(const Statement &statement) {
  return statement.is_query ? Count::kQueryEnds : Count::kCommits;
}
AbortCause cause_of(const Statement &statement) { return static_cast<AbortCause>(statement.cause); }
LineCount escalation_count(const Statement &escalated) {
  constexpr std::uint32_t kNeedLast = kNeedCount - 1;
  const auto need = static_cast<Need>(std::min(escalated.need, kNeedLast));
  return escalated.reason == 1   ? LineCount::kForCapacity
         : escalated.reason == 2 ? line::line_need_count(need)
                                 : LineCount::kForAttempts;
}

// One event: what it says of the counters, and of the instance.
void hear(const observe::TraceEventV1 &event, Statement *statement) {
  const std::uint64_t who = event.who.load(std::memory_order_relaxed);
  const std::uint64_t word = event.first.load(std::memory_order_relaxed);
  const auto first = static_cast<std::uint32_t>(word);
  const bool at_pages = (who >> 16 & 0xffff) == observe::probe::kPages;
  Tally &said = statement->said;
  switch (static_cast<TraceKind>(who & 0xffff)) {
    case TraceKind::kBegin:
      statement->begun =
          at_pages ? RanAt::kPages
          : event.second.load(std::memory_order_relaxed) == observe::probe::kUpdateInRtm
              ? RanAt::kHardware
              : RanAt::kLines;
      statement->is_escalated = false;  // it has gone on since: that was counted
      if (at_pages)
        said = said.with(begin_count(*statement));
      else if (statement->begun == RanAt::kLines)
        said = said.with(LineCount::kBegins);
      break;
    case TraceKind::kCommit:
      statement->is_committed = true;
      if (at_pages)
        said = said.with(commit_count(*statement));
      else
        said = said.with(statement->begun == RanAt::kHardware ? LineCount::kHardwareCommits
                                                              : LineCount::kCommits);
      break;
    case TraceKind::kAbort:
      statement->is_aborted = true;
      statement->cause = std::min<std::uint32_t>(first, kAbortCauseCount - 1);
      if (at_pages)
        said = said.with(abort_count(cause_of(*statement)));
      else
        said = said.with(line_abort_count(cause_of(*statement)));
      break;
    case TraceKind::kEscalate:
      statement->is_escalated = true;
      statement->reason = first;
      statement->need = static_cast<std::uint32_t>(word >> 32);
      said = said.with(escalation_count(*statement));
      break;
    default:
      break;
  }
}

// How may the process's totals have come out, when it was killed after this statement and these
// events? Of a commit the values tell.
std::vector<Tally> ways(const Account &account, const Statement &last, bool is_committed) {
  const Tally &said = last.said;
  constexpr std::uint64_t kMinusOne = ~0ull;
  const auto died_at = [](const Tally &tally, bool at_pages) {
    return at_pages ? tally.with(abort_count(AbortCause::kDied))
                    : tally.with(line_abort_count(AbortCause::kDied));
  };
  const auto began_and_died = [&](const Tally &tally, bool at_pages) {
    return died_at(at_pages ? tally.with(begin_count(last)) : tally.with(LineCount::kBegins),
                   at_pages);
  };
  if (last.phase == Phase::kOutside) return {said};
  // The statement came with the commit.
  if (last.begun == RanAt::kHardware && last.phase != Phase::kBeginning)
    return {last.is_committed ? said : said.with(LineCount::kHardwareCommits)};
  if (last.is_committed || (last.is_aborted && last.begun == RanAt::kPages)) return {said};
  std::vector<Tally> all = {said};
  // In RTM everything is undone.
  if (last.begun == RanAt::kUnknown || last.begun == RanAt::kHardware) {
    const bool may_run_at_lines = account.context != Account::kNoContext;
    all.push_back(began_and_died(said, true));
    if (may_run_at_lines) all.push_back(began_and_died(said, false));
    if (last.is_escalated) all.push_back(said.with(escalation_count(last), kMinusOne));
    return all;
  }
  const bool at_pages = last.begun == RanAt::kPages;
  if (last.is_aborted) {  // level 1 says so before it counts
    all.push_back(last.is_escalated
                      ? said.with(escalation_count(last), kMinusOne)
                      : died_at(said.with(line_abort_count(cause_of(last)), kMinusOne), false));
    return all;
  }
  if (last.phase == Phase::kEnding && is_committed)
    return {at_pages ? said.with(Count::kCommits) : said.with(LineCount::kCommits)};
  all = {died_at(said, at_pages)};
  if (!at_pages) {
    // Values do not tell of a query.
    if (last.is_query && last.phase == Phase::kEnding)
      all.push_back(said.with(LineCount::kCommits));
    return all;
  }
  // Level 2 counts before it says so.
  if (last.phase == Phase::kGivingUp) all.push_back(said.with(abort_count(AbortCause::kUser)));
  if (last.phase != Phase::kEnding) return all;
  if (last.is_query) {
    all.push_back(said.with(Count::kQueryEnds));
    return all;
  }
  for (const AbortCause cause :
       {AbortCause::kValidation, AbortCause::kConflictSelf, AbortCause::kConflictOther})
    all.push_back(said.with(abort_count(cause)));
  return all;
}

const char *name_of(Phase phase) {
  constexpr const char *kNames[] = {"outside", "beginning", "running", "ending", "giving up"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace

Tally Tally::with(Count count, std::uint64_t amount) const {
  Tally changed = *this;
  changed.pages[index(count)] += amount;
  return changed;
}
Tally Tally::with(LineCount count, std::uint64_t amount) const {
  Tally changed = *this;
  changed.lines[index(count)] += amount;
  return changed;
}
Tally operator-(const Tally &left, const Tally &right) {
  Tally result;
  std::transform(left.pages.begin(), left.pages.end(), right.pages.begin(), result.pages.begin(),
                 std::minus<>());
  std::transform(left.lines.begin(), left.lines.end(), right.lines.begin(), result.lines.begin(),
                 std::minus<>());
  return result;
}
Tally operator+(const Tally &left, const Tally &right) { return left - (Tally{} - right); }

std::string difference(const Tally &counted, const Tally &expected) {
  std::string text;
  compare<Count>(counted.pages, expected.pages, &text);
  compare<LineCount>(counted.lines, expected.lines, &text);
  return text;
}

Ledger::Ledger(std::uint32_t processes)
    : processes_(processes),
      accounts_bytes_(processes * sizeof(Account)),
      accounts_(static_cast<Account *>(accounts_bytes_.get())) {}

Account &Ledger::open() {
  // Relaxed: an account is zeroed memory.
  const std::uint32_t index = used_->fetch_add(1, std::memory_order_relaxed);
  if (index >= processes_) throw std::length_error("the ledger has no account left");
  return accounts_[index];
}

void Ledger::close(const Domain &domain) {
  const auto impl = tmh::detail::impl_of(domain);
  const std::uint32_t slots = impl->memory().participants_high();
  const std::uint64_t contexts =
      impl->lines() == nullptr ? 0 : impl->lines()->memory().contexts_high();
  if (slots > kPlaces || contexts > kPlaces)
    throw std::length_error("more slots or contexts than the ledger has room for");
  for (std::uint32_t i = 0; i < slots; ++i)
    closing_->places[i].pages = pages_of(impl->memory().participant(i)).pages;
  for (std::uint32_t i = 0; i < contexts; ++i)
    closing_->places[i].lines = lines_of(impl->lines()->memory().context(i)).lines;
}

// What its slot's next owner found there, or who closed the ledger; the same of its context.
Tally Ledger::left_behind(const Account &account) const {
  Tally left;
  if (account.slot < kPlaces) left.pages = closing_->places[account.slot].pages;
  if (account.context < kPlaces) left.lines = closing_->places[account.context].lines;
  bool slot_is_found = false, context_is_found = false;
  for (const Account *other = &account + 1; other != accounts_ + *used_; ++other) {
    if (other->stated == 0) continue;
    if (!slot_is_found && other->slot == account.slot) {
      slot_is_found = true;
      left.pages = other->opened.pages;
    }
    if (!context_is_found && account.context != Account::kNoContext &&
        other->context == account.context) {
      context_is_found = true;
      left.lines = other->opened.lines;
    }
  }
  return left;
}

void Ledger::audit(const Account &account, bool is_committed, Result *result) const {
  const std::string who = "process " + std::to_string(account.process) + " (slot " +
                          std::to_string(account.slot) + "), ";
  if (account.finding[0] != 0) result->findings.push_back(who + account.finding);
  Statement last = account.statements[account.stated % 2];
  const Phase phase = last.phase;
  const std::uint64_t head = account.events_head.head;
  for (std::uint64_t at = last.events_heard; at < head; ++at) {
    const observe::TraceEventV1 &event = account.events[at % observe::kTraceEvents];
    // Else it was killed while it wrote it.
    if (event.number == at + 1) hear(event, &last);
  }
  const std::vector<Tally> possible = ways(account, last, is_committed);
  const Tally counted = left_behind(account) - account.opened;
  result->total = result->total + counted;
  if (phase != Phase::kOutside) {
    ++result->cut;
    result->ways += possible.size();
  }
  if (std::find(possible.begin(), possible.end(), counted) != possible.end()) return;
  std::string text =
      who + "killed " + name_of(phase) + ", is counted in a way that it cannot have been: ";
  for (const Tally &way : possible) text.append("[").append(difference(counted, way)).append("] ");
  result->findings.push_back(text);
}

namespace {
// The calling thread's context, which it takes now at the latest; null: a domain without level 1.
line::SoftwareThread *level1_thread(const Domain &domain) {
  const auto impl = tmh::detail::impl_of(domain);
  if (impl->lines() == nullptr) return nullptr;
  Errc error = Errc::kOk;
  line::SoftwareThread *thread = impl->lines()->thread(&error);
  if (thread == nullptr) throw std::runtime_error("no level-1 context for the bookkeeper");
  return thread;
}
}  // namespace

Bookkeeper::Bookkeeper(Ledger &ledger, const Domain &domain, std::uint32_t process)
    : participant_(
          tmh::detail::impl_of(domain)->memory().participant(tmh::detail::impl_of(domain)->slot())),
      thread_(level1_thread(domain)),
      account_(ledger.open()) {
  const auto impl = tmh::detail::impl_of(domain);
  account_.process = process;
  account_.slot = impl->slot();
  account_.context = thread_ == nullptr ? Account::kNoContext : thread_->context_number();
  account_.opened = Tally{};
  account_.opened = counted();
  account_.statements[1] = Statement{};
  account_.stated.store(1, std::memory_order_release);  // pairs with nobody's before our end
  observe::detail::trace.store(&account_.events_head, std::memory_order_relaxed);
}

// Since it came.
Tally Bookkeeper::counted() const {
  Tally now = pages_of(participant_);
  if (thread_ != nullptr) now.lines = lines_of(thread_->context()).lines;
  return now - account_.opened;
}

void Bookkeeper::hear_events(Statement *statement) {
  const std::uint64_t head = account_.events_head.head.load(std::memory_order_acquire);
  if (head - statement->events_heard > observe::kTraceEvents)
    find("more events in one call than the ring holds");
  for (; statement->events_heard < head; ++statement->events_heard) {
    const std::uint64_t at = statement->events_heard;
    const observe::TraceEventV1 &event = account_.events[at % observe::kTraceEvents];
    // Another thread of the library's writes it at this moment. acquire: pairs with record().
    while (event.number.load(std::memory_order_acquire) != at + 1) sched_yield();
    hear(event, statement);
  }
}

void Bookkeeper::find(const std::string &what) {
  if (account_.finding[0] == 0)
    std::strncpy(account_.finding, what.c_str(), sizeof account_.finding - 1);
}

void Bookkeeper::saw(Moment moment, std::uint64_t what) {
  const std::uint64_t stated = account_.stated.load(std::memory_order_relaxed);
  Statement next = account_.statements[stated % 2];
  hear_events(&next);
  switch (moment) {
    case Moment::kBeginning: {
      Statement fresh;
      fresh.phase = Phase::kBeginning;
      fresh.is_query = static_cast<history::Kind>(what) == history::Kind::kQuery;
      fresh.events_heard = next.events_heard;
      fresh.said = next.said;
      next = fresh;
      break;
    }
    case Moment::kRunning:
      if (next.begun != static_cast<RanAt>(what)) find("runs where no event says that it began");
      next.phase = Phase::kRunning;
      break;
    case Moment::kEnding:
      next.phase = what != 0 ? Phase::kGivingUp : Phase::kEnding;
      break;
    case Moment::kEnded:
      if (next.is_committed !=
              (static_cast<history::Outcome>(what) == history::Outcome::kCommitted) ||
          next.is_committed == next.is_aborted)
        find("an instance ended as no event says");
      next.phase = Phase::kOutside;
      break;
  }
  if (const Tally now = counted(); now != next.said)
    find("alive, after " + std::string(name_of(next.phase)) + ": " + difference(now, next.said));
  account_.statements[(stated + 1) % 2] = next;
  // Who is killed before has not said it.
  account_.stated.store(stated + 1, std::memory_order_release);
}

}  // namespace tmh::test
