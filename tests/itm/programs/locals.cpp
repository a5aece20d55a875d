// tests/itm/programs/locals.cpp -- variables on the stack in transactions: their addresses escape,
// frames are gone before the commit, a cancel sets back what lives above the begin.
#include <alloca.h>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long word;
long total;
long *escaped;

[[gnu::transaction_safe, gnu::noinline]] void store_to(long *place, long value) { *place = value; }

[[gnu::transaction_safe, gnu::noinline]] void add_to(long *place, long value) { *place += value; }

[[gnu::transaction_safe, gnu::noinline]] void let_escape(long *place) { escaped = place; }

[[gnu::transaction_safe, gnu::noinline]] void store_to_escaped(long value) { *escaped = value; }

// Writes 4 KB of its own frame with transactional stores, then the frame is gone.
[[gnu::transaction_safe, gnu::noinline]] long use_a_frame(long seed) {
  long frame[512];
  for (int i = 0; i < 512; ++i) store_to(&frame[i], seed + i);
  long all = 0;
  for (const long &each : frame) all += each;
  return all;
}

// Plain frames at the same place as use_a_frame()'s.
[[gnu::transaction_pure, gnu::noinline]] long dirty_the_stack(long value) {
  volatile long frame[768];
  for (volatile long &each : frame) each = value;
  return frame[5];
}

struct Four {
  long a, b, c, d;
};

[[gnu::transaction_safe, gnu::noinline]] void double_it(Four *four) {
  four->a *= 2;
  four->b *= 2;
  four->c *= 2;
  four->d *= 2;
}

[[gnu::transaction_safe, gnu::noinline]] Four doubled(Four four) {
  double_it(&four);
  return four;
}

// Plain stores behind the library's back: the log of a local is all that can set them back.
[[gnu::transaction_pure, gnu::noinline]] void store_plainly(void *place, int byte,
                                                            std::size_t bytes) {
  volatile unsigned char *const to = static_cast<volatile unsigned char *>(place);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(byte);
}

// Logs `bytes` at `place`, stores over them plainly, cancels. Not a template: GCC 12 loses a
// cancel in there.
using LogLocal [[gnu::transaction_pure]] = void (*)(const void *);
[[gnu::noinline]] int logged_is_restored(LogLocal log, void *place, std::size_t bytes) {
  unsigned char before[64];
  __builtin_memcpy(before, place, bytes);
  __transaction_atomic {
    log(place);
    store_plainly(place, 0x11, bytes);
    word = 1;
    __transaction_cancel;
  }
  return __builtin_memcmp(before, place, bytes) == 0;
}

template <typename T>
int logged_is_restored(void (*log)(const T *), T value) {
  T local = value;
  return logged_is_restored(reinterpret_cast<LogLocal>(log), &local, sizeof local);
}

}  // namespace

ITM_PROGRAM(locals_escaped_one_is_written, "7") {
  long local = 1;
  __transaction_atomic {
    let_escape(&local);
    store_to_escaped(7);
  }
  return itm::say(local);
}

ITM_PROGRAM(locals_escaped_one_is_set_back, "1") {
  long local = 1;
  __transaction_atomic {
    let_escape(&local);
    store_to_escaped(7);
    __transaction_cancel;
  }
  return itm::say(local);
}

ITM_PROGRAM(locals_array_is_written, "496") {
  long array[32];
  __transaction_atomic {
    for (long i = 0; i < 32; ++i) store_to(&array[i], i);
  }
  long all = 0;
  for (const long &each : array) all += each;
  return itm::say(all);
}

ITM_PROGRAM(locals_array_is_set_back, "32") {
  long array[32];
  for (long &each : array) each = 1;
  __transaction_atomic {
    for (long i = 0; i < 32; ++i) store_to(&array[i], i + 5);
    __transaction_cancel;
  }
  long all = 0;
  for (const long &each : array) all += each;
  return itm::say(all);
}

ITM_PROGRAM(locals_frame_that_is_gone_is_not_written, "131328 9 9") {
  // use_a_frame()'s frame is gone when the transaction commits; dirty_the_stack() was in its place.
  long seen = 0;
  long mark = 0;
  __transaction_atomic {
    total = use_a_frame(1);
    seen = dirty_the_stack(9);
  }
  mark = dirty_the_stack(9);
  return itm::say(total, seen, mark);
}

ITM_PROGRAM(locals_frame_of_the_commit_is_not_hit, "done") {
  // Gone frames of 300 KB below the begin; commit itself runs in their place.
  struct Deep {
    [[gnu::transaction_safe, gnu::noinline]] static long go(int depth) {
      long local[128];
      for (int i = 0; i < 128; ++i) store_to(&local[i], -1);
      long below = 0;
      if (depth > 0) below = go(depth - 1);
      return below + local[depth % 128];
    }
  };
  for (int round = 0; round < 20; ++round) {
    __transaction_atomic { total = Deep::go(300); }
    if (total != -301) return itm::say(total);
  }
  return "done";
}

ITM_PROGRAM(locals_frame_of_the_abort_is_not_hit, "0 done") {
  struct Deep {
    [[gnu::transaction_safe, gnu::noinline]] static long go(int depth) {
      long local[128];
      for (int i = 0; i < 128; ++i) store_to(&local[i], -1);
      long below = 0;
      if (depth > 0) below = go(depth - 1);
      return below + local[depth % 128];
    }
  };
  for (int round = 0; round < 20; ++round) {
    __transaction_atomic {
      total = Deep::go(300);
      __transaction_cancel;
    }
  }
  return itm::say(total, "done");
}

ITM_PROGRAM(locals_from_alloca, "2016") {
  long *const array = static_cast<long *>(alloca(64 * sizeof(long)));
  __transaction_atomic {
    long all = 0;
    for (long i = 0; i < 64; ++i) store_to(&array[i], i);
    for (long i = 0; i < 64; ++i) all += array[i];
    total = all;
  }
  return itm::say(total);
}

ITM_PROGRAM(locals_struct_through_a_pointer, "2 4 6 8") {
  Four four = {1, 2, 3, 4};
  __transaction_atomic { double_it(&four); }
  return itm::say(four.a, four.b, four.c, four.d);
}

ITM_PROGRAM(locals_struct_set_back, "1 2 3 4") {
  Four four = {1, 2, 3, 4};
  __transaction_atomic {
    double_it(&four);
    word = four.a;
    __transaction_cancel;
  }
  return itm::say(four.a, four.b, four.c, four.d);
}

ITM_PROGRAM(locals_struct_by_value, "2 8 1") {
  Four four = {1, 2, 3, 4};
  Four result = {};
  __transaction_atomic { result = doubled(four); }
  return itm::say(result.a, result.d, four.a);
}

ITM_PROGRAM(locals_of_a_nested_one_set_back, "5 10") {
  long outer = 1;
  long inner = 10;
  __transaction_atomic {
    store_to(&outer, 5);
    __transaction_atomic {
      store_to(&inner, 20);
      __transaction_cancel;
    }
  }
  return itm::say(outer, inner);
}

ITM_PROGRAM(locals_in_a_restart, "11 6") {
  long local = 5;
  itm::Conflict conflict([] {
    __transaction_atomic { word = word + 10; }
  });
  __transaction_atomic {
    add_to(&local, 1);
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, local);
}

ITM_PROGRAM(locals_of_another_thread, "1000 0") {
  // The local of one thread is shared memory for the others.
  long local = 0;
  std::thread adders[2];
  for (std::thread &each : adders) {
    each = std::thread([&local] {
      for (int i = 0; i < 500; ++i) {
        __transaction_atomic { add_to(&local, 1); }
      }
    });
  }
  for (std::thread &each : adders) each.join();
  return itm::say(local, word);
}

ITM_PROGRAM(locals_logged_integers, "1 1 1 1") {
  return itm::say(logged_is_restored<std::uint8_t>(_ITM_LU1, 3),
                  logged_is_restored<std::uint16_t>(_ITM_LU2, 300),
                  logged_is_restored<std::uint32_t>(_ITM_LU4, 300000),
                  logged_is_restored<std::uint64_t>(_ITM_LU8, 0x1234567890));
}

ITM_PROGRAM(locals_logged_floats, "1 1 1 1") {
  return itm::say(logged_is_restored<float>(_ITM_LF, 1.5F),
                  logged_is_restored<double>(_ITM_LD, 2.5),
                  logged_is_restored<_Complex float>(_ITM_LCF, 1.5F),
                  logged_is_restored<_Complex double>(_ITM_LCD, 2.5));
}

ITM_PROGRAM(locals_logged_long_doubles, "3.5 4.5") {
  // By value: 6 of 16 bytes of a long double are padding.
  long double one = 3.5L;
  _Complex long double two = 4.5L;
  long double *const place = &one;
  _Complex long double *const place_of_two = &two;
  __transaction_atomic {
    _ITM_LE(place);
    _ITM_LCE(place_of_two);
    store_plainly(place, 0, sizeof one);
    store_plainly(place_of_two, 0, sizeof two);
    word = 1;
    __transaction_cancel;
  }
  return itm::say(static_cast<double>(one), static_cast<double>(__real__ two));
}

ITM_PROGRAM(locals_logged_vector, "1 2 3 4") {
  alignas(16) float four[4] = {1, 2, 3, 4};
  __transaction_atomic {
    _ITM_LM128(reinterpret_cast<const __m128 *>(four));
    store_plainly(four, 0, sizeof four);
    word = 1;
    __transaction_cancel;
  }
  return itm::say(four[0], four[1], four[2], four[3]);
}

ITM_PROGRAM(locals_logged_bytes, "abcdefghijklmnopqrs") {
  char text[] = "abcdefghijklmnopqrs";
  __transaction_atomic {
    _ITM_LB(text + 1, 17);
    store_plainly(text + 1, 'x', 17);
    word = 1;
    __transaction_cancel;
  }
  return text;
}

ITM_PROGRAM(locals_logged_and_committed, "17") {
  long local = 3;
  __transaction_atomic {
    _ITM_LU8(reinterpret_cast<const std::uint64_t *>(&local));
    store_plainly(&local, 0x11, 1);
    word = 1;
  }
  return itm::say(local);
}

ITM_PROGRAM(locals_logged_twice, "3") {
  // The first log counts: rollback goes from the last to the first.
  long local = 3;
  __transaction_atomic {
    _ITM_LU8(reinterpret_cast<const std::uint64_t *>(&local));
    store_plainly(&local, 1, sizeof local);
    _ITM_LU8(reinterpret_cast<const std::uint64_t *>(&local));
    store_plainly(&local, 2, sizeof local);
    word = 1;
    __transaction_cancel;
  }
  return itm::say(local);
}
