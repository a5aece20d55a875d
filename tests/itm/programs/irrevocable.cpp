// tests/itm/programs/irrevocable.cpp -- transactions that nothing takes back: unsafe calls, output,
// a change of mode; nothing of theirs happens twice, no other thread sees half of it.
#include <unistd.h>

#include <cstdio>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long word;
long other_word;
long sink;
int unsafe_calls;

[[gnu::noinline]] void unsafe_call() {
  asm volatile("" ::: "memory");
  ++unsafe_calls;
}

void add_ten() {
  __transaction_atomic { word = word + 10; }
}

// What a function writes to a pipe.
class Pipe {
 public:
  Pipe() {
    if (pipe(ends_) != 0) ends_[0] = ends_[1] = -1;
    out_ = fdopen(ends_[1], "w");
  }
  std::FILE *out() { return out_; }
  std::string text() {
    std::fclose(out_);
    std::string all;
    char part[512];
    for (ssize_t bytes; (bytes = read(ends_[0], part, sizeof part)) > 0;) {
      all.append(part, static_cast<std::size_t>(bytes));
    }
    close(ends_[0]);
    return all;
  }

 private:
  int ends_[2];
  std::FILE *out_;
};

}  // namespace

ITM_PROGRAM(irrevocable_prints_once, "value 4.") {
  Pipe pipe;
  std::FILE *const out = pipe.out();
  __transaction_relaxed {
    word = 4;
    std::fprintf(out, "value %ld.", word);
  }
  return pipe.text();
}

ITM_PROGRAM(irrevocable_prints_once_after_a_conflict, "x 11 1") {
  Pipe pipe;
  std::FILE *const out = pipe.out();
  itm::Conflict conflict(add_ten);
  __transaction_relaxed {
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    std::fputc('x', out);
    unsafe_call();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(pipe.text(), word, unsafe_calls);
}

ITM_PROGRAM(irrevocable_prints_in_a_loop, "0123456789 10") {
  Pipe pipe;
  std::FILE *const out = pipe.out();
  for (int i = 0; i < 10; ++i) {
    __transaction_relaxed {
      word = word + 1;
      std::fprintf(out, "%d", i);
    }
  }
  return itm::say(pipe.text(), word);
}

ITM_PROGRAM(irrevocable_by_a_call, "1 6 7") {
  __transaction_relaxed {
    word = 6;
    unsafe_call();
    other_word = word + 1;
  }
  return itm::say(unsafe_calls, word, other_word);
}

ITM_PROGRAM(irrevocable_by_a_call_on_one_way, "50 100") {
  // Every second one calls; the others stay transactions.
  for (int i = 0; i < 100; ++i) {
    __transaction_relaxed {
      word = word + 1;
      if (i % 2 == 0) unsafe_call();
    }
  }
  return itm::say(unsafe_calls, word);
}

ITM_PROGRAM(irrevocable_by_the_change_of_mode, "2 5") {
  int state = 0;
  __transaction_relaxed {
    word = 2;
    _ITM_changeTransactionMode(modeSerialIrrevocable);
    state = _ITM_inTransaction();
    word = word + 3;
  }
  return itm::say(state, word);
}

ITM_PROGRAM(irrevocable_by_the_change_of_mode_twice, "2 5") {
  int state = 0;
  __transaction_relaxed {
    word = 2;
    _ITM_changeTransactionMode(modeSerialIrrevocable);
    _ITM_changeTransactionMode(modeSerialIrrevocable);
    state = _ITM_inTransaction();
    word = word + 3;
  }
  return itm::say(state, word);
}

ITM_PROGRAM(irrevocable_after_a_conflict, "11") {
  // The change of mode finds that what was read is old: the transaction runs again.
  itm::Conflict conflict(add_ten);
  __transaction_relaxed {
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    _ITM_changeTransactionMode(modeSerialIrrevocable);
    word = seen + 1;
  }
  conflict.join();
  return itm::say(word);
}

ITM_PROGRAM(irrevocable_after_own_stores, "9 10 11") {
  static long cells[3];
  __transaction_relaxed {
    for (long i = 0; i < 3; ++i) itm::put(&cells[i], 9 + i);
    unsafe_call();
    // Plain code after the switch sees the stores of before.
    sink = cells[0] + cells[1] + cells[2];
  }
  return itm::say(cells[0], cells[1], sink - cells[0] - cells[1]);
}

ITM_PROGRAM(irrevocable_is_not_irrevocable_next_time, "0") {
  __transaction_relaxed {
    word = 1;
    unsafe_call();
  }
  word = 0;
  __transaction_atomic {
    itm::put(&word, 4);
    __transaction_cancel;
  }
  return itm::say(word);
}

ITM_PROGRAM(irrevocable_sums_beside_transactions, "6000 6000 2000") {
  std::thread first([] {
    for (int i = 0; i < 4000; ++i) {
      __transaction_atomic {
        word = word + 1;
        other_word = other_word + 1;
      }
    }
  });
  for (int i = 0; i < 2000; ++i) {
    __transaction_relaxed {
      word = word + 1;
      unsafe_call();
      other_word = other_word + 1;
    }
  }
  first.join();
  return itm::say(word, other_word, unsafe_calls);
}

ITM_PROGRAM(irrevocable_is_isolated, "0 torn") {
  std::thread reader([] {
    while (itm::told(0) == 0) {
      long difference = 0;
      __transaction_atomic { difference = word - other_word; }
      if (difference != 0) itm::tell(1);
    }
  });
  for (int i = 0; i < 3000; ++i) {
    __transaction_relaxed {
      word = word + 1;
      unsafe_call();
      other_word = other_word + 1;
    }
  }
  itm::tell(0);
  reader.join();
  return itm::say(itm::told(1), "torn");
}

ITM_PROGRAM(irrevocable_twice_at_once, "4000 4000") {
  const auto work = [] {
    for (int i = 0; i < 2000; ++i) {
      __transaction_relaxed {
        word = word + 1;
        unsafe_call();
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  return itm::say(word, unsafe_calls);
}

ITM_PROGRAM(irrevocable_nested_in_a_relaxed_one, "3 1") {
  __transaction_relaxed {
    word = 1;
    __transaction_relaxed {
      word = word + 1;
      unsafe_call();
    }
    word = word + 1;
  }
  return itm::say(word, unsafe_calls);
}

ITM_PROGRAM(irrevocable_after_a_nested_cancel, "0 5 1") {
  __transaction_relaxed {
    other_word = 5;
    __transaction_atomic {
      itm::put(&word, 4);
      __transaction_cancel;
    }
    unsafe_call();
  }
  return itm::say(word, other_word, unsafe_calls);
}

ITM_PROGRAM(irrevocable_with_a_transaction_inside, "7 1") {
  __transaction_relaxed {
    unsafe_call();
    __transaction_atomic { word = 7; }
  }
  return itm::say(word, unsafe_calls);
}

ITM_PROGRAM(irrevocable_keeps_live_locals, "3 1.5 11") {
  long local = 3;
  double number = 1.5;
  asm volatile("" : "+r"(local), "+x"(number));
  itm::Conflict conflict(add_ten);
  __transaction_relaxed {
    const long seen = itm::get(&word);
    itm::Conflict::provoke();
    unsafe_call();
    word = seen + 1;
  }
  conflict.join();
  return itm::say(local, number, word);
}
