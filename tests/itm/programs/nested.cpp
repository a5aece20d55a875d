// tests/itm/programs/nested.cpp -- closed nesting: an inner cancel takes inner stores back only.
// Shape:     programs with "hinted" in their names store without put(): GCC calls _ITM_WaW for the
//            inner store, after the outer's store, also where the inner one may be cancelled.
#include <malloc.h>

#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long outer_word;
long inner_word;
long levels[64];

[[gnu::transaction_safe, gnu::noinline]] void put_in_a_transaction(long value) {
  __transaction_atomic { itm::put(&inner_word, value); }
}

// Each depth stores its number; every third one cancels.
[[gnu::transaction_safe, gnu::noinline]] void store_and_cancel_thirds(int depth) {
  if (depth == 48) return;
  __transaction_atomic {
    levels[depth] = depth + 1;
    if (depth % 3 == 2) {
      __transaction_cancel;
    }
  }
  store_and_cancel_thirds(depth + 1);
}

// A transaction in a transaction in a transaction: `depth` of them open at once.
[[gnu::transaction_safe, gnu::noinline]] void open_one_more(int depth) {
  __transaction_atomic {
    outer_word = outer_word + 1;
    if (depth > 1) open_one_more(depth - 1);
  }
}

// The same; that of depth 20 cancels, with all in it.
[[gnu::transaction_safe, gnu::noinline]] void open_and_cancel_the_twentieth(int depth) {
  __transaction_atomic {
    if (depth > 0) open_and_cancel_the_twentieth(depth - 1);
    itm::put(&levels[depth], levels[depth] + 1);
    if (depth == 20) {
      __transaction_cancel;
    }
  }
}

}  // namespace

ITM_PROGRAM(nested_cancel_keeps_the_outer_store, "1 0") {
  __transaction_atomic {
    outer_word = 1;
    __transaction_atomic {
      inner_word = 2;
      __transaction_cancel;
    }
  }
  return itm::say(outer_word, inner_word);
}

ITM_PROGRAM(nested_cancel_restores_the_outer_value, "5") {
  __transaction_atomic {
    outer_word = 5;
    __transaction_atomic {
      itm::put(&outer_word, 6);
      __transaction_cancel;
    }
  }
  return itm::say(outer_word);
}

ITM_PROGRAM(nested_hinted_cancel_restores_the_outer_value, "5") {
  __transaction_atomic {
    outer_word = 5;
    __transaction_atomic {
      outer_word = 6;
      __transaction_cancel;
    }
  }
  return itm::say(outer_word);
}

ITM_PROGRAM(nested_cancel_lets_the_outer_go_on, "5 8") {
  __transaction_atomic {
    outer_word = 5;
    __transaction_atomic {
      itm::put(&outer_word, 6);
      __transaction_cancel;
    }
    inner_word = outer_word + 3;
  }
  return itm::say(outer_word, inner_word);
}

ITM_PROGRAM(nested_commit_then_outer_cancel, "0 0") {
  __transaction_atomic {
    outer_word = 1;
    __transaction_atomic { inner_word = 2; }
    itm::look_away();
    __transaction_cancel;
  }
  return itm::say(outer_word, inner_word);
}

ITM_PROGRAM(nested_cancel_then_outer_cancel, "0 0") {
  __transaction_atomic {
    outer_word = 1;
    __transaction_atomic {
      inner_word = 2;
      outer_word = 3;
      __transaction_cancel;
    }
    itm::look_away();
    __transaction_cancel;
  }
  return itm::say(outer_word, inner_word);
}

ITM_PROGRAM(nested_three_levels_cancel_the_middle, "1 2 3") {
  levels[0] = 0;
  levels[1] = 2;
  levels[2] = 3;
  __transaction_atomic {
    levels[0] = 1;
    __transaction_atomic {
      levels[1] = 20;
      __transaction_atomic { levels[2] = 30; }
      __transaction_cancel;
    }
  }
  return itm::say(levels[0], levels[1], levels[2]);
}

ITM_PROGRAM(nested_three_levels_cancel_the_innermost, "1 20 3") {
  levels[2] = 3;
  __transaction_atomic {
    levels[0] = 1;
    __transaction_atomic {
      levels[1] = 20;
      __transaction_atomic {
        levels[2] = 30;
        levels[1] = 21;
        __transaction_cancel;
      }
    }
  }
  return itm::say(levels[0], levels[1], levels[2]);
}

ITM_PROGRAM(nested_cancel_a_thousand_times_in_one, "1000 0") {
  __transaction_atomic {
    for (int i = 0; i < 1000; ++i) {
      outer_word = outer_word + 1;
      __transaction_atomic {
        itm::put(&inner_word, i);
        __transaction_cancel;
      }
    }
  }
  return itm::say(outer_word, inner_word);
}

ITM_PROGRAM(nested_hinted_cancel_a_thousand_times_in_one, "1000 0") {
  __transaction_atomic {
    for (int i = 0; i < 1000; ++i) {
      outer_word = outer_word + 1;
      __transaction_atomic {
        inner_word = inner_word + 1;
        __transaction_cancel;
      }
    }
  }
  return itm::say(outer_word, inner_word);
}

ITM_PROGRAM(nested_every_third_cancels, "768 0") {
  __transaction_atomic { store_and_cancel_thirds(0); }
  long sum = 0;
  long cancelled = 0;
  for (int depth = 0; depth < 48; ++depth) {
    sum += levels[depth];
    if (depth % 3 == 2) cancelled += levels[depth];
  }
  return itm::say(sum, cancelled);
}

ITM_PROGRAM(nested_in_functions, "3") {
  __transaction_atomic {
    for (long i = 1; i <= 3; ++i) put_in_a_transaction(i);
  }
  return itm::say(inner_word);
}

ITM_PROGRAM(nested_in_functions_then_cancel, "0") {
  __transaction_atomic {
    for (long i = 1; i <= 3; ++i) put_in_a_transaction(i);
    __transaction_cancel;
  }
  return itm::say(inner_word);
}

ITM_PROGRAM(nested_a_thousand_deep, "1000") {
  open_one_more(1000);
  return itm::say(outer_word);
}

ITM_PROGRAM(nested_closed_forty_deep, "19 0") {
  open_and_cancel_the_twentieth(39);
  long kept = 0;
  long cancelled = 0;
  for (int depth = 0; depth < 40; ++depth) (depth > 20 ? kept : cancelled) += levels[depth];
  return itm::say(kept, cancelled);
}

ITM_PROGRAM(nested_cancel_restores_a_local, "10 30") {
  long local = 10;
  long after = 0;
  __transaction_atomic {
    outer_word = 10;
    __transaction_atomic {
      local = outer_word + 10;
      inner_word = local;
      __transaction_cancel;
    }
    after = local + outer_word + 10;
  }
  return itm::say(local, after);
}

ITM_PROGRAM(nested_cancel_of_a_block, "aabbbb") {
  static char text[] = "aaaaaa";
  __transaction_atomic {
    __builtin_memset(text + 2, 'b', 4);
    __transaction_atomic {
      __builtin_memset(text, 'c', 6);
      __transaction_cancel;
    }
  }
  return text;
}

ITM_PROGRAM(nested_one_in_a_relaxed_one, "1 0") {
  __transaction_relaxed {
    outer_word = 1;
    __transaction_atomic {
      inner_word = 1;
      __transaction_cancel;
    }
  }
  return itm::say(outer_word, inner_word);
}

ITM_PROGRAM(nested_cancels_beside_another_thread, "2000 0") {
  std::thread adder([] {
    for (int i = 0; i < 1000; ++i) {
      __transaction_atomic { outer_word = outer_word + 1; }
    }
  });
  for (int i = 0; i < 1000; ++i) {
    __transaction_atomic {
      outer_word = outer_word + 1;
      __transaction_atomic {
        itm::put(&outer_word, 100000);
        inner_word = 1;
        __transaction_cancel;
      }
    }
  }
  adder.join();
  return itm::say(outer_word, inner_word);
}

// A cancel leaves the library's functions by a jump.
ITM_PROGRAM(nested_cancels_keep_no_memory, "kept little") {
  const auto cancel_often = [] {
    for (int i = 0; i < 2000; ++i) {
      __transaction_atomic {
        itm::put(&outer_word, i);
        __transaction_atomic {
          itm::put(&inner_word, i);
          __transaction_cancel;
        }
      }
    }
  };
  cancel_often();
  const std::size_t before = mallinfo2().uordblks;
  cancel_often();
  return itm::say("kept", mallinfo2().uordblks < before + 2000 ? "little" : "much");
}
