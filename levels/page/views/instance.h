// levels/page/views/instance.h -- what an engine knows of the instance that it runs, or ran last.
// Sharing:   its thread and the fault handler there. Others FAIL it by
//            Participant::failed_instance.
// Contexts:  async-signal-safe.
#pragma once

#include <cstdint>

#include <tmh/error.hpp>
#include <tmh/instance.hpp>
#include <tmh/options.hpp>

#include "platform/assert.h"
#include "storage/participants.h"

namespace tmh::page {

// What begins anew with each instance.
struct InstanceRun {
  bool is_query = false;
  ConflictPolicy policy = ConflictPolicy::kOldestWins;
  Isolation isolation = Isolation::kSerializable;
  bool is_irrevocable = false;
  // The fault ring overflowed: any foreign commit is a conflict.
  bool has_read_everything = false;
  // See Transaction::has_read_behind().
  bool has_read_behind = false;
  // First byte stored to by a query.
  std::uintptr_t query_wrote = 0;
};

struct Instance : InstanceRun {
  explicit Instance(storage::Participant &of) noexcept
      : own(of), number(of.incarnation.load(std::memory_order_relaxed) << 32) {}

  // The next one; it runs when its snapshot is there.
  void begin(const InstanceRun &run) noexcept {
    TMH_ASSERT(!is_running);
    ++number;
    static_cast<InstanceRun &>(*this) = run;
    failed_cause_ = AbortCause::kNone;
  }
  // It can only abort now. error: kNoSpace's reason, which stays.
  void fail(AbortCause cause, Errc error = Errc::kOk) noexcept {
    TMH_ASSERT(cause != AbortCause::kNone);
    if (failed_cause_ == AbortCause::kNoSpace) return;
    failed_cause_ = cause;
    failed_error_ = error;
    // others ignore its accesses from now on
    own.failed_instance.store(number, std::memory_order_relaxed);
  }
  // By its own doing: the policy, a conflict that it has found, or lack of space.
  [[nodiscard]] bool has_failed() const noexcept { return failed_cause_ != AbortCause::kNone; }
  // REQUIRES has_failed().
  [[nodiscard]] Errc failed_error() const noexcept { return failed_error_; }
  // By others, under the domain lock: eager policies, level 1's abort-upper, tmh kill-stuck.
  // acquire: pairs with their release.
  [[nodiscard]] bool was_failed() const noexcept {
    return own.failed_instance.load(std::memory_order_acquire) == number;
  }

  // Nothing comes of it for a query, but that its body may ask.
  // relaxed: it stands for itself.
  [[nodiscard]] bool should_end() const noexcept {
    return has_failed() || own.asked_instance.load(std::memory_order_relaxed) == number ||
           was_failed();
  }

  // Has what it has read to be as it was, for it to commit? An irrevocable instance has moved to
  // the present.
  [[nodiscard]] bool is_serializable() const noexcept {
    return isolation != Isolation::kSnapshot || is_irrevocable;
  }

  [[nodiscard]] bool reads_past() const noexcept { return past != kPresent; }

  // kNone: it may still commit, as far as is known.
  [[nodiscard]] AbortCause why_failed() const noexcept {
    if (has_failed()) return failed_cause_;
    return was_failed() ? AbortCause::kConflictOther : AbortCause::kNone;
  }

  // The engine's slot.
  storage::Participant &own;
  // Never repeats in the domain, whatever process had the slot before.
  std::uint64_t number;
  bool is_running = false;
  // It aborts where it would take a page that the level below has used. Set before begin().
  bool gives_way = false;
  // Pages were mapped already when it began: what it reads is not known exactly.
  bool began_with_kept = false;
  // A query of the past: the moment that it reads. Its pin stands at the present.
  static constexpr std::uint64_t kPresent = ~0ull;
  std::uint64_t past = kPresent;

 private:
  AbortCause failed_cause_ = AbortCause::kNone;
  Errc failed_error_ = Errc::kOk;
};

}  // namespace tmh::page
