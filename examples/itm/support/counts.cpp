#include "examples/itm/support/counts.h"

namespace itm {

constinit thread_local Counts counts;

void count_attempt() noexcept { ++counts.attempts; }

}  // namespace itm
