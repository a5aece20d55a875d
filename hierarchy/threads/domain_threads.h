// hierarchy/threads/domain_threads.h -- the threads of this process in one domain: whether they may
// use it, which are at level 1, and where they run at level 2.
// Sharing:   threads: all may call.
//            Lock order: LineUsers::Barred -> the mutex of the process's PageRunner -> those of
//            ThreadViews; OpenState's comes behind them.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tmh/error.hpp>
#include <tmh/instance.hpp>

#include "hierarchy/threads/leave_hardware.h"
#include "hierarchy/threads/line_users.h"
#include "hierarchy/threads/open_state.h"
#include "hierarchy/threads/page_runners.h"
#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::detail {

struct DomainThreads {
  OpenState open;
  LineUsers line_users;
  PageRunners runners{open};

  // Does this thread run an instance at level 1 of this domain? RTM cannot tell: it aborts, for
  // `asks`. From before its instance until after it, but not while its actions run. By the thread's
  // own word: another thread may be closing.
  [[nodiscard]] bool run_at_lines(Need asks) const noexcept {
    leave_hardware(asks);
    return line_users.is_inside();
  }
  [[nodiscard]] bool run_at_any_level(Need asks) const noexcept {
    return run_at_lines(asks) || runners.runs_here();
  }
  // Until LineUsers::leave() the domain stays open and its segments mapped. Waits for who is about
  // to change that. What usable() says: not entered.
  [[nodiscard]] Errc enter_lines() {
    if (!line_users.try_enter()) [[unlikely]] {
      // The thread that bars is not there in a forked child.
      TMH_TRY(open.usable());
      line_users.enter();
    }
    const Errc error = open.usable();
    if (error != Errc::kOk) [[unlikely]]
      LineUsers::leave();
    TMH_ASSERT(line_users.is_inside() == (error == Errc::kOk));
    return error;
  }
};

}  // namespace tmh::detail
