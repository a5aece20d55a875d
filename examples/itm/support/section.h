// examples/itm/support/section.h -- one critical section, three builds of one source.
// Shape:     TMH_ITM: `__transaction_atomic` (compiled with -fgnu-tm). TMH_MUTEX: one mutex of the
//            whole program. TMH_PLAIN: nothing, for one thread. Exactly one of them is defined in
//            a file of transactions; no other file includes this one.
// Contexts:  a body is a lambda that captures by reference. It calls what this file can see, or
//            what is TMH_TRANSACTION_SAFE; malloc and free are. It does not throw. What it assigns
//            outside itself is undone when the transaction starts again. What no thread writes
//            meanwhile, sizes and addresses of tables say, is read before it: no accesses of the
//            transaction.
// Counts:    of the calling thread, see counts.h: nothing here is shared between threads.
#pragma once

#include <type_traits>

#include "examples/itm/support/counts.h"

#if defined(TMH_ITM)
#define TMH_TRANSACTION_SAFE [[gnu::transaction_safe]]
#elif defined(TMH_MUTEX)
#include <mutex>
#define TMH_TRANSACTION_SAFE
#elif defined(TMH_PLAIN)
#define TMH_TRANSACTION_SAFE
#else
#error "define TMH_ITM, TMH_MUTEX or TMH_PLAIN (cmake/itm_programs.cmake does)"
#endif

namespace itm {

#if defined(TMH_MUTEX)
inline std::mutex global_mutex;
#endif

// Runs the body as one atomic step and returns what it returns.
template <class Body>
[[gnu::always_inline]] inline auto atomically(Body &&body) {
  using Result = decltype(body());
#if defined(TMH_ITM)
  if constexpr (std::is_void_v<Result>) {
    __transaction_atomic {
      count_attempt();
      body();
    }
    ++counts.transactions;
  } else {
    Result result{};
    __transaction_atomic {
      count_attempt();
      result = body();
    }
    ++counts.transactions;
    return result;
  }
#else
#if defined(TMH_MUTEX)
  const std::scoped_lock lock(global_mutex);
#endif
  ++counts.attempts;
  ++counts.transactions;
  return static_cast<Result>(body());
#endif
}

}  // namespace itm
