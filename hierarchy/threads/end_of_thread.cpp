// hierarchy/threads/end_of_thread.cpp -- how an open instance is aborted, as the room above has
// said.
#include "hierarchy/threads/end_of_thread.h"

#include <atomic>

#include "hierarchy/threads/current.h"
#include "platform/assert.h"

namespace tmh::detail {

namespace {
// relaxed: always the same, and said before what a thread needs to begin an instance is there.
constinit std::atomic<AbortOpenInstance> abort_open{nullptr};
}  // namespace

void abort_open_instances_by(AbortOpenInstance how) noexcept {
  TMH_ASSERT(how != nullptr);
  abort_open.store(how, std::memory_order_relaxed);
}

void abort_open_instance(LeftBy left_by) noexcept {
  if (current().lines.depth == 0 && !current().at_level_2()) return;
  TMH_ASSERT(abort_open.load(std::memory_order_relaxed) != nullptr);
  abort_open.load(std::memory_order_relaxed)(left_by);
}

}  // namespace tmh::detail
