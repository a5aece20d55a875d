// tests/itm/programs/vectors.cpp -- loads and stores of 8, 16 and 32 bytes in vector registers.
// Contexts:  only the functions between push_options and pop_options are code for AVX; a processor
//            without it says what one with it finds.
#include <immintrin.h>

#include <cstring>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

alignas(64) unsigned char room[192];
long word;

struct Bytes {
  unsigned char byte[32];
};

Bytes pattern(int salt) {
  Bytes bytes;
  for (int i = 0; i < 32; ++i) bytes.byte[i] = static_cast<unsigned char>(i * 5 + salt);
  return bytes;
}

}  // namespace

// The same as ITM_TYPE_PROGRAM in types.cpp, at places that are aligned for the type.
#define ITM_VECTOR_BODY(V, NAME, logged)                              \
  int wrong = 0;                                                      \
  for (const int at : {0, 32, 64}) {                                  \
    V *const place = reinterpret_cast<V *>(room + at);                \
    V one, two, loaded[4];                                            \
    const Bytes first = pattern(1);                                   \
    const Bytes second = pattern(2);                                  \
    std::memcpy(&one, &first, sizeof one);                            \
    std::memcpy(&two, &second, sizeof two);                           \
    __transaction_atomic {                                            \
      _ITM_W##NAME(place, one);                                       \
      loaded[0] = _ITM_R##NAME(place);                                \
      _ITM_WaR##NAME(place, two);                                     \
      loaded[1] = _ITM_RaR##NAME(place);                              \
      _ITM_WaW##NAME(place, one);                                     \
      loaded[2] = _ITM_RaW##NAME(place);                              \
      _ITM_W##NAME(place, two);                                       \
      loaded[3] = _ITM_RfW##NAME(place);                              \
      itm::put(&word, at);                                            \
    }                                                                 \
    wrong += std::memcmp(place, &two, sizeof(V)) != 0;                \
    __transaction_atomic {                                            \
      _ITM_W##NAME(place, one);                                       \
      itm::put(&word, -1);                                            \
      __transaction_cancel;                                           \
    }                                                                 \
    wrong += std::memcmp(place, &two, sizeof(V)) != 0 || word != at;  \
    V local = one;                                                    \
    V *const local_place = &local;                                    \
    asm volatile("" : : "r"(local_place) : "memory");                 \
    __transaction_atomic {                                            \
      logged(local_place);                                            \
      clear(local_place, sizeof(V));                                  \
      itm::put(&word, -1);                                            \
      __transaction_cancel;                                           \
    }                                                                 \
    wrong += std::memcmp(local_place, &one, sizeof(V)) != 0;          \
    const V expected[] = {one, two, one, two};                        \
    for (int i = 0; i < 4; ++i) {                                     \
      wrong += std::memcmp(&loaded[i], &expected[i], sizeof(V)) != 0; \
    }                                                                 \
  }                                                                   \
  return wrong

namespace {

// A plain store that the compiler does not instrument.
ITM_PURE [[gnu::noinline]] void clear(void *place, std::size_t bytes) {
  volatile unsigned char *const to = static_cast<volatile unsigned char *>(place);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = 0;
}

[[gnu::noinline]] int wrong_of_8_bytes() { ITM_VECTOR_BODY(__m64, M64, _ITM_LM64); }

[[gnu::noinline]] int wrong_of_16_bytes() { ITM_VECTOR_BODY(__m128, M128, _ITM_LM128); }

}  // namespace

#pragma GCC push_options
#pragma GCC target("avx")

extern "C" {
ITM_BARRIERS(__m256, M256)
}

namespace {

[[gnu::noinline]] int wrong_of_32_bytes() { ITM_VECTOR_BODY(__m256, M256, _ITM_LM256); }

alignas(32) float eight[8];

// Live vector registers across the begin: the upper halves are the compiler's to save.
[[gnu::noinline]] int wrong_around_a_begin() {
  const __m256 before = _mm256_set_ps(8, 7, 6, 5, 4, 3, 2, 1);
  __m256 live = before;
  asm volatile("" : "+x"(live));
  __transaction_atomic { itm::put(&word, word + 1); }
  _mm256_store_ps(eight, _mm256_add_ps(live, live));
  int wrong = 0;
  for (int i = 0; i < 8; ++i) wrong += eight[i] != static_cast<float>(2 * (i + 1));
  return wrong;
}

}  // namespace

#pragma GCC pop_options

ITM_PROGRAM(vectors_of_8_bytes, "0 wrong") {
  const int wrong = wrong_of_8_bytes();
  _mm_empty();
  return itm::say(wrong, "wrong");
}

ITM_PROGRAM(vectors_of_16_bytes, "0 wrong") { return itm::say(wrong_of_16_bytes(), "wrong"); }

ITM_PROGRAM(vectors_of_32_bytes, "0 wrong") {
  return itm::say(__builtin_cpu_supports("avx") ? wrong_of_32_bytes() : 0, "wrong");
}

ITM_PROGRAM(vectors_live_around_a_begin, "0 wrong") {
  return itm::say(__builtin_cpu_supports("avx") ? wrong_around_a_begin() : 0, "wrong");
}
