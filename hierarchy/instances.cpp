// hierarchy/instances.cpp -- begin, end, nesting, age, turn and backoff of instances.
// Source:    thesis, section 2.1 (nested transactions are subsumed) and 3.3 (policies).
#include <time.h>

#include <algorithm>
#include <cstdio>

#include "hierarchy/domain_impl.h"
#include "hierarchy/policies.h"
#include "platform/failure.h"

namespace tmh::detail {

using platform::fail;

constinit thread_local bool advice_idle __attribute__((tls_model("initial-exec"))) = false;

namespace {
// The domain whose instance this thread runs. A child forked inside an instance inherits it, but runs nothing.
struct Running {
  DomainImpl *domain = nullptr;
  std::uint32_t fork_generation = 0;
};
constinit thread_local Running running;

std::string no_policy(std::string_view spec) {
  std::string text("'");
  return text.append(spec).append("' is no policy; right values: ").append(policy_values());
}

bool counts_as_attempt(AbortCause cause) noexcept {
  return cause == AbortCause::kValidation || cause == AbortCause::kConflictSelf || cause == AbortCause::kConflictOther;
}
}  // namespace

bool page_instance_here() noexcept {
  return running.domain != nullptr && running.fork_generation == platform::fork_generation();
}

bool DomainImpl::runs_here() const noexcept {
  return running.domain == this && running.fork_generation == platform::fork_generation();
}

std::uint32_t DomainImpl::depth() const noexcept { return runs_here() ? static_cast<std::uint32_t>(nest_.size()) : 0; }

Errc DomainImpl::usable() const noexcept {
  if (platform::fork_generation() != fork_generation_)
    return fail(Errc::kDetached, "this process was forked from a participant; open the domain here");
  if (!open_.load(std::memory_order_acquire)) return fail(Errc::kNotInitialized, "the domain is closed");
  return Errc::kOk;
}

Errc DomainImpl::begin(bool is_query) noexcept {
  if (const Errc error = usable(); error != Errc::kOk) return error;
  if (runs_here()) {
    if (nest_.front() && !is_query) return fail(Errc::kNestedMisuse, "an update cannot begin inside a query");
    nest_.push_back(is_query);
    return Errc::kOk;
  }
  if (running.domain != nullptr && running.fork_generation == platform::fork_generation())
    return fail(Errc::kNestedMisuse, "this thread runs an instance of another domain");
  instance_mutex_.lock();
  if (const Errc error = usable(); error != Errc::kOk) {  // closed while we waited
    instance_mutex_.unlock();
    return error;
  }
  if (attempts_ == 0 || !policy_.keep_age) age_ = detection_ == Detection::kEager ? engine_->begin_age() : 0;
  if (!is_query && hierarchy::take_turn(policy_, attempts_)) {
    engine_->take_turn();
    holds_turn_ = true;
  }
  if (const Errc error = engine_->begin(is_query, age_, policy_.conflict); error != Errc::kOk) {
    leave_turn();
    instance_mutex_.unlock();
    return error;
  }
  if (durable_ != nullptr && !durable_->early_release()) {
    if (const Errc error = durable_->log().wait(engine_->snapshot()); error != Errc::kOk) {
      engine_->abort(AbortCause::kUser);
      leave_turn();
      instance_mutex_.unlock();
      return error;
    }
  }
  advice_idle = engine_->is_steady();
  running = {this, fork_generation_};
  nest_.push_back(is_query);
  return Errc::kOk;
}

// At every end, committed or not: whoever gives up after an abort must not keep others waiting.
void DomainImpl::leave_turn() noexcept {
  if (holds_turn_) engine_->leave_turn();
  holds_turn_ = false;
}

void DomainImpl::finish() noexcept {
  nest_.clear();
  advice_idle = false;
  running = {};
  instance_mutex_.unlock();
}

Errc DomainImpl::end(bool is_query, Status *status, Durability durability) noexcept {
  if (const Errc error = usable(); error != Errc::kOk) return error;
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  if (nest_.back() != is_query)
    return fail(Errc::kNestedMisuse, is_query ? "end_query() ends an update" : "end() ends a query");
  if (nest_.size() > 1) {
    nest_.pop_back();
    *status = engine_->validate();
    return Errc::kOk;
  }
  const page::Engine::Outcome outcome = engine_->end();
  *status = outcome.status;
  if (outcome.status == Status::kAborted && counts_as_attempt(outcome.cause)) {
    ++attempts_;
    clock_at_abort_ = memory_->state().clock.load(std::memory_order_relaxed);
  } else if (!is_query) {
    attempts_ = 0;
  }
  leave_turn();
  Errc error = Errc::kOk;
  if (outcome.query_wrote != 0) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(outcome.query_wrote));
    const auto segment = segment_at(reinterpret_cast<const void *>(outcome.query_wrote));
    error = fail(Errc::kQueryWrote, std::string("store to ") + text + (segment ? " in " + segment->name : ""));
  } else if (outcome.error != Errc::kOk) {
    if (platform::failure_detail().empty()) error = fail(outcome.error, "no room for the instance's versions");
    error = outcome.error;
  }
  if (error != Errc::kOk || !must_wait(outcome.status, durability)) {
    finish();
    return error;
  }
  const auto open = keep_open();
  finish();
  // Without instance_mutex_: other threads of this process may run meanwhile, and join the group.
  return durable_->log().wait(outcome.durable_at);
}

// When a strict commit returns, everything that it read and wrote is durable (D1).
bool DomainImpl::must_wait(Status status, Durability durability) const noexcept {
  if (durable_ == nullptr || status != Status::kCommitted) return false;
  return durability == Durability{} ? durable_->is_strict() : durability == Durability::kStrict;
}

Errc DomainImpl::become_irrevocable(bool *is_pending) noexcept {
  if (const Errc error = usable(); error != Errc::kOk) return error;
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  if (nest_.front()) return fail(Errc::kNestedMisuse, "a query cannot become irrevocable; it never aborts");
  holds_turn_ = true;
  const Errc error = engine_->become_irrevocable(is_pending);
  if (error != Errc::kOk && platform::failure_detail().empty())
    return fail(error, "no room for what the instance has written so far");
  return error;
}

void become_irrevocable_here() {
  bool is_pending = true;
  check(running.domain->become_irrevocable(&is_pending));
  if (!is_pending) throw RetryNow{false};
}

bool irrevocable_here() noexcept { return page_instance_here() && running.domain->engine().irrevocable(); }

Errc DomainImpl::abort() noexcept {
  if (const Errc error = usable(); error != Errc::kOk) return error;
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  engine_->abort(AbortCause::kUser);
  attempts_ = 0;
  leave_turn();
  finish();
  return Errc::kOk;
}

Errc DomainImpl::validate(Status *status) noexcept {
  if (const Errc error = usable(); error != Errc::kOk) return error;
  if (!runs_here()) return fail(Errc::kEndWithoutBegin, "no instance is running in this thread");
  *status = engine_->validate();
  return Errc::kOk;
}

Errc DomainImpl::advise(const void *address, Access access, std::size_t bytes) noexcept {
  // A hot page's advice must cost next to nothing: a running instance of this thread implies that the domain is usable.
  if (!runs_here()) {
    const Errc error = usable();
    return error != Errc::kOk ? error : fail(Errc::kEndWithoutBegin, "advice outside an instance");
  }
  if (access != Access::kRead && access != Access::kReadWrite)
    return fail(Errc::kBadArgument, "access is neither read nor read-write");
  if (engine_->advise(reinterpret_cast<std::uintptr_t>(address), bytes, access == Access::kReadWrite)) return Errc::kOk;
  return fail(Errc::kNotMapped, "the address belongs to no segment of this domain");
}

void DomainImpl::backoff() noexcept {
  if (usable() != Errc::kOk || runs_here()) return;
  const bool progressed = memory_->state().clock.load(std::memory_order_relaxed) != clock_at_abort_;
  const std::uint64_t bound = hierarchy::backoff_ns_max(policy_.backoff, attempts_, policy_.backoff_us_max, progressed);
  if (bound == 0) return;
  random_ ^= random_ << 13;  // xorshift64: spreads processes, needs no quality
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const std::uint64_t wait_ns = (random_ + slot_) % bound;
  const timespec wait{0, static_cast<long>(wait_ns)};
  nanosleep(&wait, nullptr);
}

// Level 1 changes what an instance of level 2 has read only after a release, which moves the clock as well.
void DomainImpl::await_change() noexcept {
  constexpr long kPauseNsMin = 20'000,
                 kPauseNsMax = 1'000'000;  // nobody is woken: a change is seen within a millisecond
  if (usable() != Errc::kOk || runs_here()) return;
  const std::uint64_t seen = engine_->snapshot();
  for (long pause_ns = kPauseNsMin; memory_->state().clock.load(std::memory_order_acquire) == seen;
       pause_ns = std::min(2 * pause_ns, kPauseNsMax)) {
    const timespec pause{0, pause_ns};
    nanosleep(&pause, nullptr);
  }
}

std::uint64_t DomainImpl::collect() noexcept {
  if (runs_here()) return engine_->collect();
  const std::scoped_lock guard(instance_mutex_);
  return usable() == Errc::kOk ? engine_->collect() : 0;
}

Errc DomainImpl::set_policy(std::string_view spec) noexcept {
  if (const Errc error = usable(); error != Errc::kOk) return error;
  if (runs_here()) return fail(Errc::kInstanceRunning, "the policy changes between instances");
  Policy parsed;
  if (const Errc error = parse(spec, &parsed); error != Errc::kOk) return fail(error, no_policy(spec));
  const std::scoped_lock guard(instance_mutex_);
  policy_ = parsed;
  return Errc::kOk;
}

}  // namespace tmh::detail
