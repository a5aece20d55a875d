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

struct Instance {
  explicit Instance(storage::Participant &of) noexcept
      : own(of), number(of.incarnation.load(std::memory_order_relaxed) << 32) {}

  // The next one; it runs when its snapshot is there.
  void begin(bool query, ConflictPolicy conflicts, Isolation promise) noexcept {
    TMH_ASSERT(!is_running);
    ++number;
    policy = conflicts;
    is_query = query;
    isolation = promise;
    is_irrevocable = false;
    has_read_everything = false;
    has_read_behind = false;
    query_wrote = 0;
    is_failed = false;
    failed_cause = AbortCause::kNone;
    failed_error = Errc::kOk;
  }
  // It can only abort now. The first reason stays.
  void fail(AbortCause cause, Errc error = Errc::kOk) noexcept {
    TMH_ASSERT(cause != AbortCause::kNone);
    if (is_failed && failed_cause == AbortCause::kNoSpace) return;
    is_failed = true;
    failed_cause = cause;
    failed_error = error;
    // others ignore its accesses from now on
    own.failed_instance.store(number, std::memory_order_relaxed);
  }
  // By others, under the domain lock: eager policies, level 1's abort-upper, tmh kill-stuck.
  // acquire: pairs with their release.
  [[nodiscard]] bool was_failed() const noexcept {
    return own.failed_instance.load(std::memory_order_acquire) == number;
  }

  // Nothing comes of it for a query, but that its body may ask.
  // relaxed: it stands for itself.
  [[nodiscard]] bool should_end() const noexcept {
    return is_failed || own.asked_instance.load(std::memory_order_relaxed) == number ||
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
    if (!is_failed) return was_failed() ? AbortCause::kConflictOther : AbortCause::kNone;
    // validate() names no cause
    return failed_cause == AbortCause::kNone ? AbortCause::kValidation : failed_cause;
  }

  // The engine's slot.
  storage::Participant &own;
  // Never repeats in the domain, whatever process had the slot before.
  std::uint64_t number;
  ConflictPolicy policy = ConflictPolicy::kOldestWins;
  Isolation isolation = Isolation::kSerializable;
  bool is_running = false;
  bool is_query = false;
  bool is_irrevocable = false;
  // It aborts where it would take a page that the level below has used. Set before begin().
  bool gives_way = false;
  // Pages were mapped already when it began: what it reads is not known exactly.
  bool began_with_kept = false;
  // The fault ring overflowed: any foreign commit is a conflict.
  bool has_read_everything = false;
  // See Engine::has_read_behind().
  bool has_read_behind = false;
  // First byte stored to by a query.
  std::uintptr_t query_wrote = 0;
  // By its own doing: the policy, or lack of space.
  bool is_failed = false;
  AbortCause failed_cause = AbortCause::kNone;
  // kNoSpace's reason.
  Errc failed_error = Errc::kOk;
  // A query of the past: the moment that it reads. Its pin stands at the present.
  static constexpr std::uint64_t kPresent = ~0ull;
  std::uint64_t past = kPresent;
};

}  // namespace tmh::page
