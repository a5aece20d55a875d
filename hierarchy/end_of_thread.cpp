// hierarchy/end_of_thread.cpp -- instances whose thread goes: unwound by pthread_exit() or
// pthread_cancel(), or at its end.
// Invariant: no participant waits for an instance of a thread that has ended: its runner's mutex,
//            its pin and its word among LineUsers are given back.
// Source:    glibc (it unwinds by a foreign exception, abi::__forced_unwind, and aborts the program
//            when a handler does not throw it again).
#include "hierarchy/end_of_thread.h"

#include <new>

#include "hierarchy/actions.h"
#include "hierarchy/domain_impl.h"
#include "hierarchy/leave_level.h"
#include "platform/failure.h"
#include "platform/thread_object.h"

namespace tmh::detail {

namespace {
struct EndOfThread {
  ~EndOfThread() { abort_open_instance(); }
};
}  // namespace

Errc abort_at_end_of_thread() noexcept try {
  (void)platform::ThreadObject<EndOfThread>::here();
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("a thread's first instance");
}

void abort_open_instance() noexcept {
  const bool is_at_lines = current().lines.depth != 0, is_at_pages = current().at_level_2();
  if (!is_at_lines && !is_at_pages) return;
  if (is_at_lines) {
    current().lines.depth = 0;
    current().lines.thread->abandon();
    LineUsers::leave();
  }
  if (is_at_pages) (void)current().pages.domain->instances().abort();
  drop_actions();
}

void leave_by_force(const Domain &domain, bool is_query, std::uint32_t depth_before) noexcept {
  leave_hardware();
  try {
    if (domain.depth() <= depth_before) return;  // the body has ended it
    // What the body has begun by hand goes with the outermost one.
    if (depth_before == 0 && (!is_query || domain.depth() > 1))
      domain.abort();
    else if (is_query)
      domain.end_query();
    else
      (void)domain.end();
  } catch (const Error &) {  // no caller is there to be told
  }
}

}  // namespace tmh::detail
