// compat/libitm/barriers.cpp -- loads, stores and logs of locals, of each type of the ABI.
// Shape:     a load or store of one word takes the short way of level 1, inline; everything else is
//            a block of bytes. The forms (after a read, after a write, for a write) are one: level
//            1 looks at the line once in either case.
#include <immintrin.h>

#include <atomic>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#include "compat/libitm/thread.h"
#include "levels/line/process_lines.h"

namespace tmh::itm {

namespace {

template <class T, class LongWay>
[[gnu::always_inline]] inline T load_by(detail::LineAccess &access, const T *from,
                                        const LongWay &long_way) {
  return detail::line_load_by<line::ProcessLines>(access, from, long_way);
}

// By reference: a vector of 32 bytes is returned only by code for AVX.
template <class T>
[[gnu::always_inline]] inline void load(const T *from, T &value) {
  TMH_ASSERT(this_thread != nullptr);
  Accesses &accesses = this_thread->accesses;
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  if constexpr (detail::kIsLineWord<T>) {
    using Word = detail::UnsignedOf<sizeof(T)>;
    const auto long_way = [&] { return static_cast<Word>(accesses.load(at, sizeof(T))); };
    value = std::bit_cast<T>(
        at % sizeof(T) == 0
            ? load_by(accesses.level_1(), reinterpret_cast<const Word *>(from), long_way)
            : long_way());
    return;
  } else if constexpr (sizeof(T) <= 16) {
    if (at % kLineBytes <= kLineBytes - sizeof(T)) [[likely]] {
      value = load_by(accesses.level_1(), from, [&] {
        T block;
        accesses.load_block(&block, at, sizeof block);
        return block;
      });
      return;
    }
  }
  accesses.load_block(&value, at, sizeof value);
}

// What other threads see of it they see behind the lock of its line: x86 keeps the order of stores,
// and the compiler must.
template <class T>
[[gnu::always_inline]] inline void store_in_place(std::uintptr_t at, const T &value) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(reinterpret_cast<void *>(at), &value, sizeof value);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

template <class T>
[[gnu::noinline]] void store_elsewhere(Accesses &accesses, std::uintptr_t at,
                                       std::conditional_t<(sizeof(T) > 16), const T &, T> value) {
  using Place = Accesses::Place;
  const Place place = at % kLineBytes <= kLineBytes - sizeof(T)
                          ? accesses.place_of_store(at, sizeof(T))
                          : Place::kAnywhere;
  if (place == Place::kAnywhere) [[unlikely]]
    return accesses.store(at, &value, sizeof value);
  if (place == Place::kNewestLine) accesses.level_1().keep(at, sizeof value);
  store_in_place(at, value);
}

template <class T>
[[gnu::always_inline]] inline void store(T *to, const T &value) {
  static_assert(sizeof(T) <= kLineBytes);
  TMH_ASSERT(this_thread != nullptr);
  Accesses &accesses = this_thread->accesses;
  const auto at = reinterpret_cast<std::uintptr_t>(to);
  if (at - accesses.level_1().newest > kLineBytes - sizeof(T)) [[unlikely]]
    return store_elsewhere<T>(accesses, at, value);
  accesses.level_1().keep(at, sizeof(T));
  store_in_place(at, value);
}

}  // namespace

}  // namespace tmh::itm

// C's types, as the compiled code passes them.
__extension__ using ComplexFloat = _Complex float;
__extension__ using ComplexDouble = _Complex double;
__extension__ using ComplexLongDouble = _Complex long double;

using tmh::itm::load;
using tmh::itm::store;
using tmh::itm::this_thread;

#define TMH_ITM_LOAD(NAME, TYPE, TARGET)                                         \
  [[gnu::flatten, gnu::aligned(64)]] TARGET TYPE _ITM_##NAME(const TYPE *from) { \
    TYPE value;                                                                  \
    load(from, value);                                                           \
    return value;                                                                \
  }
#define TMH_ITM_STORE(NAME, TYPE, TARGET) \
  [[gnu::aligned(64)]] TARGET void _ITM_##NAME(TYPE *to, TYPE value) { store(to, value); }
#define TMH_ITM_BARRIERS(NAME, TYPE, TARGET)                                    \
  extern "C" {                                                                  \
  TMH_ITM_LOAD(R##NAME, TYPE, TARGET)                                           \
  TMH_ITM_LOAD(RaR##NAME, TYPE, TARGET)                                         \
  TMH_ITM_LOAD(RaW##NAME, TYPE, TARGET)                                         \
  TMH_ITM_LOAD(RfW##NAME, TYPE, TARGET)                                         \
  TMH_ITM_STORE(W##NAME, TYPE, TARGET)                                          \
  TMH_ITM_STORE(WaR##NAME, TYPE, TARGET)                                        \
  TMH_ITM_STORE(WaW##NAME, TYPE, TARGET)                                        \
  void _ITM_L##NAME(const TYPE *at) { this_thread->log_local(at, sizeof *at); } \
  }

TMH_ITM_BARRIERS(U1, std::uint8_t, )
TMH_ITM_BARRIERS(U2, std::uint16_t, )
TMH_ITM_BARRIERS(U4, std::uint32_t, )
TMH_ITM_BARRIERS(U8, std::uint64_t, )
TMH_ITM_BARRIERS(F, float, )
TMH_ITM_BARRIERS(D, double, )
TMH_ITM_BARRIERS(E, long double, )
TMH_ITM_BARRIERS(M64, __m64, )
TMH_ITM_BARRIERS(M128, __m128, )
TMH_ITM_BARRIERS(M256, __m256, __attribute__((target("avx"))))
TMH_ITM_BARRIERS(CF, ComplexFloat, )
TMH_ITM_BARRIERS(CD, ComplexDouble, )
TMH_ITM_BARRIERS(CE, ComplexLongDouble, )

extern "C" void _ITM_LB(const void *at, std::size_t bytes) { this_thread->log_local(at, bytes); }
