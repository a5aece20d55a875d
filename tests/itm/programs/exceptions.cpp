// tests/itm/programs/exceptions.cpp -- exceptions and transactions: one thrown out of a transaction
// commits it, one caught inside is nothing special, a cancel takes the exception with it.
#include <exception>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long word;
long other_word;
int destroyed;

[[gnu::transaction_safe, gnu::noinline]] void throw_int(int value) { throw value; }

struct Error {
  long code;
  long detail[6];
};

struct OnTheWay {
  [[gnu::transaction_safe]] explicit OnTheWay(long value) : value(value) {}
  [[gnu::transaction_safe]] ~OnTheWay() { itm::put(&word, word + value); }
  long value;
};

[[gnu::transaction_safe, gnu::noinline]] void throw_error(long code) {
  Error error = {};
  error.code = code;
  for (long &each : error.detail) each = code;
  throw error;
}

[[gnu::transaction_safe, gnu::noinline]] void throw_deep(int depth) {
  const OnTheWay guard(1);
  if (depth == 0) throw depth;
  throw_deep(depth - 1);
}

// Throws and catches inside; the verdict is what was caught.
[[gnu::transaction_safe, gnu::noinline]] int caught_in_a_function(int value) {
  try {
    throw_int(value);
  } catch (int caught) {
    return caught;
  }
  return -1;
}

void add_ten() {
  __transaction_atomic { word = word + 10; }
}

}  // namespace

ITM_PROGRAM(exception_thrown_out_commits, "5 7") {
  int caught = 0;
  try {
    __transaction_atomic {
      word = 5;
      throw 7;
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_thrown_out_leaves_no_transaction, "0 6") {
  try {
    __transaction_atomic {
      word = 5;
      throw 7;
    }
  } catch (int) {
    other_word = _ITM_inTransaction();
  }
  __transaction_atomic { word = word + 1; }
  return itm::say(other_word, word);
}

ITM_PROGRAM(exception_from_a_function_commits, "5 7") {
  int caught = 0;
  try {
    __transaction_atomic {
      word = 5;
      throw_int(7);
      word = 6;
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_caught_inside, "12") {
  __transaction_atomic {
    word = 5;
    try {
      throw_int(7);
    } catch (int value) {
      word = word + value;
    }
  }
  return itm::say(word);
}

ITM_PROGRAM(exception_caught_inside_a_function, "9") {
  __transaction_atomic { word = caught_in_a_function(9); }
  return itm::say(word);
}

ITM_PROGRAM(exception_caught_by_all, "1") {
  __transaction_atomic {
    try {
      throw_error(3);
    } catch (...) {
      word = 1;
    }
  }
  return itm::say(word);
}

ITM_PROGRAM(exception_of_another_type_passes, "1 2.5") {
  double caught = 0;
  try {
    __transaction_atomic {
      try {
        word = 1;
        throw 2.5;
      } catch (int) {
        word = 9;
      }
    }
  } catch (double value) {
    caught = value;
  }
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_rethrown_inside, "7 8") {
  __transaction_atomic {
    try {
      try {
        throw_int(7);
      } catch (int value) {
        word = value;
        throw;
      }
    } catch (int value) {
      other_word = value + 1;
    }
  }
  return itm::say(word, other_word);
}

ITM_PROGRAM(exception_rethrown_out, "7 7") {
  int caught = 0;
  try {
    __transaction_atomic {
      try {
        throw_int(7);
      } catch (int value) {
        word = value;
        throw;
      }
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_replaced_in_a_handler, "7 8") {
  int caught = 0;
  try {
    __transaction_atomic {
      try {
        throw_int(7);
      } catch (int value) {
        word = value;
        throw_int(value + 1);
      }
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_while_another_is_handled, "30") {
  __transaction_atomic {
    try {
      throw_int(10);
    } catch (int first) {
      try {
        throw_int(20);
      } catch (int second) {
        word = first + second;
      }
    }
  }
  return itm::say(word);
}

ITM_PROGRAM(exception_object_is_whole, "4 24") {
  long code = 0;
  long sum = 0;
  try {
    __transaction_atomic {
      word = 1;
      throw_error(4);
    }
  } catch (const Error &error) {
    code = error.code;
    for (const long each : error.detail) sum += each;
  }
  return itm::say(code, sum);
}

ITM_PROGRAM(exception_carries_a_transactional_value, "42") {
  word = 40;
  long caught = 0;
  try {
    __transaction_atomic {
      word = word + 2;
      throw_error(word);
    }
  } catch (const Error &error) {
    caught = error.code;
  }
  return itm::say(caught);
}

ITM_PROGRAM(exception_out_of_a_nested_one, "1 2 7") {
  int caught = 0;
  try {
    __transaction_atomic {
      word = 1;
      __transaction_atomic {
        other_word = 2;
        throw_int(7);
      }
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, other_word, caught);
}

ITM_PROGRAM(exception_between_nested_and_outer, "9 2") {
  __transaction_atomic {
    word = 1;
    try {
      __transaction_atomic {
        other_word = 2;
        throw_int(8);
      }
    } catch (int value) {
      word = word + value;
    }
  }
  return itm::say(word, other_word);
}

ITM_PROGRAM(exception_caught_then_outer_cancel, "0 0") {
  __transaction_atomic {
    word = 1;
    try {
      __transaction_atomic {
        other_word = 2;
        throw_int(8);
      }
    } catch (int value) {
      word = value;
    }
    itm::look_away();
    __transaction_cancel;
  }
  return itm::say(word, other_word);
}

ITM_PROGRAM(exception_destructors_on_the_way, "11") {
  try {
    __transaction_atomic { throw_deep(10); }
  } catch (int) {
    other_word = 1;
  }
  return itm::say(word);
}

ITM_PROGRAM(exception_destructors_then_cancel, "0") {
  __transaction_atomic {
    try {
      throw_deep(10);
    } catch (int) {
      other_word = word;
    }
    __transaction_cancel;
  }
  return itm::say(word);
}

ITM_PROGRAM(exception_cancel_in_a_handler, "0 0 none") {
  __transaction_atomic {
    word = 1;
    try {
      throw_int(3);
    } catch (...) {
      __transaction_cancel;
    }
  }
  return itm::say(word, std::uncaught_exceptions(),
                  std::current_exception() == nullptr ? "none" : "one");
}

ITM_PROGRAM(exception_cancel_in_a_handler_of_a_handler, "0 0 none") {
  __transaction_atomic {
    word = 1;
    try {
      throw_int(3);
    } catch (...) {
      try {
        throw_int(4);
      } catch (...) {
        __transaction_cancel;
      }
    }
  }
  return itm::say(word, std::uncaught_exceptions(),
                  std::current_exception() == nullptr ? "none" : "one");
}

ITM_PROGRAM(exception_nested_cancel_in_a_handler, "1 0 none") {
  __transaction_atomic {
    word = 1;
    __transaction_atomic {
      itm::put(&other_word, 2);
      try {
        throw_int(3);
      } catch (...) {
        __transaction_cancel;
      }
    }
  }
  return itm::say(word, other_word, std::current_exception() == nullptr ? "none" : "one");
}

ITM_PROGRAM(exception_cancel_then_another_is_thrown, "0 6 none") {
  int caught = 0;
  __transaction_atomic {
    word = 1;
    try {
      throw_int(3);
    } catch (...) {
      __transaction_cancel;
    }
  }
  try {
    throw 6;
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, caught, std::current_exception() == nullptr ? "none" : "one");
}

ITM_PROGRAM(exception_transaction_in_a_handler, "4 4 one") {
  const char *held = "none";
  int caught = 0;
  try {
    throw 4;
  } catch (int value) {
    __transaction_atomic { word = value; }
    caught = value;
    if (std::current_exception() != nullptr) held = "one";
  }
  return itm::say(word, caught, held);
}

ITM_PROGRAM(exception_cancel_keeps_the_one_outside, "0 4 one") {
  const char *held = "none";
  int caught = 0;
  try {
    throw 4;
  } catch (int value) {
    __transaction_atomic {
      word = value;
      try {
        throw_int(5);
      } catch (...) {
        __transaction_cancel;
      }
    }
    if (std::current_exception() != nullptr) held = "one";
    caught = value;
  }
  return itm::say(word, caught, held);
}

ITM_PROGRAM(exception_transaction_in_a_destructor_on_the_way, "1 1 7") {
  struct Guard {
    ~Guard() {
      __transaction_atomic { word = word + 1; }
      destroyed = std::uncaught_exceptions();
    }
  };
  int caught = 0;
  try {
    const Guard guard;
    throw 7;
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, destroyed, caught);
}

ITM_PROGRAM(exception_thrown_after_a_restart, "11 7") {
  itm::Conflict conflict(add_ten);
  int caught = 0;
  try {
    __transaction_atomic {
      const long seen = itm::get(&word);
      itm::Conflict::provoke();
      word = seen + 1;
      throw_int(7);
    }
  } catch (int value) {
    caught = value;
  }
  conflict.join();
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_a_thousand_times, "1000 1000") {
  int caught = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      __transaction_atomic {
        word = word + 1;
        throw_error(i);
      }
    } catch (const Error &error) {
      caught += error.code == i;
    }
  }
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_from_two_threads, "2000 2000") {
  const auto work = [] {
    for (int i = 0; i < 1000; ++i) {
      try {
        __transaction_atomic {
          word = word + 1;
          throw_error(i);
        }
      } catch (const Error &error) {
        if (error.code == i) itm::tell(0);
      }
    }
  };
  std::thread first(work);
  std::thread second(work);
  first.join();
  second.join();
  return itm::say(word, itm::told(0));
}

ITM_PROGRAM(exception_out_of_a_relaxed_one, "5 7") {
  int caught = 0;
  try {
    __transaction_relaxed {
      word = 5;
      throw 7;
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(word, caught);
}

ITM_PROGRAM(exception_out_of_an_irrevocable_one, "5 unsafe") {
  std::string caught;
  try {
    __transaction_relaxed {
      word = 5;
      throw std::string("unsafe");
    }
  } catch (const std::string &value) {
    caught = value;
  }
  return itm::say(word, caught);
}
