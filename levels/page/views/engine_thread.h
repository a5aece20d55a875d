// levels/page/views/engine_thread.h -- what belongs to a thread: the instance that it runs, and its
// fault ring.
// Contexts:  engine_thread is constant-initialised and read in the fault handler; thread_ring() is
//            not used there.
#pragma once

#include "levels/page/views/instance.h"
#include "platform/fault_ring.h"
#include "platform/thread_object.h"

namespace tmh::page {

struct EngineThread {
  // Of its engine.
  const Instance *running = nullptr;
  // platform::unblock_faults() has been called.
  bool takes_faults = false;
};
extern constinit thread_local EngineThread engine_thread __attribute__((tls_model("initial-exec")));
// Behind the thread's thread_local objects, whose destructors may run instances, or end the open
// one.
[[nodiscard]] inline platform::FaultRing &thread_ring() {
  return platform::ThreadObject<platform::FaultRing>::here();
}
// Does the kernel list this thread's first touches already?
[[nodiscard]] inline bool has_open_ring() noexcept {
  const platform::FaultRing *ring = platform::ThreadObject<platform::FaultRing>::if_made();
  return ring != nullptr && ring->is_open();
}

}  // namespace tmh::page
