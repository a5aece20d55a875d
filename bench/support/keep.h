// bench/support/keep.h -- what the compiler may not leave out.
#pragma once

namespace tmh::bench {

// The value is computed, and memory is as the source says, here.
template <class T>
inline void keep(const T &value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace tmh::bench
