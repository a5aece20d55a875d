// tests/itm/put.h -- a transactional load and a store that the compiler sees nothing of.
// Contexts:  GCC sees in a function what it reads and writes later or has read and written before,
//            also across the begin of a nested transaction, and calls the ABI's functions for that:
//            RfW, RaR, WaW. get() and put() are a plain _ITM_RU8 and _ITM_WU8.
#pragma once

namespace itm {

[[gnu::transaction_safe]] long get(const long *place);
[[gnu::transaction_safe]] void put(long *place, long value);

}  // namespace itm
