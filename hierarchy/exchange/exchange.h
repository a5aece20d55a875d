// hierarchy/exchange/exchange.h -- the door of hierarchy/exchange: which level has each page, and
// how a page moves. Level 1 asks for pages of level 2, level 2 recalls pages of level 1, and both
// give pages to RTM. Other rooms include this header alone. PROTOCOL.md says which actor writes
// which word, and what a death leaves.
#pragma once

#include "hierarchy/exchange/ask_to_abort.h"
#include "hierarchy/exchange/directory.h"
#include "hierarchy/exchange/given_pages.h"
#include "hierarchy/exchange/hardware_lines.h"
#include "hierarchy/exchange/hardware_pages.h"
#include "hierarchy/exchange/page_locks.h"
#include "hierarchy/exchange/page_requests.h"
