// hierarchy/exchange/page_requests.cpp -- requests for pages: refused, waited for, or granted.
#include "hierarchy/exchange/page_requests.h"

#include <immintrin.h>
#include <sched.h>
#include <time.h>

#include <algorithm>

#include <tmh/lab.hpp>

#include "hierarchy/exchange/page_waits.h"
#include "platform/process.h"

namespace tmh::detail {

using hierarchy::Directory;
using hierarchy::Release;
using line::Insists;
using line::ReleaseAnswer;
using storage::PageId;

namespace {
constexpr long kPauseNsMin = 5'000, kPauseNsMax = 100'000;
// as the engine's: docs/design.md 8 allows a second
constexpr std::uint64_t kLookPeriodNs = 100'000'000;
// A guest that runs for so long counts as a host: a stopped one would cost every instance the whole
// wait.
constexpr std::uint64_t kGuestStaysNs = 100'000'000;
// Durable domains: an asker has the log written so often. A page that guests have used is free
// after two: while the asker waits for the first one, they come to wait, too.
constexpr int kFlushesMax = 4;
}  // namespace

// Looking whether participants live costs 20 us each: once in a wait, when it has used its budget.
hierarchy::Release PageRequests::try_release(PageId page, bool fail_users, bool look_for_dead,
                                             Directory::User *used_by) noexcept {
  const page::DomainLock::Held held = engine_->lock_domain();
  if (look_for_dead) engine_->ours().reaper.reap_dead(held);
  const Release result = directory_.release(held, page);
  if (result == Release::kRunning || result == Release::kQueried) {
    if (fail_users) directory_.fail_users(held, page);
    *used_by = directory_.used_by(held);
  }
  return result;
}

// abort-lower waits for no participant, so no wait ends with a look after the dead: their pages
// would be busy for ever to a site that stays at level 1.
bool PageRequests::is_look_due() noexcept {
  const std::uint64_t now = platform::coarse_ns();
  std::uint64_t due = next_look_ns_.load(std::memory_order_relaxed);
  return now >= due &&
         next_look_ns_.compare_exchange_strong(due, now + kLookPeriodNs, std::memory_order_relaxed);
}

// How long an asker goes on.
class PageRequests::Wait {
 public:
  Wait(CrossPolicy cross, Insists insists)
      : backs_off_(cross == lab::kWaitForUpper), insists_(insists) {}

  [[nodiscard]] bool is_over(Release answer, const Directory::User &used_by) noexcept {
    const std::uint64_t now = platform::monotonic_ns();
    if (first_ns_ == 0) first_ns_ = now;
    if (since_ns_ == 0 || used_by != used_by_) since_ns_ = now;
    used_by_ = used_by;
    waited_ns_ = now - first_ns_;
    return !hierarchy::waits_for_page(insists_, answer == Release::kRunning, waited_ns_,
                                      now - since_ns_);
  }

  void pause() noexcept {
    const timespec pause{0, pause_ns_};
    nanosleep(&pause, nullptr);
    if (backs_off_ || waited_ns_ >= hierarchy::kPageWaitNs)
      pause_ns_ = std::min(2 * pause_ns_, kPauseNsMax);
  }

 private:
  const bool backs_off_;
  const Insists insists_;
  Directory::User used_by_;
  std::uint64_t first_ns_ = 0, since_ns_ = 0, waited_ns_ = 0;
  long pause_ns_ = kPauseNsMin;
};

// Bounded: the user of the page ends, or the budget does; then the asker aborts and its site
//          escalates.
ReleaseAnswer PageRequests::ask(PageId page, Insists insists) noexcept {
  const bool may_wait = insists != Insists::kNo;
  const std::uint64_t began_ns = platform::coarse_ns();
  const int flushes_max = log_ == nullptr ? 0 : insists == Insists::kLong ? kFlushesMax : 1;
  Wait wait(cross_, insists);
  int flushes = 0;
  for (bool look_for_dead = false;;) {
    Directory::User used_by;
    const Release answer =
        try_release(page, may_wait && cross_ == CrossPolicy::kAbortUpper, look_for_dead, &used_by);
    if (answer == Release::kReleased) return ReleaseAnswer::kGranted;
    if (!may_wait) return ReleaseAnswer::kRefused;
    // Versions stay until they are durable, and no writer may be about to write the log.
    if (answer == Release::kVersions && flushes < flushes_max) {
      ++flushes;
      (void)log_->group().flush(memory_.state().clock.load(std::memory_order_acquire));
      continue;
    }
    if (cross_ == CrossPolicy::kAbortLower) {
      if (look_for_dead || !is_look_due()) return ReleaseAnswer::kBusy;
      look_for_dead = true;
      continue;
    }
    if (look_for_dead) {
      hosts_refused_.store(any_host(began_ns), std::memory_order_relaxed);
      return ReleaseAnswer::kRefused;
    }
    // once more, after the dead have been cleaned up
    look_for_dead = wait.is_over(answer, used_by);
    if (!look_for_dead) wait.pause();
  }
}

bool PageRequests::any_host(std::uint64_t begun_ns) const noexcept {
  const std::uint64_t now_ns = platform::coarse_ns();
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    const storage::Participant &other = memory_.participant(i);
    // acquire: the rest is of that pin
    const bool runs = other.pin.load(std::memory_order_acquire) != storage::kNoPin;
    const bool is_guest = other.is_guest.load(std::memory_order_relaxed) != 0;
    const std::uint64_t other_ns = other.begin_ns.load(std::memory_order_relaxed);
    if (runs ? !is_guest || now_ns > other_ns + kGuestStaysNs : !is_guest && other_ns >= begun_ns)
      return true;
  }
  return false;
}

PageRequests::UpperLeft PageRequests::upper_left() const noexcept {
  if (!hardware_->any_pin()) return UpperLeft::kNobody;
  return any_host_runs() ? UpperLeft::kHosts : UpperLeft::kGuests;
}

// A small instance of level 2 takes 5 to 10 us, one that finds pages 100 to 200: a sleep takes 50
// us more than asked for.
PageRequests::UpperLeft PageRequests::await_upper() noexcept {
  constexpr int kSpins = 200;  // 5 to 10 us
  constexpr std::uint64_t kYieldNs = 200'000;
  for (int spin = 0; spin < kSpins; ++spin) {
    if (!hardware_->any_pin()) return UpperLeft::kNobody;
    _mm_pause();
  }
  const bool waits = cross_ != CrossPolicy::kAbortLower;
  if (!waits && !is_look_due()) return upper_left();
  const std::uint64_t begin_ns = platform::monotonic_ns();
  long pause_ns = kPauseNsMin;
  for (std::uint64_t waited_ns = 0; waits && waited_ns < hierarchy::kPageWaitNs;
       waited_ns = platform::monotonic_ns() - begin_ns) {
    if (waited_ns < kYieldNs) {
      sched_yield();
    } else {
      const timespec pause{0, pause_ns};
      nanosleep(&pause, nullptr);
      pause_ns = std::min(2 * pause_ns, kPauseNsMax);
    }
    if (!hardware_->any_pin()) return UpperLeft::kNobody;
  }
  engine_->ours().reaper.reap_dead(engine_->lock_domain());
  return upper_left();
}

storage::Pins PageRequests::pins() const noexcept { return memory_.pins(); }

std::uint64_t PageRequests::oldest_line_pin() noexcept {
  std::uint64_t oldest = ~0ull;
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    const storage::Participant &other = memory_.participant(i);
    if (other.pin.load(std::memory_order_seq_cst) == storage::kNoPin) continue;
    oldest = std::min(oldest, other.line_pin.load(std::memory_order_acquire));
  }
  return oldest;
}

void PageRequests::suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  directory_.recover_if_dead(engine_->lock_domain(), slot, incarnation);
}

}  // namespace tmh::detail
