// levels/lock/lock.h -- locks that wait for each other, between processes; deadlocks and deaths
// among them.
// Shape:     the room's door: what other rooms use of it.
#pragma once

#include "levels/lock/lock_table.h"
#include "levels/lock/modes.h"
#include "levels/lock/outcomes.h"
#include "levels/lock/waits_for.h"
