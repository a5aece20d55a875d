// levels/page/touch/touch.h -- the first access of an instance to a page: how it becomes known,
// what the page's content is in the instance's snapshot, and how the page gets it.
// Shape:     the room's door: what other rooms use of it.
#pragma once

#include "levels/page/touch/claimer.h"
#include "levels/page/touch/first_touch.h"
#include "levels/page/touch/mechanisms.h"
#include "levels/page/touch/page_maker.h"
#include "levels/page/touch/page_opener.h"
#include "levels/page/touch/read_set.h"
#include "levels/page/touch/run_ahead.h"
#include "levels/page/touch/snapshot.h"
#include "levels/page/touch/stand_ins.h"
#include "levels/page/touch/touching.h"
