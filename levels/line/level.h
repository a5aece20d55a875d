// levels/line/level.h -- the seam between level 1 and what runs it: one concept, two
// implementations (software.h, rtm.h).
#pragma once

#include <concepts>

#include <tmh/instance.hpp>

#include "levels/line/abort_status.h"
#include "levels/line/rtm_thread.h"
#include "levels/line/software_inline.h"

namespace tmh::line {

// One thread's attempts at level 1, one at a time.
//   begin(Begin)    true: the attempt runs. false: it did not start, or (RTM) was aborted, and
//                   control came back here.
//   commit()        ends it; kCommitted: its stores are visible at once and in one serial order
//                   with those of all; kAborted: none is.
//   abandon(cause)  ends it without effects.
//   cause(), status()  why the last attempt did not commit; status() in RTM's layout, by hardware
//                      and software alike.
// An attempt sees one consistent snapshot (opacity). No wait is without bound. What the
// level cannot do (capacity, blocks that another level holds) is an abort with its cause, never an
// error. Retries and escalation are the caller's.
template <class Level>
concept LineLevel = requires(Level level, const Level &seen, const Begin &options,
                             AbortCause cause) {
  { level.begin(options) } -> std::same_as<bool>;
  { level.commit() } -> std::same_as<Status>;
  { level.abandon(cause) } -> std::same_as<void>;
  { seen.is_running() } -> std::same_as<bool>;
  { seen.cause() } -> std::same_as<AbortCause>;
  { seen.status() } -> std::same_as<AbortStatus>;
};
static_assert(LineLevel<SoftwareThread> && LineLevel<RtmThread>);

}  // namespace tmh::line
