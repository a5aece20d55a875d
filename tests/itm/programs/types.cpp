// tests/itm/programs/types.cpp -- loads and stores of every type, by the ABI's own names and as the
// compiler makes them: aligned, unaligned, across a line of 64 bytes, in structs without padding.
#include <cstdio>
#include <cstring>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

_Complex float complex_of(float real, float imaginary) {
  _Complex float value;
  __real__ value = real;
  __imag__ value = imaginary;
  return value;
}

_Complex double complex_of(double real, double imaginary) {
  _Complex double value;
  __real__ value = real;
  __imag__ value = imaginary;
  return value;
}

_Complex long double complex_of(long double real, long double imaginary) {
  _Complex long double value;
  __real__ value = real;
  __imag__ value = imaginary;
  return value;
}

// Room for the widest type at the last byte of a line.
alignas(64) unsigned char room[192];
long word;

struct [[gnu::packed]] Packed {
  char first;
  short u2;
  int u4;
  long u8;
  float f;
  double d;
  char last;
};
Packed packed[8];

struct Bits {
  unsigned low : 3;
  unsigned middle : 13;
  unsigned high : 16;
};
Bits bits;

enum class Colour : unsigned char { kRed = 1, kBlue = 9 };
Colour colour;
bool truth;
_Complex float complex_float;
_Complex double complex_double;
_Complex long double complex_long_double;
long double long_double;
using Four = float __attribute__((vector_size(16)));
Four four;
__int128 wide;

}  // namespace

// One program of a type: what each form of the load says of each form of the store, at an aligned
// place, at an odd one, and across two lines; then a cancel. `wrong` counts the answers.
// A macro: GCC 12 loses a cancel in a template. Bytes of padding are not compared.
#define ITM_TYPE_PROGRAM(name, T, NAME, value_bytes, first, second)                 \
  ITM_PROGRAM(name, "0 wrong") {                                                    \
    int wrong = 0;                                                                  \
    const T one = first;                                                            \
    const T two = second;                                                           \
    for (const int at : {0, 16, 1, 57, 61, 63}) {                                   \
      T *const place = reinterpret_cast<T *>(room + at);                            \
      T loaded[7];                                                                  \
      __transaction_atomic {                                                        \
        _ITM_W##NAME(place, one);                                                   \
        loaded[0] = _ITM_R##NAME(place);                                            \
        _ITM_WaR##NAME(place, two);                                                 \
        loaded[1] = _ITM_RaR##NAME(place);                                          \
        _ITM_WaW##NAME(place, one);                                                 \
        loaded[2] = _ITM_RaW##NAME(place);                                          \
        _ITM_W##NAME(place, two);                                                   \
        loaded[3] = _ITM_RfW##NAME(place);                                          \
        itm::put(&word, at);                                                        \
      }                                                                             \
      std::memcpy(&loaded[4], place, sizeof(T));                                    \
      __transaction_atomic {                                                        \
        loaded[5] = _ITM_R##NAME(place);                                            \
        _ITM_W##NAME(place, one);                                                   \
        itm::put(&word, -1);                                                        \
        __transaction_cancel;                                                       \
      }                                                                             \
      std::memcpy(&loaded[6], place, sizeof(T));                                    \
      const T expected[] = {one, two, one, two, two, two, two};                     \
      for (int i = 0; i < 7; ++i) {                                                 \
        wrong += i != 5 && std::memcmp(&loaded[i], &expected[i], value_bytes) != 0; \
      }                                                                             \
      wrong += word != at;                                                          \
    }                                                                               \
    return itm::say(wrong, "wrong");                                                \
  }

ITM_TYPE_PROGRAM(types_u1, std::uint8_t, U1, 1, 0x12, 0xfe)
ITM_TYPE_PROGRAM(types_u2, std::uint16_t, U2, 2, 0x1234, 0xfedc)
ITM_TYPE_PROGRAM(types_u4, std::uint32_t, U4, 4, 0x12345678, 0xfedcba98)
ITM_TYPE_PROGRAM(types_u8, std::uint64_t, U8, 8, 0x123456789abcdef0, 0xfedcba9876543210)
ITM_TYPE_PROGRAM(types_float, float, F, 4, 1.25F, -3.5e30F)
ITM_TYPE_PROGRAM(types_double, double, D, 8, 1.25, -3.5e300)
ITM_TYPE_PROGRAM(types_long_double, long double, E, 10, 1.25L, -3.5e3000L)
ITM_TYPE_PROGRAM(types_complex_float, _Complex float, CF, 8, (complex_of(1.5F, 2.5F)),
                 (complex_of(-7.5F, 9.0F)))
ITM_TYPE_PROGRAM(types_complex_double, _Complex double, CD, 16, (complex_of(1.5, 2.5)),
                 (complex_of(-7.5, 9.0)))

ITM_PROGRAM(types_complex_long_double, "1.5 2.5 -7.5 9 -7.5 9") {
  _Complex long double *const place = reinterpret_cast<_Complex long double *>(room + 48);
  _Complex long double loaded[2];
  __transaction_atomic {
    _ITM_WCE(place, complex_of(1.5L, 2.5L));
    loaded[0] = _ITM_RCE(place);
    _ITM_WaRCE(place, complex_of(-7.5L, 9.0L));
    loaded[1] = _ITM_RaWCE(place);
    itm::put(&word, 1);
  }
  __transaction_atomic {
    _ITM_WCE(place, complex_of(0.5L, 0.5L));
    itm::put(&word, 2);
    __transaction_cancel;
  }
  return itm::say(__real__ loaded[0], __imag__ loaded[0], __real__ loaded[1], __imag__ loaded[1],
                  __real__ * place, __imag__ * place);
}

ITM_PROGRAM(types_for_a_write_then_after_a_write_cancelled, "5") {
  // What GCC emits for x = x + 1; the load for a write has to log.
  static std::uint64_t cell = 5;
  __transaction_atomic {
    const std::uint64_t seen = _ITM_RfWU8(&cell);
    _ITM_WaWU8(&cell, seen + 1);
    itm::put(&word, 1);
    __transaction_cancel;
  }
  return itm::say(cell);
}

ITM_PROGRAM(types_after_a_read_cancelled, "5 6") {
  static std::uint64_t cell = 5;
  static std::uint32_t other = 6;
  __transaction_atomic {
    _ITM_WaRU8(&cell, _ITM_RU8(&cell) + 1);
    _ITM_WaRU4(&other, _ITM_RaRU4(&other) + 1);
    itm::put(&word, 1);
    __transaction_cancel;
  }
  return itm::say(cell, other);
}

ITM_PROGRAM(types_narrow_into_wide, "8877ff5544eebb11") {
  static std::uint64_t cell;
  __transaction_atomic {
    _ITM_WU8(&cell, 0x8877665544332211);
    _ITM_WU1(reinterpret_cast<std::uint8_t *>(&cell) + 5, 0xff);
    _ITM_WU2(reinterpret_cast<std::uint16_t *>(reinterpret_cast<char *>(&cell) + 1), 0xeebb);
    itm::put(&word, 1);
  }
  char text[32];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(cell));
  return text;
}

ITM_PROGRAM(types_wide_from_narrow, "4433221100aa") {
  static std::uint8_t cells[8];
  std::uint64_t seen = 0;
  __transaction_atomic {
    for (int i = 1; i < 6; ++i) _ITM_WU1(&cells[i], static_cast<std::uint8_t>((i - 1) * 0x11));
    _ITM_WU1(&cells[0], 0xaa);
    seen = _ITM_RU8(reinterpret_cast<std::uint64_t *>(cells));
    itm::put(&word, 1);
  }
  char text[32];
  std::snprintf(text, sizeof text, "%lx", static_cast<unsigned long>(seen));
  return text;
}

ITM_PROGRAM(types_neighbours_stay, "1 2 9 4") {
  static std::uint8_t cells[4] = {1, 2, 3, 4};
  __transaction_atomic {
    _ITM_WU1(&cells[2], 9);
    itm::put(&word, 1);
  }
  return itm::say(itm::number(cells[0]), itm::number(cells[1]), itm::number(cells[2]),
                  itm::number(cells[3]));
}

ITM_PROGRAM(types_neighbours_of_two_threads, "50000 50000") {
  // Two threads write bytes of one word.
  static unsigned char bytes_of_both[8];
  const auto work = [](int mine, int count_word) {
    for (int i = 0; i < 50000; ++i) {
      unsigned char seen = 0;
      __transaction_atomic {
        seen = bytes_of_both[mine];
        bytes_of_both[mine] = static_cast<unsigned char>(seen + 1);
      }
      if (seen == static_cast<unsigned char>(i)) itm::tell(count_word);
    }
  };
  std::thread other(work, 3, 1);
  work(4, 2);
  other.join();
  return itm::say(itm::told(1), itm::told(2));
}

ITM_PROGRAM(types_packed_struct, "8 16 24 8 16 24") {
  for (Packed &each : packed) each = {1, 2, 3, 4, 5, 6, 7};
  __transaction_atomic {
    for (Packed &each : packed) {
      each.u2 = static_cast<short>(each.u2 - 1);
      each.u4 = each.u4 - 1;
      each.u8 = each.u8 - 1;
      each.f = each.f - 4;
      each.d = each.d - 4;
      each.last = static_cast<char>(each.last - 4);
    }
  }
  long sums[6] = {};
  for (const Packed &each : packed) {
    sums[0] += each.u2;
    sums[1] += each.u4;
    sums[2] += each.u8;
    sums[3] += static_cast<long>(each.f);
    sums[4] += static_cast<long>(each.d);
    sums[5] += each.last;
  }
  return itm::say(sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]);
}

ITM_PROGRAM(types_packed_struct_cancelled, "1 2 3 4 5 6 7") {
  packed[3] = {1, 2, 3, 4, 5, 6, 7};
  __transaction_atomic {
    packed[3].u2 = 20;
    packed[3].u4 = 30;
    packed[3].u8 = 40;
    packed[3].f = 50;
    packed[3].d = 60;
    packed[3].last = 70;
    packed[3].first = 10;
    __transaction_cancel;
  }
  return itm::say(+packed[3].first, +packed[3].u2, +packed[3].u4, +packed[3].u8, +packed[3].f,
                  +packed[3].d, +packed[3].last);
}

ITM_PROGRAM(types_bit_fields, "5 4000 60000") {
  __transaction_atomic {
    bits.low = 5;
    bits.middle = 4000;
    bits.high = 60000;
  }
  return itm::say(bits.low, bits.middle, bits.high);
}

ITM_PROGRAM(types_small_ones_of_the_language, "9 1 1.5 -2.5 3.25") {
  __transaction_atomic {
    colour = Colour::kBlue;
    truth = true;
    complex_float = complex_of(1.5F, 0.0F);
    complex_double = complex_of(0.0, -2.5);
    complex_long_double = complex_of(3.25L, 1.0L);
  }
  return itm::say(static_cast<int>(colour), truth, __real__ complex_float, __imag__ complex_double,
                  __real__ complex_long_double);
}

ITM_PROGRAM(types_long_double_of_the_language, "6.5 6.5") {
  long_double = 2.5L;
  long double seen = 0;
  __transaction_atomic {
    long_double = long_double + 4;
    seen = long_double;
  }
  return itm::say(long_double, seen);
}

ITM_PROGRAM(types_wide_integer, "1 18446744073709551615") {
  wide = ~static_cast<unsigned __int128>(0) >> 64;
  __transaction_atomic { wide = (wide << 1) + 1; }
  return itm::say(static_cast<unsigned long>(wide >> 64), static_cast<unsigned long>(wide));
}

ITM_PROGRAM(types_vector_of_the_language, "2 4 6 8") {
  four = Four{1, 2, 3, 4};
  __transaction_atomic { four = four + four; }
  return itm::say(four[0], four[1], four[2], four[3]);
}

ITM_PROGRAM(types_vector_of_the_language_cancelled, "1 2 3 4") {
  four = Four{1, 2, 3, 4};
  Four other = Four{9, 9, 9, 9};
  asm volatile("" : "+x"(other));
  __transaction_atomic {
    four = other;
    itm::put(&word, 1);
    __transaction_cancel;
  }
  return itm::say(four[0], four[1], four[2], four[3]);
}
