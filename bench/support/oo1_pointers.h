// bench/support/oo1_pointers.h -- plain pointers in a segment as a contestant of bench/oo1: what
// LIBTP, 5.2.2, says is missing, a link from part to part.
#pragma once

#include <memory>
#include <string>

#include "bench/support/oo1_work.h"

namespace tmh::bench {

// The domain is durable. Instances, no locks.
[[nodiscard]] std::unique_ptr<Oo1Store> open_pointers_oo1(const std::string &folder);

}  // namespace tmh::bench
