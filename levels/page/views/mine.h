// levels/page/views/mine.h -- what one participant has for itself: its views, what it knows of
// their pages, and the instance that runs on them.
// Shape:     one per engine.
// Sharing:   the thread that runs the engine's instance, and its fault handler.
// Contexts:  as each part says.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/views/instance.h"
#include "levels/page/views/keep_policy.h"
#include "levels/page/views/kept_pages.h"
#include "levels/page/views/local_pages.h"
#include "levels/page/views/open_blocks.h"
#include "levels/page/views/resident_pages.h"
#include "levels/page/views/segment_views.h"
#include "levels/page/views/touch_tracker.h"
#include "levels/page/views/tracking_choice.h"
#include "platform/try.h"

namespace tmh::page {

struct Mine {
  // memory outlives it.
  Mine(SharedState &memory, std::uint32_t slot)
      : instance(memory.participant(slot)),
        views(memory, tracking, kept, residents, twins),
        blocks(memory, views),
        touches(memory, tracking, views, kept, keeping, instance) {}
  Mine(const Mine &) = delete;
  Mine &operator=(const Mine &) = delete;

  // Address space.
  [[nodiscard]] Errc reserve() noexcept {
    TMH_TRY(kept.reserve());
    TMH_TRY(residents.reserve());
    TMH_TRY(twins.reserve());
    return touches.reserve();
  }

  Instance instance;
  // How first touches become known, and what they leave.
  TrackingChoice tracking;
  KeptPages kept;
  ResidentPages residents;
  Twins twins;
  KeepPolicy keeping;
  Views views;
  OpenBlocks blocks;
  TouchTracker touches;
};

}  // namespace tmh::page
