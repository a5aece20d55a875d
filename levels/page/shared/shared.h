// levels/page/shared/shared.h -- what the processes of a domain share: files in place, their
// layout, the domain lock, the turn, the table of accesses, the reaper, and the interfaces by which
// level 2 asks for what lies above it (Recaller) and hands over what a dead participant leaves
// (Estate).
// Shape:     the room's door: what other rooms use of it.
#pragma once

#include "levels/page/shared/access_table.h"
#include "levels/page/shared/changed_pages.h"
#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/estate.h"
#include "levels/page/shared/layout.h"
#include "levels/page/shared/lines.h"
#include "levels/page/shared/log_lock.h"
#include "levels/page/shared/page_locker.h"
#include "levels/page/shared/reaper.h"
#include "levels/page/shared/recaller.h"
#include "levels/page/shared/shared_files.h"
#include "levels/page/shared/shared_state.h"
#include "levels/page/shared/turn.h"
