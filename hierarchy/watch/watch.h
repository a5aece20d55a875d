// hierarchy/watch/watch.h -- the door of hierarchy/watch: what a participant sees of the others.
// SlowReaders finds snapshots that keep versions for too long, and acts as the program or
// TMH_SLOW_READER says. Counts are read from shared memory without a lock. Other rooms include this
// header alone.
#pragma once

#include "hierarchy/watch/domain_counts.h"
#include "hierarchy/watch/slow_reader_rule.h"
#include "hierarchy/watch/slow_reader_watch.h"
#include "hierarchy/watch/slow_readers.h"
