// examples/itm/cache/store_copies.hpp -- inside transactions: copies between shared memory and a
// buffer that is the caller's alone.
// Shape:     with -fgnu-tm, two functions of the compiler's ABI. A plain memcpy() would have the
//            runtime log each word of the buffer as if it were shared: for values of 100 KB that
//            costs nine tenths of the time.
// Contexts:  what copy_out() wrote stays when the transaction starts again: the buffer's content
//            counts only after it has ended.
#pragma once

#include <cstddef>
#include <cstring>

#include "examples/itm/support/section.h"

#if defined(TMH_ITM)
// R, W: read from, written to. t: by the transaction; n: not.
extern "C" {
[[gnu::transaction_pure]] void *_ITM_memcpyRtWn(void *to, const void *from, std::size_t bytes);
[[gnu::transaction_pure]] void *_ITM_memcpyRnWt(void *to, const void *from, std::size_t bytes);
}
#endif

namespace cache {

TMH_TRANSACTION_SAFE inline void copy_out(char *own, const char *shared, std::size_t bytes) {
#if defined(TMH_ITM)
  _ITM_memcpyRtWn(own, shared, bytes);
#else
  std::memcpy(own, shared, bytes);
#endif
}
TMH_TRANSACTION_SAFE inline void copy_in(char *shared, const char *own, std::size_t bytes) {
#if defined(TMH_ITM)
  _ITM_memcpyRnWt(shared, own, bytes);
#else
  std::memcpy(shared, own, bytes);
#endif
}

}  // namespace cache
