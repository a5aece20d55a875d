// examples/itm/support/counts.h -- how many transactions a thread ran, and how many attempts they
// took.
// Sharing:   each thread has its own; threads.cpp adds them up when a thread has ended its work.
#pragma once

#include <cstdint>

namespace itm {

struct Counts {
  std::uint64_t transactions = 0, attempts = 0;
};
extern constinit thread_local Counts counts;

// Called first in each attempt. A pure function: a runtime neither redirects nor undoes its store.
#if defined(TMH_ITM)
[[gnu::transaction_pure, gnu::noinline]]
#endif
void count_attempt() noexcept;

// "itm", "mutex" or "plain": what this program was built as (build.cpp).
extern const char *const kBuild;
// Then one thread only.
[[nodiscard]] bool is_plain();

}  // namespace itm
