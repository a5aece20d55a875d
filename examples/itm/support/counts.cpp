#include "examples/itm/support/counts.h"

#include <string_view>

namespace itm {

constinit thread_local Counts counts;

void count_attempt() noexcept { ++counts.attempts; }
bool is_plain() { return std::string_view(kBuild) == "plain"; }

}  // namespace itm
