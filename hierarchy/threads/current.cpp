// hierarchy/threads/current.cpp -- the calling thread's Current: in a forked child, and what it
// says of the thread to the message about a stray access.
#include "hierarchy/threads/current.h"

#include <pthread.h>

#include <tmh/detail/line_access.hpp>

#include "hierarchy/threads/page_runner.h"
#include "platform/assert.h"
#include "platform/stray_access.h"

namespace tmh::detail {

constinit thread_local Current current_of_thread __attribute__((tls_model("initial-exec")));

namespace {

// The instance at level 1 is the parent's. That of level 2 says so itself.
void forget_in_child() noexcept {
  TMH_ASSERT(current().hardware.depth == 0);
  current().lines = {};
  line_access = nullptr;
  forget_seats();
}
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, forget_in_child);

// Async-signal-safe.
platform::ThreadState state_of_thread() noexcept {
  platform::ThreadState state;
  state.site = current().last_site;
  const Where where = current().where();
  if (where == Where::kOutside) return state;
  if (where == Where::kPages && current().pages.runner->view == nullptr) {
    state.where = "in an instance of another domain";
    state.remedy = "run an instance of the segment's own domain";
    return state;
  }
  state.where = where == Where::kPages
                    ? "by plain code in an instrumented body that runs in its thread's own view"
                    : "by plain code in a body that runs at level 1";
  state.remedy = "access it through tmh::field, or give the body no tmh::Fields parameter";
  return state;
}
[[maybe_unused]] const bool is_told = (platform::tell_thread_state_by(state_of_thread), true);

}  // namespace

}  // namespace tmh::detail
