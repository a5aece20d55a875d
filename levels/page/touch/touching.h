// levels/page/touch/touching.h -- the parts that act at a touch of one engine's instance, joined.
// Shape:     one per engine: the snapshot, and how its pages come to the views.
// Contexts:  as each part says.
#pragma once

#include <cstdint>

#include "levels/page/touch/claimer.h"
#include "levels/page/touch/first_touch.h"
#include "levels/page/touch/page_copier.h"
#include "levels/page/touch/page_maker.h"
#include "levels/page/touch/page_opener.h"
#include "levels/page/touch/run_ahead.h"
#include "levels/page/touch/snapshot.h"
#include "levels/page/touch/stand_ins.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "platform/try.h"

namespace tmh::page {

struct Touching {
  // All outlive it.
  Touching(Ours &ours, Mine &mine, std::uint32_t slot, ClaimKind claims) noexcept
      : snapshot(ours, mine, claims),
        stand_ins(ours, mine, snapshot),
        claimer(ours, mine, slot, snapshot, claims),
        maker(ours, mine, stand_ins, snapshot),
        copier(ours, mine, snapshot),
        ahead(ours, mine, snapshot),
        opener(ours, mine, stand_ins, claimer, maker, ahead),
        first_touch(ours, mine, stand_ins, opener, ahead) {}
  Touching(const Touching &) = delete;
  Touching &operator=(const Touching &) = delete;

  // Address space.
  [[nodiscard]] Errc reserve() noexcept {
    TMH_TRY(snapshot.reserve());
    return stand_ins.reserve();
  }

  Snapshot snapshot;
  StandIns stand_ins;
  Claimer claimer;
  PageMaker maker;
  PageCopier copier;
  RunAhead ahead;
  PageOpener opener;
  FirstTouch first_touch;
};

}  // namespace tmh::page
