// levels/page/shared/lines.cpp -- comparison by the widest vectors that the processor has: which
// lines of a hot page differ takes 40 ns by AVX2, 130 by SSE2 and 500 word by word; which words of
// them, for the redo log, 130, 220 and 530.
// Tried:     copying 64 lines by AVX2 takes as long as by what the compiler makes of memcpy().
#include "levels/page/shared/lines.h"

#include <immintrin.h>

#include <atomic>
#include <bit>

#include "platform/assert.h"

namespace tmh::page {

namespace {

struct Comparison {
  LineMask (*lines)(const std::byte *a, const std::byte *b) noexcept;
  void (*words)(const std::byte *a, const std::byte *b, LineMask lines,
                std::uint8_t *words) noexcept;
};

__attribute__((target("avx2"))) inline __m256i difference_avx2(const std::byte *a,
                                                               const std::byte *b) noexcept {
  const auto *x = reinterpret_cast<const __m256i *>(a);
  const auto *y = reinterpret_cast<const __m256i *>(b);
  return _mm256_or_si256(_mm256_xor_si256(_mm256_load_si256(x), _mm256_load_si256(y)),
                         _mm256_xor_si256(_mm256_load_si256(x + 1), _mm256_load_si256(y + 1)));
}

// Mostly one line of a page differs: four together take one branch.
__attribute__((target("avx2"))) LineMask differing_avx2(const std::byte *a,
                                                        const std::byte *b) noexcept {
  LineMask mask = 0;
  for (std::size_t line = 0; line < storage::kLinesPerPage; line += 4) {
    const std::byte *x = a + line * kLineBytes, *y = b + line * kLineBytes;
    const __m256i first = difference_avx2(x, y);
    const __m256i second = difference_avx2(x + kLineBytes, y + kLineBytes);
    const __m256i third = difference_avx2(x + 2 * kLineBytes, y + 2 * kLineBytes);
    const __m256i fourth = difference_avx2(x + 3 * kLineBytes, y + 3 * kLineBytes);
    const __m256i any =
        _mm256_or_si256(_mm256_or_si256(first, second), _mm256_or_si256(third, fourth));
    if (_mm256_testz_si256(any, any) != 0) continue;
    const auto four = static_cast<LineMask>(_mm256_testz_si256(first, first) == 0) |
                      static_cast<LineMask>(_mm256_testz_si256(second, second) == 0) << 1 |
                      static_cast<LineMask>(_mm256_testz_si256(third, third) == 0) << 2 |
                      static_cast<LineMask>(_mm256_testz_si256(fourth, fourth) == 0) << 3;
    mask |= four << line;
  }
  return mask;
}

__attribute__((target("avx2"))) void words_avx2(const std::byte *a, const std::byte *b,
                                                LineMask lines, std::uint8_t *words) noexcept {
  for (; lines != 0; lines &= lines - 1) {
    const auto line = static_cast<std::size_t>(std::countr_zero(lines));
    const auto *x = reinterpret_cast<const __m256i *>(a + line * kLineBytes);
    const auto *y = reinterpret_cast<const __m256i *>(b + line * kLineBytes);
    const __m256i low = _mm256_cmpeq_epi64(_mm256_load_si256(x), _mm256_load_si256(y));
    const __m256i high = _mm256_cmpeq_epi64(_mm256_load_si256(x + 1), _mm256_load_si256(y + 1));
    const auto same = static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
                                            _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4);
    words[line] = static_cast<std::uint8_t>(~same);
  }
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

// SSE2 compares 4 bytes; a word is the same where both of its halves are.
void words_sse2(const std::byte *a, const std::byte *b, LineMask lines,
                std::uint8_t *words) noexcept {
  for (; lines != 0; lines &= lines - 1) {
    const auto line = static_cast<std::size_t>(std::countr_zero(lines));
    const auto *x = reinterpret_cast<const __m128i *>(a + line * kLineBytes);
    const auto *y = reinterpret_cast<const __m128i *>(b + line * kLineBytes);
    unsigned same = 0;
    for (int i = 0; i < 4; ++i) {
      const __m128i half = _mm_cmpeq_epi32(_mm_load_si128(x + i), _mm_load_si128(y + i));
      const __m128i both = _mm_and_si128(half, _mm_shuffle_epi32(half, _MM_SHUFFLE(2, 3, 0, 1)));
      same |= static_cast<unsigned>(_mm_movemask_pd(_mm_castsi128_pd(both))) << (2 * i);
    }
    words[line] = static_cast<std::uint8_t>(~same);
  }
}

LineMask differing_by_words(const std::byte *a, const std::byte *b) noexcept {
  LineMask mask = 0;
  for (std::size_t line = 0; line < storage::kLinesPerPage; ++line)
    mask |=
        static_cast<LineMask>(differing_words(a + line * kLineBytes, b + line * kLineBytes) != 0)
        << line;
  return mask;
}

void words_by_words(const std::byte *a, const std::byte *b, LineMask lines,
                    std::uint8_t *words) noexcept {
  for (; lines != 0; lines &= lines - 1) {
    const auto line = static_cast<std::size_t>(std::countr_zero(lines));
    words[line] = differing_words(a + line * kLineBytes, b + line * kLineBytes);
  }
}

constexpr Comparison kAvx2{differing_avx2, words_avx2};
constexpr Comparison kSse2{differing_sse2, words_sse2};
constexpr Comparison kByWords{differing_by_words, words_by_words};

// One of the pages may be home, and have been level 1's in this process until another process
// recalled it, or be so again when another one has released it. That orders the accesses, but
// ThreadSanitizer knows only what this process does.
#ifdef __SANITIZE_THREAD__
constexpr bool kAtomicOnly = true;
#else
constexpr bool kAtomicOnly = false;
#endif

const Comparison &choose() noexcept;
// The first call chooses. No ifunc: resolvers run before relocations are done, and instrumented
// builds have none.
constexpr Comparison kNotChosen{
    [](const std::byte *a, const std::byte *b) noexcept { return choose().lines(a, b); },
    [](const std::byte *a, const std::byte *b, LineMask lines, std::uint8_t *words) noexcept {
      choose().words(a, b, lines, words);
    }};
// constinit: constructors of a program's static objects, which may run instances, come before a
// static library's. relaxed: all choose the same.
constinit std::atomic<const Comparison *> comparison{&kNotChosen};
const Comparison &choose() noexcept {
  const Comparison &chosen = kAtomicOnly                      ? kByWords
                             : __builtin_cpu_supports("avx2") ? kAvx2
                                                              : kSse2;
  comparison.store(&chosen, std::memory_order_relaxed);
  return chosen;
}

}  // namespace

LineMask differing_lines(const std::byte *a, const std::byte *b) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(a) % kLineBytes == 0);
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(b) % kLineBytes == 0);
  return comparison.load(std::memory_order_relaxed)->lines(a, b);
}

void differing_words(const std::byte *a, const std::byte *b, LineMask lines,
                     std::uint8_t *words) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(a) % kLineBytes == 0);
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(b) % kLineBytes == 0);
  comparison.load(std::memory_order_relaxed)->words(a, b, lines, words);
}

void use_vectors(bool use) noexcept {
  comparison.store(use ? &kNotChosen : &kByWords, std::memory_order_relaxed);
}

}  // namespace tmh::page
