// tests/itm/programs/cancel.cpp -- __transaction_cancel takes every store of its transaction back.
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long word;
long other_word;
long many[10000];

struct Every {
  unsigned char u1;
  unsigned short u2;
  unsigned u4;
  unsigned long u8;
  float f;
  double d;
  long double e;
};
Every every;

[[gnu::transaction_may_cancel_outer, gnu::noinline]] void cancel_when_large(long value) {
  word = value;
  if (value > 3) {
    __transaction_cancel [[outer]];
  }
}

}  // namespace

ITM_PROGRAM(cancel_undoes_a_store, "0") {
  __transaction_atomic {
    word = 5;
    __transaction_cancel;
  }
  return itm::say(word);
}

ITM_PROGRAM(cancel_undoes_the_second_store_too, "3") {
  word = 3;
  __transaction_atomic {
    word = 5;
    itm::look_away();
    word = word + 6;
    __transaction_cancel;
  }
  return itm::say(word);
}

ITM_PROGRAM(cancel_undoes_each_type, "1 2 3 4 5 6 7") {
  every = {1, 2, 3, 4, 5, 6, 7};
  __transaction_atomic {
    every.u1 = 11;
    every.u2 = 12;
    every.u4 = 13;
    every.u8 = 14;
    every.f = 15;
    every.d = 16;
    every.e = 17;
    __transaction_cancel;
  }
  return itm::say(itm::number(every.u1), every.u2, every.u4, every.u8, every.f, every.d, every.e);
}

ITM_PROGRAM(cancel_undoes_many_lines, "0 wrong") {
  for (long i = 0; i < 10000; ++i) many[i] = i;
  __transaction_atomic {
    for (long i = 0; i < 10000; ++i) many[i] = -1;
    __transaction_cancel;
  }
  int wrong = 0;
  for (long i = 0; i < 10000; ++i) wrong += many[i] != i;
  return itm::say(wrong, "wrong");
}

ITM_PROGRAM(cancel_sees_its_own_stores_before, "8 1") {
  word = 1;
  long seen = 0;
  __transaction_atomic {
    word = 8;
    itm::look_away();
    itm::write_down(0, static_cast<int>(word));
    __transaction_cancel;
  }
  seen = itm::told(0);
  return itm::say(seen, word);
}

ITM_PROGRAM(cancel_keeps_what_was_committed_before, "4 9") {
  __transaction_atomic { word = 4; }
  __transaction_atomic {
    word = 5;
    __transaction_cancel;
  }
  __transaction_atomic { other_word = word + 5; }
  return itm::say(word, other_word);
}

// GCC reads `word` for a write (_ITM_RfWU8), then stores after a write (_ITM_WaWU8).
ITM_PROGRAM(cancel_hinted_every_second_one, "500") {
  for (int i = 0; i < 1000; ++i) {
    __transaction_atomic {
      word = word + 1;
      if (i % 2 == 1) {
        __transaction_cancel;
      }
    }
  }
  return itm::say(word);
}

ITM_PROGRAM(cancel_leaves_the_block_at_once, "0 0 1") {
  long after = 0;
  __transaction_atomic {
    word = 1;
    if (word == 1) {
      __transaction_cancel;
    }
    other_word = 7;
  }
  after = 1;
  return itm::say(word, other_word, after);
}

ITM_PROGRAM(cancel_restores_a_local, "10") {
  long local = 10;
  __transaction_atomic {
    local = word + 20;
    word = local;
    __transaction_cancel;
  }
  return itm::say(local);
}

ITM_PROGRAM(cancel_without_a_store, "done") {
  for (int i = 0; i < 100; ++i) {
    __transaction_atomic {
      if (word == 0) {
        __transaction_cancel;
      }
    }
  }
  return "done";
}

ITM_PROGRAM(cancel_of_the_outer_from_a_nested_one, "2 3") {
  word = 2;
  other_word = 3;
  __transaction_atomic [[outer]] {
    word = 5;
    __transaction_atomic {
      other_word = 6;
      __transaction_cancel [[outer]];
    }
    word = 7;
  }
  return itm::say(word, other_word);
}

ITM_PROGRAM(cancel_of_the_outer_from_three_deep, "2") {
  word = 2;
  __transaction_atomic [[outer]] {
    word = 5;
    __transaction_atomic {
      word = 6;
      __transaction_atomic {
        word = 7;
        __transaction_cancel [[outer]];
      }
    }
  }
  return itm::say(word);
}

ITM_PROGRAM(cancel_of_the_outer_from_a_function, "3 3") {
  __transaction_atomic [[outer]] { cancel_when_large(3); }
  const long first = word;
  __transaction_atomic [[outer]] {
    other_word = 1;
    cancel_when_large(9);
    other_word = 2;
  }
  return itm::say(first, word + other_word);
}

ITM_PROGRAM(cancel_beside_another_thread, "1000 0") {
  std::thread adder([] {
    for (int i = 0; i < 1000; ++i) {
      __transaction_atomic { word = word + 1; }
    }
  });
  for (int i = 0; i < 1000; ++i) {
    __transaction_atomic {
      itm::put(&word, 100000);
      other_word = 1;
      __transaction_cancel;
    }
  }
  adder.join();
  return itm::say(word, other_word);
}
