// hierarchy/transaction/attempts.cpp -- one instance of a site: hands each attempt to the level at
// which it runs.
// Source:    thesis, sections 2.1 (nesting is subsumed) and 6.2 (every instance runs at one level);
//            docs/design.md 4.
#include <tmh/detail/attempts.hpp>

#include <new>
#include <type_traits>

#include "hierarchy/threads/threads.h"
#include "hierarchy/transaction/hardware_attempts.h"
#include "hierarchy/transaction/instances.h"
#include "hierarchy/transaction/leave_level.h"
#include "hierarchy/transaction/line_attempts.h"
#include "hierarchy/transaction/lines_in_rtm.h"
#include "hierarchy/transaction/page_attempts.h"
#include "hierarchy/transaction/raise.h"
#include "hierarchy/transaction/site_instance.h"
#include "levels/line/software.h"
#include "platform/assert.h"
#include "platform/set_if_other.h"

namespace tmh::detail {

using hierarchy::AttemptLevel;

struct Attempts::Parts {
  explicit Parts(Attempts &asked) noexcept : instance(asked) {}
  SiteInstance instance;
  PageAttempts pages;
  HardwareAttempts hardware;
};

// A first attempt of a thread that has a seat at its site. What is rare ends as an instance with
// Parts: settled().
class Attempts::Seated {
 public:
  // False: nothing has happened.
  [[nodiscard]] static bool begin(Attempts &asked) noexcept {
    TMH_ASSERT(!asked.is_begun_ && asked.seat_ == nullptr);
    Current &here = current();
    SiteImpl &site = SiteInstance::site_of(asked);
    SiteShard *const seat = site.seat_here();
    if (seat == nullptr || asked.body_ != BodyKind::kInstrumented) return false;
    const bool is_nested = here.at_level_1() || here.pages.domain != nullptr;
    observe::Sampler &sampler = here.samplers[static_cast<int>(observe::SampledKind::kLines)];
    if (is_nested || site.has_learned(asked.kind_) || sampler.is_due()) return false;
    if (!site.domain().line_users().try_enter()) [[unlikely]]
      return false;
    sampler.skip();
    platform::set_if_other(here.last_site, site.kept_name());
    asked.seat_ = seat;
    LineAttempts::begin_at(seat->seat, site, asked.kind_);
    return true;
  }
  // True: committed. False: the commit has failed, and the instance goes on as one with Parts.
  [[nodiscard]] static bool end(Attempts &asked) {
    TMH_ASSERT(asked.seat_ != nullptr);
    if (was_forked_in_body()) [[unlikely]]
      return end_in_child(asked);
    if (!LineAttempts::commit_at_seat(*asked.seat_)) [[unlikely]]
      return false;
    asked.seat_ = nullptr;
    run_actions(true);  // last: one may close the domain
    return true;
  }

 private:
  // Throws kDetached.
  [[gnu::noinline]] static bool end_in_child(Attempts &asked) {
    return LineAttempts::end(asked.settled().instance);
  }
};

Attempts::Parts &Attempts::settled() noexcept {
  if (seat_ == nullptr) return parts();
  TMH_ASSERT(!is_begun_);
  seat_ = nullptr;
  new (storage_) Parts(*this);
  is_begun_ = is_inside_ = true;
  return parts();
}

Attempts::Parts &Attempts::parts() noexcept {
  TMH_ASSERT(is_begun_);
  static_assert(sizeof(Parts) <= kPartsBytes && alignof(Parts) <= 8);
  static_assert(std::is_trivially_destructible_v<Parts>);
  return *std::launder(reinterpret_cast<Parts *>(storage_));
}

void Attempts::leave_lines() noexcept { parts().instance.leave_lines(); }

void Attempts::begin() {
  if (is_begun_ || !Seated::begin(*this)) [[unlikely]]
    begin_unseated();
}

// Not inline, as end_unseated(): what a seated instance passes through stays short.
[[gnu::noinline]] void Attempts::begin_unseated() {
  TMH_ASSERT(seat_ == nullptr);
  const bool is_first = !is_begun_;
  if (is_first) new (storage_) Parts(*this);
  is_begun_ = true;
  Parts &parts = this->parts();
  if (current().at_level_1() || current().at_level_2()) [[unlikely]]
    return begin_subsumed(parts);
  SiteInstance &instance = parts.instance;
  current().last_site = instance.site().kept_name();
  if (is_at_level_1(instance.state())) {
    instance.enter_lines();
    if (is_first) instance.choose_first();
  }
  switch (instance.level()) {
    case AttemptLevel::kLinesInRtm:
      if (LinesInRtm::begin(instance)) return;
      [[fallthrough]];
    case AttemptLevel::kLines:
      if (!LineAttempts::begin(instance)) break;
      instance.site().take_seat();
      return;
    case AttemptLevel::kHardware:
      if (parts.hardware.begin(instance)) return;
      break;
    case AttemptLevel::kPages:
    case AttemptLevel::kOuter:
      break;
  }
  parts.pages.begin(instance);
}

void Attempts::begin_subsumed(Parts &parts) {
  TMH_ASSERT(current().at_level_1() || current().at_level_2());
  SiteInstance &instance = parts.instance;
  DomainImpl &domain = instance.domain();
  check(domain.usable());
  if (current().hardware.depth != 0) {
    if (current().hardware.domain != domain.lines()) need_pages(Need::kOtherDomain);
    if (current().hardware.on_lines != nullptr && body_ == BodyKind::kPlain)
      need_pages(Need::kPlainBody);
    ++current().hardware.depth;
  } else if (current().lines.depth != 0) {
    // Another domain's is refused at level 2, with its reason, and so is an update in a query;
    // plain accesses would go past software lines.
    const bool is_update_in_query = !instance.is_query() && current().lines.thread->is_query();
    if (current().lines.domain != domain.lines()) need_pages(Need::kOtherDomain);
    if (body_ == BodyKind::kPlain) need_pages(Need::kPlainBody);
    if (is_update_in_query) need_pages(Need::kUpdateInQuery);
    current().lines.thread->nest(++current().lines.depth);
  } else {
    if (Instances(domain).depth() != 0 && body_ == BodyKind::kPlain) need_process_view();
    // Of another domain it is refused there, with its reason; level 1 would commit this one apart
    // from the outer one, and again each time that it runs.
    check(Instances(domain).begin(instance.is_query(), {.isolation = instance.site().isolation()}));
  }
  instance.subsume();
}

bool Attempts::end() { return (seat_ != nullptr && Seated::end(*this)) || end_unseated(); }

[[gnu::noinline]] bool Attempts::end_unseated() {
  if (seat_ != nullptr) {
    LineAttempts::end_failed(settled().instance);
    return false;
  }
  if (!is_begun_) return true;
  Parts &parts = this->parts();
  SiteInstance &instance = parts.instance;
  switch (instance.level()) {
    case AttemptLevel::kLines:
      return LineAttempts::end(instance);
    case AttemptLevel::kHardware:
      HardwareAttempts::end(instance);
      return true;
    case AttemptLevel::kLinesInRtm:
      LinesInRtm::end(instance);
      return true;
    case AttemptLevel::kPages:
      return parts.pages.end(instance);
    case AttemptLevel::kOuter:
      break;
  }
  Status status = Status::kPending;
  if (current().hardware.depth != 0)
    --current().hardware.depth;
  else if (current().lines.depth != 0)
    --current().lines.depth;
  else
    check(Instances(instance.domain()).end(instance.is_query(), &status));
  return true;
}

// An exception leaves the body of a subsumed instance.
void Attempts::leave_outer() {
  TMH_ASSERT(parts().instance.level() == AttemptLevel::kOuter);
  const SiteInstance &instance = parts().instance;
  Status status{};
  if (current().lines.depth != 0)
    --current().lines.depth;
  else if (Instances(instance.domain()).depth() != 0)
    (void)Instances(instance.domain()).end(instance.is_query(), &status);
}

void Attempts::unwound() {
  Parts &parts = settled();
  switch (parts.instance.level()) {
    case AttemptLevel::kOuter:
      leave_outer();
      throw LineAbort{};
    case AttemptLevel::kPages:
      return parts.pages.failed_in_thread_view(parts.instance);
    case AttemptLevel::kLines:
    case AttemptLevel::kHardware:
    case AttemptLevel::kLinesInRtm:
      return LineAttempts::unwound(parts.instance);
  }
}

void Attempts::retried(const RetryNow &why) {
  Parts &parts = settled();
  if (parts.instance.level() == AttemptLevel::kOuter) {
    leave_outer();
    throw why;
  }
  parts.pages.retried(parts.instance, why);
}

bool Attempts::threw() {
  // At level 2 the exception can leave the body.
  if (current().hardware.depth != 0) need_pages(Need::kException);
  if (!is_begun_ && seat_ == nullptr) return true;
  Parts &parts = settled();
  switch (parts.instance.level()) {
    case AttemptLevel::kLines:
      return LineAttempts::threw(parts.instance);
    case AttemptLevel::kHardware:  // begin() failed outside the transaction
    case AttemptLevel::kLinesInRtm:
      return true;
    case AttemptLevel::kPages:
      return parts.pages.threw(parts.instance);
    case AttemptLevel::kOuter:
      break;
  }
  leave_outer();
  return true;
}

void Attempts::left_by_force() noexcept {
  leave_hardware(Need::kThreadEnd);
  if (!is_begun_ && seat_ == nullptr) return;
  Parts &parts = settled();
  switch (parts.instance.level()) {
    case AttemptLevel::kLines:
      return LineAttempts::left_by_force(parts.instance);
    case AttemptLevel::kHardware:  // the transaction has ended
    case AttemptLevel::kLinesInRtm:
      return;
    case AttemptLevel::kPages:
      return parts.pages.left_by_force(parts.instance);
    case AttemptLevel::kOuter:
      return leave_outer();
  }
}

}  // namespace tmh::detail
