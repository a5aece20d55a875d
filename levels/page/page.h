// levels/page/page.h -- level 2, transactions on pages: the engine of one process or thread.
// Shape:     the room's door: what other rooms use of it. The rooms below it have doors of their
//            own.
#pragma once

#include "levels/page/engine.h"
#include "levels/page/transaction.h"
