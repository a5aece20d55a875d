// observe/planted.cpp -- what is planted in this process.
#include "observe/planted.h"

namespace tmh::observe {

#ifdef TMH_PLANTED_FAULTS

namespace detail {
constinit std::atomic<Planted> planted{Planted::kNone};
}

void plant(Planted defects) noexcept { detail::planted.store(defects, std::memory_order_relaxed); }

#endif

}  // namespace tmh::observe
