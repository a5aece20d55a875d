// hierarchy/transaction/open_instance.cpp -- instances whose thread goes: unwound by pthread_exit()
// or pthread_cancel(), or at its end; and the one in which the last handle of its domain goes.
// Source:    glibc (it unwinds by a foreign exception, abi::__forced_unwind, and aborts the program
//            when a handler does not throw it again).
#include "hierarchy/transaction/open_instance.h"

#include <new>

#include "hierarchy/threads/threads.h"
#include "hierarchy/transaction/actions.h"
#include "hierarchy/transaction/instances.h"
#include "levels/line/software.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/thread_object.h"

namespace tmh::detail {

namespace {

// REQUIRES: this thread runs an instance, not in RTM.
void abort_open(LeftBy left_by) noexcept {
  TMH_ASSERT(current().at_level_1() || current().at_level_2());
  const bool is_at_pages = current().at_level_2();
  if (current().lines.depth != 0 && left_by == LeftBy::kEndOfThread) {
    current().lines.depth = 0;
    current().lines.thread->abandon();
    LineUsers::leave();
  }
  if (is_at_pages) (void)Instances(*current().pages.domain).abort();
  if (left_by == LeftBy::kEndOfThread)
    drop_actions();
  else
    run_actions(false);  // or the thread's next instance would
}

struct EndOfThread {
  EndOfThread() noexcept { abort_open_instances_by(abort_open); }
  ~EndOfThread() { abort_open_instance(LeftBy::kEndOfThread); }
};

}  // namespace

Errc abort_at_end_of_thread() noexcept try {
  (void)platform::ThreadObject<EndOfThread>::here();
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("a thread's first instance");
}

void abort_open_at_lines() noexcept { abort_open_instances_by(abort_open); }

}  // namespace tmh::detail
