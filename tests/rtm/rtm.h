// tests/rtm/rtm.h -- transactions of real RTM code, for the emulator's tests.
// Shape:     attempt(body) runs body between XBEGIN and XEND; the status is what XBEGIN left in
//            EAX, kRtmCommitted after XEND.
// Contexts:  body must not throw, allocate or call the system, or it aborts, as on hardware.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace tmh::test {

inline constexpr std::uint32_t kRtmCommitted = ~0u;

template <class Body>
__attribute__((target("rtm"), noinline)) std::uint32_t attempt(Body &&body) {
  const std::uint32_t status = _xbegin();
  if (status != _XBEGIN_STARTED) return status;
  body();
  _xend();
  return kRtmCommitted;
}

// Inside only. Code is part of the instruction.
template <unsigned kCode>
inline void rtm_abort() {
  asm volatile("xabort %0" : : "i"(kCode) : "memory");
}
inline void rtm_end() { asm volatile("xend" : : : "memory"); }
[[nodiscard]] inline bool rtm_is_inside() {
  bool inside = false;
  asm volatile("xtest\n\tsetnz %0" : "=q"(inside) : : "cc");
  return inside;
}

// Present and this process's own: what a first touch would abort for.
inline void prefault(void *memory, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 4096) {
    auto *byte = static_cast<volatile char *>(memory) + i;
    *byte = *byte;
  }
}

}  // namespace tmh::test
#endif
