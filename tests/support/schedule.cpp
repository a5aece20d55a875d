// tests/support/schedule.cpp -- holding actors and letting them go.
#include "tests/support/schedule.h"

#include <signal.h>

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "platform/futex.h"
#include "tests/support/own_time.h"

namespace tmh::test {

namespace {
constexpr long kLookNs = 20'000'000;
constexpr std::uint32_t kBeforeBody = 999;
}  // namespace

Schedule::ActorState *Schedule::self_ = nullptr;

// Async-signal-safe.
void Schedule::stop_at(std::uint32_t point) noexcept {
  ActorState *const self = self_;
  if (self == nullptr || self->target.load(std::memory_order_acquire) != point) return;
  const std::uint32_t go = self->go.load(std::memory_order_acquire);
  // Release: pairs with run(), which stores the next target after it.
  self->held.store(1, std::memory_order_release);
  platform::futex_wake(self->held);
  while (self->go.load(std::memory_order_acquire) == go &&
         self->target.load(std::memory_order_acquire) == point)
    platform::futex_wait(self->go, go, kLookNs);
  self->held.store(0, std::memory_order_release);
}

void Schedule::on_step(observe::Step step) noexcept { stop_at(to_step(step)); }

void Schedule::mark(std::uint32_t number) noexcept { stop_at(to_mark(number)); }

std::size_t Schedule::add(const std::string &name, const std::function<void()> &body) {
  const std::size_t number = children_.count();
  ActorState &actor = state_->actors.at(number);
  actor.target.store(kBeforeBody);
  children_.spawn(name, [&actor, &body] {
    self_ = &actor;
    observe::set_step_hook(&Schedule::on_step);
    stop_at(kBeforeBody);
    try {
      body();
    } catch (...) {
      actor.ended.store(1);
      throw;
    }
    observe::set_step_hook(nullptr);
    actor.ended.store(1);
  });
  while (actor.held.load(std::memory_order_acquire) == 0)
    platform::futex_wait(actor.held, 0, kLookNs);
  return number;
}

Reached Schedule::run(std::size_t number, std::uint32_t to) {
  ActorState &actor = state_->actors[number];
  actor.target.store(to, std::memory_order_release);
  if (actor.held.exchange(0, std::memory_order_acq_rel) != 0) {
    actor.go.fetch_add(1, std::memory_order_release);  // release: with the target, to stop_at()
    platform::futex_wake(actor.go);
  }
  OwnTime own_time({children_.pid(number)});
  const auto hung = std::chrono::steady_clock::now() + hang_deadline();
  for (;;) {
    if (actor.held.load(std::memory_order_acquire) != 0) return Reached::kThere;
    if (actor.ended.load(std::memory_order_acquire) != 0 || !children_.running(number))
      return Reached::kEnded;
    if (own_time.look() > kWaitsAfter || std::chrono::steady_clock::now() > hung)
      return Reached::kWaits;
    platform::futex_wait(actor.held, 0, kLookNs / 20);
  }
}

void Schedule::kill(std::size_t number) {
  killed_[number] = true;
  children_.bury(number);
}

void Schedule::finish() {
  for (std::size_t i = 0; i < children_.count(); ++i) {
    ActorState &actor = state_->actors[i];
    actor.target.store(kToEnd, std::memory_order_release);
    if (actor.held.exchange(0, std::memory_order_acq_rel) == 0) continue;
    actor.go.fetch_add(1, std::memory_order_release);
    platform::futex_wake(actor.go);
  }
  for (std::size_t i = 0; i < children_.count(); ++i) {
    if (killed_[i]) continue;
    const ChildEnd end = children_.wait(i);
    EXPECT_TRUE(end.succeeded()) << "actor " << i << ": exit code " << end.exit_code << ", signal "
                                 << end.signal;
  }
}

}  // namespace tmh::test
