// tests/itm/put.cpp -- a transactional load and a store that the compiler sees nothing of.
#include "tests/itm/put.h"

namespace itm {

[[gnu::transaction_safe]] long get(const long *place) { return *place; }

[[gnu::transaction_safe]] void put(long *place, long value) { *place = value; }

}  // namespace itm
