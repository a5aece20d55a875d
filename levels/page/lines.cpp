// levels/page/lines.cpp -- line comparison: 65 ns per hot page with AVX2 where a plain memcmp of 64
// lines takes 200.
#include "levels/page/lines.h"

#include <immintrin.h>

#include <atomic>

#include "platform/assert.h"

namespace tmh::page {

namespace {

__attribute__((target("avx2"))) LineMask differing_avx2(const std::byte *a,
                                                        const std::byte *b) noexcept {
  LineMask mask = 0;
  for (std::size_t line = 0; line < storage::kLinesPerPage; ++line) {
    const auto *x = reinterpret_cast<const __m256i *>(a + line * kLineBytes);
    const auto *y = reinterpret_cast<const __m256i *>(b + line * kLineBytes);
    const __m256i difference =
        _mm256_or_si256(_mm256_xor_si256(_mm256_load_si256(x), _mm256_load_si256(y)),
                        _mm256_xor_si256(_mm256_load_si256(x + 1), _mm256_load_si256(y + 1)));
    mask |= static_cast<LineMask>(_mm256_testz_si256(difference, difference) == 0) << line;
  }
  return mask;
}

LineMask differing_sse2(const std::byte *a, const std::byte *b) noexcept {
  LineMask mask = 0;
  for (std::size_t line = 0; line < storage::kLinesPerPage; ++line) {
    const auto *x = reinterpret_cast<const __m128i *>(a + line * kLineBytes);
    const auto *y = reinterpret_cast<const __m128i *>(b + line * kLineBytes);
    __m128i same = _mm_cmpeq_epi8(_mm_load_si128(x), _mm_load_si128(y));
    for (int i = 1; i < 4; ++i)
      same = _mm_and_si128(same, _mm_cmpeq_epi8(_mm_load_si128(x + i), _mm_load_si128(y + i)));
    mask |= static_cast<LineMask>(_mm_movemask_epi8(same) != 0xffff) << line;
  }
  return mask;
}

LineMask differing_by_words(const std::byte *a, const std::byte *b) noexcept {
  LineMask mask = 0;
  for (std::size_t line = 0; line < storage::kLinesPerPage; ++line)
    mask |=
        static_cast<LineMask>(differing_words(a + line * kLineBytes, b + line * kLineBytes) != 0)
        << line;
  return mask;
}

// One of the pages may be home, and have been level 1's in this process until another process
// recalled it, or be so again when another one has released it. That orders the accesses, but
// ThreadSanitizer knows only what this process does.
#ifdef __SANITIZE_THREAD__
constexpr bool kAtomicOnly = true;
#else
constexpr bool kAtomicOnly = false;
#endif

using Compare = LineMask (*)(const std::byte *, const std::byte *) noexcept;
LineMask choose(const std::byte *a, const std::byte *b) noexcept;
// constinit: constructors of a program's static objects, which may run instances, come before a
// static library's. relaxed: all choose the same.
constinit std::atomic<Compare> compare{choose};
LineMask choose(const std::byte *a, const std::byte *b) noexcept {
  const Compare chosen = kAtomicOnly                      ? differing_by_words
                         : __builtin_cpu_supports("avx2") ? differing_avx2
                                                          : differing_sse2;
  compare.store(chosen, std::memory_order_relaxed);
  return chosen(a, b);
}

}  // namespace

LineMask differing_lines(const std::byte *a, const std::byte *b) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(a) % kLineBytes == 0);
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(b) % kLineBytes == 0);
  return compare.load(std::memory_order_relaxed)(a, b);
}

}  // namespace tmh::page
