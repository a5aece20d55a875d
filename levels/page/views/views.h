// levels/page/views/views.h -- the address ranges through which a program accesses segments, which
// pages of them are mapped and how, and the instance that runs on them.
// Shape:     the room's door: what other rooms use of it.
#pragma once

#include "levels/page/views/claim_kind.h"
#include "levels/page/views/engine_thread.h"
#include "levels/page/views/evictor.h"
#include "levels/page/views/instance.h"
#include "levels/page/views/keep_policy.h"
#include "levels/page/views/kept_pages.h"
#include "levels/page/views/local_pages.h"
#include "levels/page/views/mine.h"
#include "levels/page/views/open_blocks.h"
#include "levels/page/views/resident_pages.h"
#include "levels/page/views/segment_views.h"
#include "levels/page/views/touch_tracker.h"
#include "levels/page/views/tracking_choice.h"
