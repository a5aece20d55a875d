// tests/itm/programs/memory.cpp -- new, delete, malloc and free in transactions that commit and in
// those that do not.
// Shape:     counted_new's operator new and delete count what is live; the count is plain memory,
//            so a method that takes back all of an aborted attempt takes the count back with it.
//            malloc is judged by resident memory: what an aborted transaction keeps would grow it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/itm/abi.h"
#include "tests/itm/counted_new.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long word;
const std::nothrow_t *const nothrow = &std::nothrow;

struct Node {
  long value;
  Node *next;
};
Node *head;

[[gnu::transaction_safe, gnu::noinline]] void set_head(Node *node) { head = node; }

[[gnu::transaction_safe, gnu::noinline]] void push(long value) {
  Node *const node = new Node;
  node->value = value;
  node->next = head;
  set_head(node);
}

[[gnu::transaction_safe, gnu::noinline]] long pop() {
  Node *const node = head;
  if (node == nullptr) return -1;
  const long value = node->value;
  set_head(node->next);
  delete node;
  return value;
}

long nodes() {
  long count = 0;
  for (const Node *node = head; node != nullptr; node = node->next) ++count;
  return count;
}

struct Throws {
  [[gnu::transaction_safe, gnu::noinline]] explicit Throws(int value) : code(value) {
    if (value > 0) throw value;
  }
  int code;
};

long resident_pages() {
  std::FILE *const statm = std::fopen("/proc/self/statm", "r");
  long all = 0;
  long resident = -1;
  if (statm == nullptr || std::fscanf(statm, "%ld %ld", &all, &resident) != 2) resident = -1;
  if (statm != nullptr) std::fclose(statm);
  return resident;
}

constexpr int kRounds = 600;
constexpr std::size_t kBlockBytes = 1 << 20;
// What a leak of each round would keep is 600 MB; an allocator may keep some.
constexpr long kGrownPagesMax = 32768;

const char *bounded(long pages_before) {
  return resident_pages() - pages_before < kGrownPagesMax ? "bounded" : "grew";
}

// Each page of a block is touched.
[[gnu::transaction_pure, gnu::noinline]] void touch(void *block) {
  for (std::size_t i = 0; i < kBlockBytes; i += 4096) static_cast<volatile char *>(block)[i] = 1;
}

}  // namespace

ITM_PROGRAM(memory_new_is_kept_by_a_commit, "1 7") {
  const long before = itm::live_objects;
  __transaction_atomic { push(7); }
  return itm::say(itm::live_objects - before, head->value);
}

ITM_PROGRAM(memory_new_is_given_back_by_a_cancel, "0 0") {
  const long before = itm::live_objects;
  __transaction_atomic {
    for (long i = 0; i < 100; ++i) push(i);
    __transaction_cancel;
  }
  return itm::say(itm::live_objects - before, nodes());
}

ITM_PROGRAM(memory_delete_is_done_by_a_commit, "-1 0") {
  push(3);
  const long before = itm::live_objects;
  __transaction_atomic { pop(); }
  return itm::say(itm::live_objects - before, nodes());
}

ITM_PROGRAM(memory_delete_is_not_done_by_a_cancel, "0 1 3") {
  push(3);
  const long before = itm::live_objects;
  __transaction_atomic {
    pop();
    __transaction_cancel;
  }
  return itm::say(itm::live_objects - before, nodes(), head->value);
}

ITM_PROGRAM(memory_new_and_delete_in_one_commit, "0 0") {
  const long before = itm::live_objects;
  __transaction_atomic {
    push(1);
    push(2);
    pop();
    pop();
  }
  return itm::say(itm::live_objects - before, nodes());
}

ITM_PROGRAM(memory_new_and_delete_in_one_cancel, "0 0") {
  const long before = itm::live_objects;
  __transaction_atomic {
    push(1);
    push(2);
    pop();
    pop();
    __transaction_cancel;
  }
  return itm::say(itm::live_objects - before, nodes());
}

ITM_PROGRAM(memory_array_in_both, "1 0") {
  static char *array;
  const long before = itm::live_objects;
  __transaction_atomic {
    array = new char[500];
    array[499] = 1;
    __transaction_cancel;
  }
  const bool none = array == nullptr && itm::live_objects == before;
  __transaction_atomic { array = new char[500]; }
  __transaction_atomic {
    delete[] array;
    array = nullptr;
  }
  return itm::say(none, itm::live_objects - before);
}

ITM_PROGRAM(memory_nothrow_in_both, "0 0") {
  const long before = itm::live_objects;
  __transaction_atomic {
    long *const one = static_cast<long *>(_ZGTtnwmRKSt9nothrow_t(sizeof(long), nothrow));
    void *const many = _ZGTtnamRKSt9nothrow_t(100, nothrow);
    word = *one;
    _ZGTtdlPvRKSt9nothrow_t(one, nothrow);
    _ZGTtdaPvRKSt9nothrow_t(many, nothrow);
  }
  const long after_commit = itm::live_objects - before;
  __transaction_atomic {
    word = _ZGTtnwmRKSt9nothrow_t(sizeof(long), nothrow) != nullptr;
    __transaction_cancel;
  }
  return itm::say(after_commit, itm::live_objects - before);
}

ITM_PROGRAM(memory_sized_delete, "0 1") {
  static void *kept = ::operator new(40);
  static void *freed = ::operator new(40);
  const long before = itm::live_objects;
  __transaction_atomic {
    _ZGTtdlPvm(kept, 40);
    word = 1;
    __transaction_cancel;
  }
  const long after_cancel = itm::live_objects - before;
  __transaction_atomic {
    _ZGTtdlPvm(freed, 40);
    word = 1;
  }
  return itm::say(after_cancel, before - itm::live_objects);
}

ITM_PROGRAM(memory_delete_of_null, "done") {
  static Node *none = nullptr;
  __transaction_atomic {
    delete none;
    std::free(none);
    word = 1;
  }
  return "done";
}

ITM_PROGRAM(memory_constructor_that_throws, "0 4") {
  // The new expression frees by the clone of delete what it has allocated.
  const long before = itm::live_objects;
  int caught = 0;
  try {
    __transaction_atomic {
      word = 1;
      word = (new Throws(4))->code;
    }
  } catch (int value) {
    caught = value;
  }
  return itm::say(itm::live_objects - before, caught);
}

ITM_PROGRAM(memory_nested_cancel_gives_back_its_own, "1 5") {
  const long before = itm::live_objects;
  __transaction_atomic {
    push(5);
    __transaction_atomic {
      for (long i = 0; i < 10; ++i) word = reinterpret_cast<long>(new Node);
      __transaction_cancel;
    }
  }
  return itm::say(itm::live_objects - before, head->value);
}

ITM_PROGRAM(memory_nested_cancel_keeps_what_it_deleted, "0 6") {
  static Node *kept = new Node{6, nullptr};
  const long before = itm::live_objects;
  __transaction_atomic {
    word = 1;
    __transaction_atomic {
      delete kept;
      kept = nullptr;
      __transaction_cancel;
    }
  }
  return itm::say(itm::live_objects - before, kept == nullptr ? 0 : kept->value);
}

ITM_PROGRAM(memory_nested_new_outer_cancel, "0 0") {
  const long before = itm::live_objects;
  __transaction_atomic {
    word = 1;
    __transaction_atomic { push(5); }
    itm::look_away();
    __transaction_cancel;
  }
  return itm::say(itm::live_objects - before, nodes());
}

ITM_PROGRAM(memory_delete_in_an_irrevocable_one, "0") {
  const long before = itm::live_objects;
  __transaction_relaxed {
    push(1);
    _ITM_changeTransactionMode(modeSerialIrrevocable);
    push(2);
    pop();
    pop();
  }
  return itm::say(itm::live_objects - before);
}

ITM_PROGRAM(memory_malloc_in_cancelled_ones, "bounded") {
  const long before = resident_pages();
  for (int round = 0; round < kRounds; ++round) {
    __transaction_atomic {
      void *const block = std::malloc(kBlockBytes);
      touch(block);
      itm::put(&word, 1);
      __transaction_cancel;
    }
  }
  return bounded(before);
}

ITM_PROGRAM(memory_malloc_and_free_in_one, "bounded") {
  const long before = resident_pages();
  for (int round = 0; round < kRounds; ++round) {
    __transaction_atomic {
      void *const block = std::malloc(kBlockBytes);
      touch(block);
      itm::put(&word, 1);
      std::free(block);
    }
  }
  return bounded(before);
}

ITM_PROGRAM(memory_malloc_then_free_in_another, "bounded") {
  static void *block;
  const long before = resident_pages();
  for (int round = 0; round < kRounds; ++round) {
    __transaction_atomic { block = std::malloc(kBlockBytes); }
    std::memset(block, 1, kBlockBytes);
    __transaction_atomic { std::free(block); }
  }
  return bounded(before);
}

ITM_PROGRAM(memory_free_in_a_cancelled_one, "2000 right") {
  static long *block = static_cast<long *>(std::malloc(64));
  int right = 0;
  for (long round = 0; round < 2000; ++round) {
    *block = round;
    __transaction_atomic {
      std::free(block);
      itm::put(&word, 1);
      __transaction_cancel;
    }
    // A block that was freed in spite of the cancel would come back here.
    void *const other = std::malloc(64);
    std::memset(other, 0x55, 64);
    right += *block == round && other != block;
    std::free(other);
  }
  return itm::say(right, "right");
}

ITM_PROGRAM(memory_calloc_is_zero, "0 100") {
  long wrong = 0;
  int rounds = 0;
  for (; rounds < 100; ++rounds) {
    __transaction_atomic {
      unsigned char *const block = static_cast<unsigned char *>(std::calloc(40, 5));
      for (int i = 0; i < 200; ++i) wrong += block[i];
      for (int i = 0; i < 200; ++i) block[i] = 0xff;
      std::free(block);
    }
  }
  return itm::say(wrong, rounds);
}

ITM_PROGRAM(memory_calloc_of_too_much, "null") {
  static std::size_t much = ~std::size_t{0} / 4;
  void *block = nullptr;
  __transaction_atomic {
    word = 1;
    block = _ITM_calloc(much, 8);
  }
  return block == nullptr ? "null" : "some";
}

ITM_PROGRAM(memory_one_allocates_another_frees, "0 5000") {
  const long before = itm::live_objects;
  std::thread producer([] {
    for (long i = 0; i < 5000; ++i) {
      __transaction_atomic { push(i); }
    }
    itm::tell(0);
  });
  const long with_thread = itm::live_objects;
  long popped = 0;
  while (popped < 5000) {
    long value = 0;
    __transaction_atomic { value = pop(); }
    popped += value >= 0;
  }
  itm::wait_for(0, 1);
  producer.join();
  static_cast<void>(with_thread);
  return itm::say(itm::live_objects - before, popped);
}

ITM_PROGRAM(memory_list_built_and_torn_down, "0 4950") {
  const long before = itm::live_objects;
  long sum = 0;
  __transaction_atomic {
    for (long i = 0; i < 100; ++i) push(i);
  }
  __transaction_atomic {
    long all = 0;
    while (head != nullptr) all += pop();
    sum = all;
  }
  return itm::say(itm::live_objects - before, sum);
}
