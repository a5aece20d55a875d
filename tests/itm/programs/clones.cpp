// tests/itm/programs/clones.cpp -- transactional clones of functions that are called by pointer: of
// this program, of a library that dlopen() brings, after dlclose().
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

using SafeAdd [[gnu::transaction_safe]] = long (*)(long);
using SafeStore [[gnu::transaction_safe]] = void (*)(long *, long);
using SafeThrow [[gnu::transaction_safe]] = void (*)(int);
using PlainAdd = long (*)(long);

long word;
long other_word;

[[gnu::transaction_safe, gnu::noinline]] long add(long value) {
  const long sum = word + value;
  itm::put(&word, sum);
  return sum;
}

[[gnu::transaction_safe, gnu::noinline]] long subtract(long value) {
  word = word - value;
  return word;
}

[[gnu::noinline]] long unsafe_add(long value) {
  asm volatile("" ::: "memory");
  word += value;
  return word;
}

// The compiler does not know what they point to.
SafeAdd volatile safe_pointer = add;
SafeAdd volatile other_safe_pointer = subtract;
PlainAdd volatile plain_pointer = add;
PlainAdd volatile unsafe_pointer = unsafe_add;

// A transaction before main(), by a pointer: the table is registered before constructors run.
long before_main() {
  const SafeAdd call = safe_pointer;
  long result = 0;
  __transaction_atomic { result = call(41); }
  word = 0;
  return result;
}
const long result_before_main = before_main();

struct Shape {
  [[gnu::transaction_safe]] virtual long area() const = 0;
  [[gnu::transaction_safe]] virtual ~Shape() = default;
};

struct Square : Shape {
  [[gnu::transaction_safe]] explicit Square(long side) : side(side) {}
  [[gnu::transaction_safe]] long area() const override { return side * side; }
  long side;
};

struct Line : Shape {
  [[gnu::transaction_safe]] long area() const override { return 0; }
};

const Shape *volatile shapes[2];

class Library {
 public:
  Library() {
    char self[4096] = {};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) std::exit(2);
    std::string path = self;
    path = path.substr(0, path.rfind('/')) + "/itm_safe_library.so";
    handle_ = dlopen(path.c_str(), RTLD_NOW);
    if (handle_ == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
  }
  void close() { dlclose(handle_); }
  void *symbol(const char *name) const {
    void *const found = dlsym(handle_, name);
    if (found == nullptr) std::exit(2);
    return found;
  }
  SafeAdd safe_add() const { return reinterpret_cast<SafeAdd>(symbol("safe_add")); }
  SafeStore safe_store() const { return reinterpret_cast<SafeStore>(symbol("safe_store")); }

 private:
  void *handle_;
};

long call_of_opened(const Library &library) {
  return reinterpret_cast<long (*)()>(library.symbol("opened_times"))();
}

}  // namespace

ITM_PROGRAM(clone_by_a_safe_pointer, "5 3") {
  const SafeAdd first = safe_pointer;
  const SafeAdd second = other_safe_pointer;
  long result = 0;
  __transaction_atomic { result = first(5); }
  __transaction_atomic { second(2); }
  return itm::say(result, word);
}

ITM_PROGRAM(clone_by_a_safe_pointer_cancelled, "0") {
  const SafeAdd call = safe_pointer;
  __transaction_atomic {
    call(5);
    __transaction_cancel;
  }
  return itm::say(word);
}

ITM_PROGRAM(clone_by_a_plain_pointer, "6") {
  const PlainAdd call = plain_pointer;
  __transaction_relaxed { call(6); }
  return itm::say(word);
}

ITM_PROGRAM(clone_that_is_missing_goes_irrevocable, "7 2") {
  const PlainAdd call = unsafe_pointer;
  int state = 0;
  __transaction_relaxed {
    call(7);
    state = _ITM_inTransaction();
  }
  return itm::say(word, state);
}

// The address is asked for as a call would ask: uninstrumented code calls without asking.
ITM_PROGRAM(clone_that_is_missing_dies, "dies of 6") {
  pid_t (*const function)() = getpid;
  __transaction_atomic {
    word = _ITM_getTMCloneSafe(reinterpret_cast<void *>(function)) != nullptr;
  }
  return itm::say(word);
}

ITM_PROGRAM(clone_is_found_by_the_function, "clone function") {
  const PlainAdd with = plain_pointer;
  const PlainAdd without = unsafe_pointer;
  void *found = nullptr;
  void *not_found = nullptr;
  __transaction_relaxed {
    word = 1;
    found = _ITM_getTMCloneOrIrrevocable(reinterpret_cast<void *>(with));
    not_found = _ITM_getTMCloneOrIrrevocable(reinterpret_cast<void *>(without));
  }
  return itm::say(
      found != nullptr && found != reinterpret_cast<void *>(with) ? "clone" : "function",
      not_found == reinterpret_cast<void *>(without) ? "function" : "clone");
}

ITM_PROGRAM(clone_before_main, "41") { return itm::say(result_before_main); }

ITM_PROGRAM(clone_of_a_virtual_function, "9 0") {
  static const Square square(3);
  static const Line line;
  shapes[0] = &square;
  shapes[1] = &line;
  const Shape *const first = shapes[0];
  const Shape *const second = shapes[1];
  __transaction_atomic {
    word = first->area();
    other_word = second->area();
  }
  return itm::say(word, other_word);
}

ITM_PROGRAM(clone_in_a_library, "5 12") {
  const Library library;
  const SafeAdd call = library.safe_add();
  long first = 0;
  long second = 0;
  __transaction_atomic { first = call(5); }
  __transaction_atomic { second = call(7); }
  return itm::say(first, second);
}

ITM_PROGRAM(clone_in_a_library_cancelled, "3 8") {
  const Library library;
  const SafeAdd call = library.safe_add();
  const SafeStore store = library.safe_store();
  word = 3;
  __transaction_atomic {
    call(5);
    store(&word, 9);
    __transaction_cancel;
  }
  long result = 0;
  __transaction_atomic { result = call(8); }
  return itm::say(word, result);
}

ITM_PROGRAM(clone_in_a_library_throws, "4 1") {
  const Library library;
  const SafeThrow call = reinterpret_cast<SafeThrow>(library.symbol("safe_throw"));
  int caught = 0;
  try {
    __transaction_atomic {
      word = 1;
      call(4);
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(caught, word);
}

ITM_PROGRAM(clone_in_a_library_has_its_own_transaction, "2 5") {
  const Library library;
  const SafeAdd call = reinterpret_cast<SafeAdd>(library.symbol("safe_own_transaction"));
  const long outside = call(2);
  long inside = 0;
  __transaction_atomic {
    word = 1;
    inside = call(3);
  }
  return itm::say(outside, inside);
}

ITM_PROGRAM(clone_in_a_library_missing_goes_irrevocable, "2 2") {
  const Library library;
  const PlainAdd call = reinterpret_cast<PlainAdd>(library.symbol("plain_add"));
  long result = 0;
  int state = 0;
  __transaction_relaxed {
    result = call(2);
    state = _ITM_inTransaction();
  }
  return itm::say(result, state);
}

ITM_PROGRAM(clone_in_a_library_missing_dies, "dies of 6") {
  const Library library;
  void *const function = library.symbol("plain_add");
  __transaction_atomic { word = _ITM_getTMCloneSafe(function) != nullptr; }
  return itm::say(word);
}

ITM_PROGRAM(clone_in_a_library_opened_with_a_transaction, "1") {
  const Library library;
  return itm::say(call_of_opened(library));
}

ITM_PROGRAM(clone_own_after_dlclose, "5 6") {
  Library library;
  const SafeAdd theirs = library.safe_add();
  long first = 0;
  __transaction_atomic { first = theirs(5); }
  library.close();
  const SafeAdd ours = safe_pointer;
  __transaction_atomic { ours(6); }
  return itm::say(first, word);
}

ITM_PROGRAM(clone_after_dlclose_and_dlopen, "50 done") {
  long all = 0;
  for (int round = 0; round < 50; ++round) {
    Library library;
    const SafeAdd call = library.safe_add();
    long result = 0;
    __transaction_atomic { result = call(1); }
    all += result;
    library.close();
  }
  return itm::say(all, "done");
}

ITM_PROGRAM(clone_after_dlclose_is_gone, "dies of 6") {
  // The function's address is asked for, not called: its table went with the library.
  Library library;
  void *const function = library.symbol("safe_add");
  library.close();
  __transaction_atomic { word = _ITM_getTMCloneSafe(function) != nullptr; }
  return itm::say(word);
}

ITM_PROGRAM(clone_tables_come_and_go_beside_transactions, "20000") {
  std::thread adder([] {
    const SafeAdd call = safe_pointer;
    for (int i = 0; i < 20000; ++i) {
      __transaction_atomic { call(1); }
    }
    itm::tell(0);
  });
  while (itm::told(0) == 0) {
    Library library;
    library.close();
  }
  adder.join();
  return itm::say(word);
}

// The loader registers the library's clones while it holds its lock.
ITM_PROGRAM(clone_dlopen_beside_a_first_new, "done 4") {
  static int *made;
  constexpr int kInside = 30, kOpening = 31;
  std::thread other([] {
    __transaction_atomic {
      word = 1;
      itm::tell(kInside);
      itm::wait_a_little(kOpening, 1);
      itm::wait_a_little(kOpening, 2);  // 20 ms: the other thread is in dlopen()
      made = new int(4);
    }
  });
  itm::wait_for(kInside, 1);
  itm::tell(kOpening);
  Library library;
  other.join();
  return itm::say("done", *made);
}
