// hierarchy/threads/threads.h -- the door of hierarchy/threads: where the threads of a process run.
// DomainThreads says whether they may use a domain, which are at level 1, and where they run at
// level 2; Current says what the calling thread runs. The room runs no transaction and knows no
// domain: a room above hands it the parts that threads share. Other rooms include this header
// alone.
#pragma once

#include "hierarchy/threads/current.h"
#include "hierarchy/threads/domain_threads.h"
#include "hierarchy/threads/end_of_thread.h"
#include "hierarchy/threads/leave_hardware.h"
#include "hierarchy/threads/line_threads.h"
#include "hierarchy/threads/line_users.h"
#include "hierarchy/threads/mapped_segments.h"
#include "hierarchy/threads/open_state.h"
#include "hierarchy/threads/page_runner.h"
#include "hierarchy/threads/page_runners.h"
#include "hierarchy/threads/thread_view.h"
#include "hierarchy/threads/thread_views.h"
