// levels/process/heap/heap.h -- the door of levels/process/heap: the heap of programs whose threads
// are tasks. It has all blocks and anonymous pages of such a program, and touches none of them. It
// knows no engine: it asks for its addresses and for the caller's slot (ground/own_task.h).
#pragma once

#include "levels/process/heap/allocator.h"
