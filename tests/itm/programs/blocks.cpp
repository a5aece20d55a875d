// tests/itm/programs/blocks.cpp -- memcpy, memmove and memset in transactions: the ABI's forms
// by their names, and what the compiler makes of the C functions.
// Shape:     before a form is called, the transaction has written and read both blocks, so that
//            "after a read" and "after a write" are true.
// Invariant: each transaction stores something itself. One that only calls the ABI's functions has
//            nothing to do for GCC, which leaves its begin and commit out.
#include <cstdio>
#include <cstring>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

constexpr std::size_t kBytes = 512;
constexpr std::size_t kSizes[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 127, 200};
constexpr std::size_t kOffsets[] = {0, 1, 7, 60, 63};
// Where the destination of a move begins, seen from its source.
constexpr int kDistances[] = {0, 1, -1, 8, -8, 13, -13, 64, -64, 100, -100};

alignas(64) unsigned char from[kBytes];
alignas(64) unsigned char to[kBytes];
long word;
long other_word;

using BlockCopy [[gnu::transaction_pure]] = void (*)(void *, const void *, std::size_t);
using BlockSet [[gnu::transaction_pure]] = void (*)(void *, int, std::size_t);
struct Form {
  BlockCopy call;
  bool plain_source;
  bool plain_target;
};
#define FORMS(KIND)                                                                   \
  {                                                                                   \
    {_ITM_##KIND##RnWt, true, false}, {_ITM_##KIND##RnWtaR, true, false},             \
        {_ITM_##KIND##RnWtaW, true, false}, {_ITM_##KIND##RtWn, false, true},         \
        {_ITM_##KIND##RtWt, false, false}, {_ITM_##KIND##RtWtaR, false, false},       \
        {_ITM_##KIND##RtWtaW, false, false}, {_ITM_##KIND##RtaRWn, false, true},      \
        {_ITM_##KIND##RtaRWt, false, false}, {_ITM_##KIND##RtaRWtaR, false, false},   \
        {_ITM_##KIND##RtaRWtaW, false, false}, {_ITM_##KIND##RtaWWn, false, true},    \
        {_ITM_##KIND##RtaWWt, false, false}, {_ITM_##KIND##RtaWWtaR, false, false}, { \
      _ITM_##KIND##RtaWWtaW, false, false                                             \
    }                                                                                 \
  }
const Form copies[] = FORMS(memcpy);
const Form moves[] = FORMS(memmove);
const BlockSet sets[] = {_ITM_memsetW, _ITM_memsetWaR, _ITM_memsetWaW};

unsigned char pattern(std::size_t i, int salt) {
  return static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(salt));
}

void fill(unsigned char *block, int salt) {
  for (std::size_t i = 0; i < kBytes; ++i) block[i] = pattern(i, salt);
}

// One call in a transaction of its own, which has written and read both blocks.
void run_form(BlockCopy call, void *target, const void *source, std::size_t bytes) {
  unsigned char from_seen[kBytes];
  unsigned char to_seen[kBytes];
  fill(from_seen, 1);
  fill(to_seen, 2);
  __transaction_atomic {
    _ITM_memcpyRnWt(from, from_seen, kBytes);
    _ITM_memcpyRnWt(to, to_seen, kBytes);
    _ITM_memcpyRtaWWn(from_seen, from, kBytes);
    _ITM_memcpyRtaWWn(to_seen, to, kBytes);
    call(target, source, bytes);
    itm::put(&word, 1);
  }
}

void run_and_cancel(BlockCopy call, void *target, const void *source, std::size_t bytes) {
  __transaction_atomic {
    itm::put(&word, 1);
    call(target, source, bytes);
    __transaction_cancel;
  }
}

bool differs(const unsigned char *block, const unsigned char *expected) {
  return std::memcmp(block, expected, kBytes) != 0;
}

// Every form, size and pair of offsets, between two blocks that do not overlap.
int wrong_copies(const Form *forms, int count) {
  int wrong = 0;
  for (int form = 0; form < count; ++form) {
    for (const std::size_t bytes : kSizes) {
      for (const std::size_t source_at : kOffsets) {
        for (const std::size_t target_at : kOffsets) {
          unsigned char plain_source[kBytes];
          unsigned char plain_target[kBytes];
          unsigned char expected[kBytes];
          fill(plain_source, 1);
          fill(plain_target, 2);
          fill(expected, 2);
          std::memcpy(expected + target_at, plain_source + source_at, bytes);
          unsigned char *const target = forms[form].plain_target ? plain_target : to;
          const unsigned char *const source = forms[form].plain_source ? plain_source : from;
          run_form(forms[form].call, target + target_at, source + source_at, bytes);
          wrong += differs(target, expected);
        }
      }
    }
  }
  return wrong;
}

struct Big {
  char bytes[300];
};
Big big_one;
Big big_two;

}  // namespace

ITM_PROGRAM(blocks_memcpy_in_each_form, "0 wrong") {
  return itm::say(wrong_copies(copies, 15), "wrong");
}

ITM_PROGRAM(blocks_memmove_in_each_form, "0 wrong") {
  return itm::say(wrong_copies(moves, 15), "wrong");
}

ITM_PROGRAM(blocks_memmove_that_overlaps, "0 wrong") {
  int wrong = 0;
  for (const Form &form : moves) {
    if (form.plain_source || form.plain_target) continue;
    for (const std::size_t bytes : kSizes) {
      for (const int distance : kDistances) {
        unsigned char expected[kBytes];
        fill(expected, 1);
        std::memmove(expected + 150 + distance, expected + 150, bytes);
        run_form(form.call, from + 150 + distance, from + 150, bytes);
        wrong += differs(from, expected);
      }
    }
  }
  return itm::say(wrong, "wrong");
}

ITM_PROGRAM(blocks_memset_in_each_form, "0 wrong") {
  int wrong = 0;
  for (const BlockSet set : sets) {
    for (const std::size_t bytes : kSizes) {
      for (const std::size_t at : kOffsets) {
        unsigned char expected[kBytes];
        unsigned char seen[kBytes];
        fill(expected, 2);
        std::memcpy(seen, expected, kBytes);
        std::memset(expected + at, 0x1aa, bytes);
        __transaction_atomic {
          _ITM_memcpyRnWt(to, seen, kBytes);
          _ITM_memcpyRtaWWn(seen, to, kBytes);
          set(to + at, 0x1aa, bytes);
          itm::put(&word, 1);
        }
        wrong += differs(to, expected);
      }
    }
  }
  return itm::say(wrong, "wrong");
}

ITM_PROGRAM(blocks_that_are_cancelled, "0 wrong") {
  // The forms that promise no earlier store.
  static constexpr BlockCopy kForms[] = {_ITM_memcpyRnWt,   _ITM_memcpyRtWt,  _ITM_memcpyRtWtaR,
                                         _ITM_memcpyRtaRWt, _ITM_memmoveRnWt, _ITM_memmoveRtWt,
                                         _ITM_memmoveRtWtaR};
  int wrong = 0;
  for (const BlockCopy form : kForms) {
    for (const std::size_t bytes : kSizes) {
      for (const std::size_t at : kOffsets) {
        unsigned char source[kBytes];
        unsigned char expected[kBytes];
        fill(source, 9);
        fill(to, 2);
        fill(expected, 2);
        run_and_cancel(form, to + at, source + 3, bytes);
        wrong += differs(to, expected);
      }
    }
  }
  return itm::say(wrong + word, "wrong");
}

ITM_PROGRAM(blocks_moved_over_themselves_and_cancelled, "0 wrong") {
  int wrong = 0;
  for (const int distance : kDistances) {
    unsigned char expected[kBytes];
    fill(from, 1);
    fill(expected, 1);
    run_and_cancel(_ITM_memmoveRtWt, from + 150 + distance, from + 150, 200);
    wrong += differs(from, expected);
  }
  return itm::say(wrong, "wrong");
}

ITM_PROGRAM(blocks_set_and_cancelled, "0 wrong") {
  int wrong = 0;
  for (const std::size_t bytes : kSizes) {
    unsigned char expected[kBytes];
    fill(to, 1);
    fill(expected, 1);
    __transaction_atomic {
      _ITM_memsetW(to + 5, 0, bytes);
      itm::put(&word, 1);
      __transaction_cancel;
    }
    wrong += differs(to, expected);
  }
  return itm::say(wrong, "wrong");
}

ITM_PROGRAM(blocks_of_no_bytes, "3 0") {
  // Nothing is read or written there, not even a null pointer.
  static void *none = nullptr;
  word = 3;
  __transaction_atomic {
    _ITM_memcpyRtWt(to + 1, from, 0);
    _ITM_memmoveRtWt(none, none, 0);
    _ITM_memsetW(to + 64, 5, 0);
    itm::put(&word, word);
  }
  return itm::say(word, itm::number(to[1]));
}

ITM_PROGRAM(blocks_by_the_c_functions, "abcabcxxxx") {
  static char text[32] = "abcdefghij";
  static char copy[32];
  static volatile std::size_t three = 3;
  const std::size_t bytes = three;
  __transaction_atomic {
    std::memcpy(copy, text, bytes + 7);
    std::memmove(copy + bytes, copy, bytes);
    std::memset(copy + 2 * bytes, 'x', bytes + 1);
  }
  return copy;
}

ITM_PROGRAM(blocks_after_word_stores, "7 8 7 8") {
  static long one[2];
  static long two[2];
  __transaction_atomic {
    itm::put(&one[0], 7);
    itm::put(&one[1], 8);
    _ITM_memcpyRtWt(two, one, sizeof one);
    itm::put(&word, 1);
  }
  return itm::say(one[0], one[1], two[0], two[1]);
}

ITM_PROGRAM(blocks_before_word_loads, "0 72340172838076673") {
  static long cells[4];
  long seen = 0;
  __transaction_atomic {
    _ITM_memsetW(reinterpret_cast<char *>(cells) + 8, 1, 16);
    seen = cells[1];
    itm::put(&word, cells[0]);
  }
  return itm::say(word, seen);
}

ITM_PROGRAM(blocks_over_part_of_a_stored_word, "11aaaa4433221100") {
  // A store of 8 bytes, a block over two of them, a store of 2 over others.
  static std::uint64_t cell;
  __transaction_atomic {
    _ITM_WU8(&cell, 0x7766554433221100);
    _ITM_memsetW(reinterpret_cast<char *>(&cell) + 5, 0xaa, 2);
    _ITM_WU1(reinterpret_cast<std::uint8_t *>(&cell) + 7, 0x11);
    itm::put(&word, 1);
  }
  char text[32];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(cell));
  return text;
}

ITM_PROGRAM(blocks_from_and_to_the_stack, "45 45") {
  char local[10];
  for (int i = 0; i < 10; ++i) local[i] = static_cast<char>(i);
  char back[10] = {};
  __transaction_atomic {
    _ITM_memcpyRtWt(to + 63, local, sizeof local);
    _ITM_memcpyRtWt(back, to + 63, sizeof back);
    itm::put(&word, 1);
  }
  int shared_sum = 0;
  int local_sum = 0;
  for (int i = 0; i < 10; ++i) shared_sum += to[63 + i], local_sum += back[i];
  return itm::say(shared_sum, local_sum);
}

ITM_PROGRAM(blocks_of_structs, "300 0") {
  std::memset(&big_one, 1, sizeof big_one);
  __transaction_atomic { big_two = big_one; }
  int sum = 0;
  for (const char each : big_two.bytes) sum += each;
  std::memset(&big_one, 2, sizeof big_one);
  __transaction_atomic {
    big_two = big_one;
    itm::put(&word, 1);
    __transaction_cancel;
  }
  int changed = 0;
  for (const char each : big_two.bytes) changed += each != 1;
  return itm::say(sum, changed);
}

ITM_PROGRAM(blocks_of_a_megabyte, "0 0 1048576") {
  constexpr std::size_t kMegabyte = 1 << 20;
  static unsigned char source[kMegabyte + 3];
  static unsigned char target[kMegabyte + 3];
  for (std::size_t i = 0; i < kMegabyte; ++i) source[i] = pattern(i, 3);
  __transaction_atomic {
    _ITM_memcpyRtWt(target + 3, source, kMegabyte);
    itm::put(&word, 1);
    __transaction_cancel;
  }
  long changed = 0;
  for (const unsigned char each : target) changed += each != 0;
  __transaction_atomic {
    _ITM_memcpyRtWt(target + 3, source, kMegabyte);
    itm::put(&word, 0);
  }
  long copied = 0;
  for (std::size_t i = 0; i < kMegabyte; ++i) copied += target[i + 3] == source[i];
  return itm::say(changed, word, copied);
}

ITM_PROGRAM(blocks_are_not_torn, "0 torn") {
  // One thread fills a block with one byte after another; the other copies it.
  std::thread writer([] {
    for (int round = 0; round < 3000; ++round) {
      __transaction_atomic {
        _ITM_memsetW(to, round, kBytes);
        itm::put(&word, round);
      }
    }
    itm::tell(0);
  });
  int torn = 0;
  while (itm::told(0) == 0) {
    unsigned char copy[kBytes];
    __transaction_atomic {
      _ITM_memcpyRtWn(copy, to, kBytes);
      itm::put(&other_word, 1);
    }
    for (const unsigned char each : copy) torn += each != copy[0];
  }
  writer.join();
  return itm::say(torn, "torn");
}
