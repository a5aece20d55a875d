// levels/page/engine_thread.h -- what belongs to a thread: the engine whose instance it runs, and its fault ring.
// Contexts:  engine_thread is constant-initialised and read in the fault handler; thread_ring is not used there.
#pragma once

#include "platform/fault_ring.h"

namespace tmh::page {

class Engine;

struct EngineThread {
  Engine *running = nullptr;
};
extern constinit thread_local EngineThread engine_thread __attribute__((tls_model("initial-exec")));
extern thread_local platform::FaultRing thread_ring;

}  // namespace tmh::page
