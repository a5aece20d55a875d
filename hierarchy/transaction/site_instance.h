// hierarchy/transaction/site_instance.h -- what the attempts of one instance of a site have in
// common, at whatever level: how the next one runs, how many have failed, since when.
// Shape:     lies in the storage of detail::Attempts, beside what is one level's alone
//            (page_attempts.h, hardware_attempts.h).
// Sharing:   the thread's own. In RTM an abort takes back what the transaction has stored here.
// Source:    thesis, section 6.2 (every instance runs at one level; policies move it);
//            docs/design.md 4.
#pragma once

#include <cstdint>

#include <tmh/site.hpp>

#include "hierarchy/transaction/attempt_states.h"
#include "hierarchy/transaction/raise.h"
#include "hierarchy/transaction/site_impl.h"

namespace tmh::detail {

// Level 2 has not let an attempt at level 1 go on: it did not give a page back in time, or the gate
// of RTM stayed shut. Because of guests alone, or of an instance that is none?
enum class Refusal : std::uint8_t { kNone, kByGuests, kByHosts };

// What an attempt at level 1 left to know when it was undone.
struct Undone {
  bool over_capacity = false;
  bool needs_pages = false;
  // Where it needs pages: what for.
  Need need = Need::kUnknown;
  Refusal refusal = Refusal::kNone;
  // Other instances have committed meanwhile.
  bool others_progressed = false;
  // A committer kept a line locked. Level 2 would wait for it, too.
  bool met_lock = false;
  // A page of level 2 was in the way, which the others' waiting does not move.
  bool met_pages = false;
};

class SiteInstance {
 public:
  using State = hierarchy::AttemptState;

  explicit SiteInstance(Attempts &asked) noexcept
      : site_(site_of(asked)), asked_(asked), state_(first_state()) {}
  SiteInstance(const SiteInstance &) = delete;
  SiteInstance &operator=(const SiteInstance &) = delete;

  [[nodiscard]] static SiteImpl &site_of(const Attempts &asked) noexcept {
    return *asked.site_.impl_;
  }
  [[nodiscard]] SiteImpl &site() const noexcept { return site_; }
  [[nodiscard]] DomainImpl &domain() const noexcept { return site_.domain(); }
  [[nodiscard]] Attempts::Kind kind() const noexcept { return asked_.kind_; }
  [[nodiscard]] bool is_query() const noexcept { return kind() == Attempts::Kind::kQuery; }
  [[nodiscard]] BodyKind body() const noexcept { return asked_.body_; }
  [[nodiscard]] Durability durability() const noexcept { return asked_.durability_; }
  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] hierarchy::AttemptLevel level() const noexcept {
    return hierarchy::level_of(state_);
  }
  // Attempts that have failed.
  [[nodiscard]] std::uint32_t attempts() const noexcept { return attempts_; }
  // May it not leave level 1?
  [[nodiscard]] bool stays_at_level_1() const noexcept {
    return !is_query() && site_.escalation().kind == EscalationKind::kNever;
  }

  // Of the first attempt, by what the site has learned. REQUIRES: inside level 1.
  void choose_first() noexcept {
    if (state_ == State::kTryLinesInRtm && !site_.begins_in_rtm()) state_ = State::kTryLines;
    if (site_.has_learned(kind()) || site_.escalation().kind == EscalationKind::kAlways)
        [[unlikely]]
      choose_by_learning();
  }
  void failed(hierarchy::Failed how) noexcept { state_ = hierarchy::next(state_, how); }
  void subsume() noexcept { state_ = State::kSubsumed; }
  // It has slept in retry(), which is no failure.
  void forget_failures() noexcept { attempts_ = attempts_first_ = 0; }
  // Its attempts on software lines log what they read, from the next one on. No failure either.
  void keep_log() noexcept { keeps_log_ = true; }
  [[nodiscard]] bool keeps_log() const noexcept { return keeps_log_; }

  // Between these, unmap() and close() of other threads wait. The first throws where the domain is
  // closed. Either does nothing the second time.
  void enter_lines() {
    if (asked_.is_inside_) return;
    check(domain().enter_lines());
    asked_.is_inside_ = true;
  }
  void leave_lines() noexcept {
    if (asked_.is_inside_) LineUsers::leave();
    asked_.is_inside_ = false;
  }

  // An attempt at level 1 begins.
  void start_timing() noexcept;
  // Its begin, if it is timed.
  [[nodiscard]] const observe::Timed &timed() const noexcept { return timed_; }
  void count_time_of_failed() noexcept {
    if (timed_.count != 0) site_.add_line_ticks(timed_);
  }
  // An attempt at level 1 has been undone: asks the site's policy. True: the next attempt runs at
  // level 1, too. Throws where the policy gives up.
  [[nodiscard]] bool goes_on_at_level_1(const Undone &undone);

 private:
  [[nodiscard]] State first_state() const noexcept {
    switch (site_.line_kind(body())) {
      case LineKind::kSoftware:
        return State::kTryLines;
      case LineKind::kRtmOnLines:
        // A query on software lines locks nothing and draws no stamp.
        return is_query() ? State::kTryLines : State::kTryLinesInRtm;
      case LineKind::kHardware:
        // RTM would not notice that a query stores.
        return is_query() ? State::kTryPages : State::kTryHardware;
      case LineKind::kNone:
        break;
    }
    return State::kTryPages;
  }
  void choose_by_learning() noexcept;
  [[nodiscard]] hierarchy::Failed choose_beyond_model() noexcept;
  [[nodiscard]] hierarchy::NextStep by_own_rule(const hierarchy::FailedAttempt &failed);
  void go_up(const Undone &undone) noexcept;
  [[noreturn]] void give_up(const Undone &undone) const;
  void learn_escalation(bool over_capacity, Refusal refusal) noexcept;

  SiteImpl &site_;
  Attempts &asked_;
  State state_;
  bool keeps_log_ = false;
  // Of these attempts, while the others waited.
  std::uint16_t attempts_first_ = 0;
  std::uint32_t attempts_ = 0;
  // Of the time-stamp counter: the first attempt's begin, or failure. 0: not known.
  std::uint64_t first_ticks_ = 0;
  observe::Timed timed_;
};

}  // namespace tmh::detail
