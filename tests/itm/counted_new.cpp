// tests/itm/counted_new.cpp -- operator new and delete of the programs, which count what is live.
// Contexts:  compiled without -fgnu-tm. With it GCC would make transactional clones of them, in the
//            place of the library's.
#include "tests/itm/counted_new.h"

#include <cstdlib>
#include <new>

namespace itm {

std::atomic<long> live_objects;

}  // namespace itm

void *operator new(std::size_t bytes) {
  void *const place = std::malloc(bytes == 0 ? 1 : bytes);
  if (place == nullptr) throw std::bad_alloc();
  itm::live_objects.fetch_add(1, std::memory_order_relaxed);
  return place;
}

void operator delete(void *place) noexcept {
  if (place != nullptr) itm::live_objects.fetch_sub(1, std::memory_order_relaxed);
  std::free(place);
}

void operator delete(void *place, std::size_t) noexcept { operator delete(place); }
