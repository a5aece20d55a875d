// tests/itm/programs/restarts.cpp -- what a transaction finds when it runs again after a conflict.
// Shape:     Conflict's thread commits a store to `word`, which the first attempt has read, while
//            that attempt waits. A library that cannot run both at once runs them one after
//            another: the sums are the same.
#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long word;
long sink;
long cells[64];
long *kept;
int actions;

void add_ten() {
  __transaction_atomic { word = word + 10; }
}

void add_ten_to_many() {
  __transaction_atomic {
    word = word + 10;
    for (long &each : cells) each = each + 10;
  }
}

void count_action(void *) { ++actions; }

[[gnu::noinline]] long opaque(long value) {
  asm volatile("" : "+r"(value));
  return value;
}

[[gnu::noinline]] double opaque_double(double value) {
  asm volatile("" : "+x"(value));
  return value;
}

[[gnu::transaction_safe, gnu::noinline]] void fill(long *array, int count, long first) {
  for (int i = 0; i < count; ++i) array[i] = first + i;
}

[[gnu::transaction_safe, gnu::noinline]] long sum(const long *array, int count) {
  long all = 0;
  for (int i = 0; i < count; ++i) all += array[i];
  return all;
}

long left;
long right;

[[gnu::transaction_pure, gnu::noinline]] void note_torn(long difference) {
  if (difference != 0) itm::tell(1);
}

[[gnu::transaction_safe, gnu::noinline]] void throw_int(int value) { throw value; }

[[gnu::transaction_safe, gnu::noinline]] void add_one_with_a_conflict(int caught) {
  const long seen = itm::get(&word);
  sink = sink + caught;
  itm::Conflict::provoke();
  word = seen + 1;
}

[[gnu::transaction_safe, gnu::noinline]] void handle(int value) {
  try {
    throw_int(value);
  } catch (int caught) {
    add_one_with_a_conflict(caught);
  }
}

struct Node {
  long value;
  Node *next;
};
Node *head;

}  // namespace

ITM_PROGRAM(restart_keeps_the_sum, "11") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word);
}

ITM_PROGRAM(restart_keeps_live_locals, "11 1 2 3 4 5 6 7 8") {
  long a = opaque(1), b = opaque(2), c = opaque(3), d = opaque(4);
  long e = opaque(5), f = opaque(6), g = opaque(7), h = opaque(8);
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
    sink = a + b + c + d + e + f + g + h;
  }
  conflict.join();
  return itm::say(word, a, b, c, d, e, f, g, h);
}

ITM_PROGRAM(restart_keeps_live_doubles, "11 1.5 2.5 3.5 4.5 12") {
  double a = opaque_double(1.5), b = opaque_double(2.5);
  double c = opaque_double(3.5), d = opaque_double(4.5);
  itm::Conflict conflict(add_ten);
  double all = 0;
  __transaction_atomic {
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
    all = a + b + c + d;
  }
  conflict.join();
  return itm::say(word, a, b, c, d, all);
}

ITM_PROGRAM(restart_sets_a_changed_local_back, "11 6") {
  long counter = opaque(5);
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    counter = counter + 1;
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, counter);
}

ITM_PROGRAM(restart_sets_many_changed_locals_back, "11 2 4 8 16 32 64") {
  long a = opaque(1), b = opaque(2), c = opaque(4), d = opaque(8), e = opaque(16), f = opaque(32);
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    a *= 2, b *= 2, c *= 2;
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    d *= 2, e *= 2, f *= 2;
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, a, b, c, d, e, f);
}

ITM_PROGRAM(restart_sets_an_array_on_the_stack_back, "11 56 28") {
  long array[8];
  fill(array, 8, 0);
  const long before = sum(array, 8);
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    for (long &each : array) each = each * 2;
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, sum(array, 8), before);
}

ITM_PROGRAM(restart_with_a_loop_around, "510 500") {
  itm::Conflict conflict(add_ten);
  long rounds = 0;
  for (int i = 0; i < 500; ++i) {
    __transaction_atomic {
      const long seen = itm::get(&word);
      itm::Conflict::provoke();
      word = seen + 1;
      rounds = rounds + 1;
    }
  }
  conflict.join();
  return itm::say(word, rounds);
}

ITM_PROGRAM(restart_from_a_nested_one, "11 1") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    sink = sink + 1;
    __transaction_atomic {
      const long seen = itm::get(&word);
      itm::Conflict::provoke();
      word = seen + 1;
    }
  }
  conflict.join();
  return itm::say(word, sink);
}

ITM_PROGRAM(restart_from_a_deep_function, "11 28") {
  struct Deep {
    [[gnu::transaction_safe, gnu::noinline]] static long go(int depth) {
      long local[16];
      fill(local, 16, depth);
      if (depth == 0) {
        const long seen = itm::get(&word);
        itm::Conflict::provoke();
        word = seen + 1;
        return 0;
      }
      return go(depth - 1) + local[0];
    }
  };
  itm::Conflict conflict(add_ten);
  long all = 0;
  __transaction_atomic { all = Deep::go(7); }
  conflict.join();
  return itm::say(word, all);
}

ITM_PROGRAM(restart_after_a_nested_cancel, "11 0") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    __transaction_atomic {
      sink = 5;
      __transaction_cancel;
    }
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, sink);
}

ITM_PROGRAM(restart_then_cancel, "10 0") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
    sink = 3;
    __transaction_cancel;
  }
  conflict.join();
  return itm::say(word, sink);
}

ITM_PROGRAM(restart_allocates_once, "11 1 9") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    Node *const node = new Node;
    node->value = 9;
    node->next = head;
    head = node;
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  int nodes = 0;
  for (Node *node = head; node != nullptr; node = node->next) ++nodes;
  return itm::say(word, nodes, head->value);
}

ITM_PROGRAM(restart_frees_once, "11 none") {
  kept = new long(4);
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    delete kept;
    kept = nullptr;
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, kept == nullptr ? "none" : "some");
}

ITM_PROGRAM(restart_runs_a_commit_action_once, "11 1") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    _ITM_addUserCommitAction(count_action, _ITM_noTransactionId, nullptr);
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, actions);
}

ITM_PROGRAM(restart_after_a_caught_exception, "11 4") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic {
    try {
      throw 4;
    } catch (int caught) {
      sink = sink + caught;
    }
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word, sink);
}

ITM_PROGRAM(restart_inside_a_handler, "11 4") {
  itm::Conflict conflict(add_ten);
  __transaction_atomic { handle(4); }
  conflict.join();
  return itm::say(word, sink);
}

ITM_PROGRAM(restart_sees_all_of_the_other, "64 even") {
  itm::Conflict conflict(add_ten_to_many);
  long different = 0;
  __transaction_atomic {
    different = 0;
    const long first = itm::get(&cells[0]);
    itm::Conflict::provoke();
    for (const long &each : cells) different += each != first;
    word = word + 1;
  }
  conflict.join();
  long tens = 0;
  for (const long &each : cells) tens += each == 10;
  return itm::say(tens, different == 0 ? "even" : "uneven");
}

ITM_PROGRAM(restart_of_a_long_reader, "0 torn") {
  static long table[4096];
  std::thread writer([] {
    for (long round = 1; round <= 200; ++round) {
      __transaction_atomic {
        for (int i = 0; i < 4096; i += 64) table[i] = round;
      }
    }
    itm::tell(0);
  });
  int torn = 0;
  while (itm::told(0) == 0) {
    long low = 0;
    long high = 0;
    __transaction_atomic {
      low = table[0];
      high = table[0];
      for (int i = 0; i < 4096; i += 64) {
        const long value = table[i];
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    torn += low != high;
  }
  writer.join();
  return itm::say(torn, "torn");
}

ITM_PROGRAM(restart_never_shows_a_torn_pair, "0 torn") {
  // Also inside the transaction: a library shows no attempt two stores of which it has seen one.
  std::thread writer([] {
    for (int i = 0; i < 20000; ++i) {
      __transaction_atomic {
        left = left + 1;
        right = right + 1;
      }
    }
    itm::tell(0);
  });
  while (itm::told(0) == 0) {
    __transaction_atomic {
      const long difference = left - right;
      note_torn(difference);
    }
  }
  writer.join();
  return itm::say(itm::told(1), "torn");
}
