// hierarchy/transaction/actions.cpp -- actions of the running instance: kept, run, dropped.
#include "hierarchy/transaction/actions.h"

#include <pthread.h>

#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tmh/transaction.hpp>

#include "hierarchy/domain/domain.h"
#include "hierarchy/threads/threads.h"
#include "hierarchy/transaction/raise.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/thread_object.h"

namespace tmh {

namespace detail {

namespace {

// Of this thread's instance. Behind the thread's thread_local objects, whose destructors may end
// the instance, or run others with actions.
struct Actions {
  std::vector<std::function<void()>> on_commit, on_abort;
  std::function<void()> before_next;
};
// REQUIRES: the caller adds to them.
Actions &actions_to_fill() {
  Actions &actions = platform::ThreadObject<Actions>::here();
  current().has_actions = true;
  return actions;
}
Actions take_actions() {
  current().has_actions = false;
  return std::exchange(platform::ThreadObject<Actions>::here(), {});
}

// They are the parent's. What they hold may be locked by a thread that the child does not have, so
// the child never destroys it, not at exit() either.
void keep_in_child() noexcept {
  static auto &of_parents = *new std::vector<Actions>;
  if (current().has_actions) of_parents.push_back(take_actions());
}
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, keep_in_child);

// Of the instance's end, which is told after its actions. No memory for it: then what they leave.
std::optional<std::string> failure_to_keep() noexcept {
  try {
    return platform::failure_detail();
  } catch (const std::bad_alloc &) {
    return {};
  }
}

}  // namespace

void run_kept_actions(bool committed) {
  // An action may run another instance.
  const Actions due = take_actions();
  const LastInstance last = current().last;
  const page::ReadSet reads = current().last_reads;
  std::optional<std::string> failure = failure_to_keep();
  for (const auto &action : committed ? due.on_commit : due.on_abort) action();
  if (failure) (void)platform::fail(Errc::kOk, *std::move(failure));
  current().last = last;
  current().last_reads = reads;
}

void run_actions_if_ended(bool committed) {
  if (current().has_actions && current().where() == Where::kOutside) run_actions(committed);
}

void drop_actions() {
  if (current().has_actions) (void)take_actions();
}

void set_before_next(std::function<void()> before) {
  TMH_ASSERT(before != nullptr);
  actions_to_fill().before_next = std::move(before);
}

std::function<void()> take_before_next() {
  return std::move(platform::ThreadObject<Actions>::here().before_next);
}

void require_instance(const char *call) {
  TMH_ASSERT(call != nullptr);
  if (current().where() != Where::kOutside) return;
  platform::fail(Errc::kEndWithoutBegin, std::string(call) + " outside an instance");
  raise(Errc::kEndWithoutBegin);
}

}  // namespace detail

void on_commit(std::function<void()> action) {
  detail::require_instance("on_commit()");
  detail::leave_hardware(Need::kOnCommit);  // memory for the action
  detail::actions_to_fill().on_commit.push_back(std::move(action));
}

void on_abort(std::function<void()> action) {
  detail::require_instance("on_abort()");
  detail::leave_hardware(Need::kOnAbort);
  detail::actions_to_fill().on_abort.push_back(std::move(action));
}

}  // namespace tmh
