// examples/itm/cache/fault.cpp -- deaths to order.
#include <cstdlib>

#include "examples/itm/cache/store_layout.h"

namespace cache {

// Volatile, so that the compiler neither leaves a fault out nor sees it coming. A sanitizer would
// report the fault instead.
__attribute__((noinline, no_sanitize("undefined"))) void die_of(Fault fault) noexcept {
  static volatile int *volatile nowhere = nullptr;
  static volatile int zero = 0, some = 7;
  switch (fault) {
    case Fault::kSegv:
      *nowhere = 1;
      break;
    case Fault::kFpe:
      some = some / zero;
      break;
    case Fault::kAbort:
      break;
  }
  std::abort();
}

}  // namespace cache
