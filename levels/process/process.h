// levels/process/process.h -- the door of levels/process: transactional memory of a whole process
// by pages, for programs whose plain code uses the same memory (EXCITE-VM). The start (start.h);
// what calls of the C library need (for_calls.h), signals included (faults.h, rights.h); what tasks
// need (for_tasks.h); transactions as libitm.so.1 has them (for_libitm.h, alone.h).
// ground/ and heap/ have doors of their own.
#pragma once

#include "levels/process/alone.h"
#include "levels/process/faults.h"
#include "levels/process/for_calls.h"
#include "levels/process/for_libitm.h"
#include "levels/process/for_tasks.h"
#include "levels/process/modules.h"
#include "levels/process/rights.h"
#include "levels/process/start.h"
