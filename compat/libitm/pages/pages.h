// compat/libitm/pages/pages.h -- the door of compat/libitm/pages: the table by which libitm.so.1
// reaches the engine of method pages (levels/process), which is loaded before the program, with
// malloc() and threads of its own. That library's start is here, too.
#pragma once

#include "compat/libitm/pages/calls.h"
