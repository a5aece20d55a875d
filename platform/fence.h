// platform/fence.h -- std::atomic_thread_fence(), and under ThreadSanitizer, which does not know
// fences, something that it knows.
// Ordering:  as the fence. Under ThreadSanitizer every two fences synchronize: it may miss a race
//            between two threads that both pass one, and reports none that there is not.
// Contexts:  async-signal-safe.
#pragma once

#include <atomic>

namespace tmh::platform {

#ifdef __SANITIZE_THREAD__
inline void fence(std::memory_order) noexcept {
  static constinit std::atomic<unsigned> every_fence{0};
  every_fence.fetch_add(0, std::memory_order_seq_cst);
}
#else
inline void fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }
#endif

}  // namespace tmh::platform
