// tests/itm/counted_new.h -- operator new and delete of the programs, which count what is live.
#pragma once

#include <atomic>

namespace itm {

// Plain memory: a method that takes back all of an aborted attempt takes this back with it.
extern std::atomic<long> live_objects;

}  // namespace itm
