// levels/page/redo/redo.h -- the redo log of level 2: what is published becomes records, in the
// order of commits, and one committer writes for all that wait.
// Shape:     the room's door: what other rooms use of it.
#pragma once

#include "levels/page/redo/durable_log.h"
#include "levels/page/redo/gatherer.h"
#include "levels/page/redo/redo_plan.h"
