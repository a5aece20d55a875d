// tests/itm/programs/threads.cpp -- threads that come and go, contention, large transactions,
// signals, fork, and transactions before and after main().
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"
#include "tests/itm/put.h"

namespace {

long word;
long other_word;

void add_one() {
  __transaction_atomic { word = word + 1; }
}

constexpr int kAccounts = 64;
constexpr long kMoneyInAll = kAccounts * 1000;
struct alignas(64) Account {
  long money;
};
Account accounts[kAccounts];

void open_accounts() {
  for (Account &each : accounts) each.money = 1000;
}

long read_all() {
  long sum = 0;
  __transaction_atomic {
    long all = 0;
    for (const Account &each : accounts) all += each.money;
    sum = all;
  }
  return sum;
}

void transfer(unsigned seed, int count) {
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    const unsigned from = (seed >> 8) % kAccounts;
    const unsigned to = (seed >> 16) % kAccounts;
    const long amount = static_cast<long>(seed >> 28);
    __transaction_atomic {
      accounts[from].money = accounts[from].money - amount;
      accounts[to].money = accounts[to].money + amount;
    }
  }
}

template <typename Work>
void on_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread &each : threads) each.join();
}

// A transaction before main().
struct Early {
  Early() {
    __transaction_atomic {
      word = word + 5;
      other_word = word + 1;
    }
    at_start = word * 100 + other_word;
    word = other_word = 0;
  }
  long at_start;
};
const Early early;

struct Late {
  ~Late() {
    __transaction_atomic { word = word + 1; }
  }
};

volatile sig_atomic_t signals_seen;

void on_signal(int) { signals_seen = signals_seen + 1; }

void handle(int signal_number, int flags) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  sigaction(signal_number, &action, nullptr);
}

// Two threads add while a signal comes every millisecond.
void add_under_signals(int flags) {
  handle(SIGALRM, flags);
  const itimerval every_millisecond = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every_millisecond, nullptr);
  std::thread other([] {
    for (int i = 0; i < 100000; ++i) add_one();
  });
  for (int i = 0; i < 100000; ++i) add_one();
  other.join();
  while (signals_seen == 0) sched_yield();
  const itimerval never = {};
  setitimer(ITIMER_REAL, &never, nullptr);
}

ITM_PURE [[gnu::noinline]] void send_to_oneself() { pthread_kill(pthread_self(), SIGUSR1); }

ITM_PURE [[gnu::noinline]] void exit_thread() { pthread_exit(nullptr); }

ITM_PURE [[gnu::noinline]] void exit_thread_noexcept() noexcept { pthread_exit(nullptr); }

// Exit code of a child that runs `act`.
template <typename Act>
int in_a_child(Act act) {
  const pid_t child = fork();
  if (child == 0) _exit(act());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

constexpr long kLines = 100000;
struct alignas(64) Line {
  long value;
};

Line *new_lines() {
  Line *const lines = static_cast<Line *>(std::aligned_alloc(64, kLines * sizeof(Line)));
  for (long i = 0; i < kLines; ++i) lines[i].value = i;
  return lines;
}

}  // namespace

ITM_PROGRAM(threads_count_together, "80000") {
  on_threads(4, [](int) {
    for (int i = 0; i < 20000; ++i) add_one();
  });
  return itm::say(word);
}

ITM_PROGRAM(threads_count_apart_in_one_line, "20000 20000 20000 20000") {
  alignas(64) static long counters[4];
  on_threads(4, [](int mine) {
    for (int i = 0; i < 20000; ++i) {
      __transaction_atomic { counters[mine] = counters[mine] + 1; }
    }
  });
  return itm::say(counters[0], counters[1], counters[2], counters[3]);
}

ITM_PROGRAM(threads_many_at_once, "6400") {
  on_threads(64, [](int) {
    for (int i = 0; i < 100; ++i) add_one();
  });
  return itm::say(word);
}

ITM_PROGRAM(threads_one_after_another, "1000") {
  for (int i = 0; i < 1000; ++i) {
    std::thread one(add_one);
    one.join();
  }
  return itm::say(word);
}

ITM_PROGRAM(threads_that_end_beside_others, "30200") {
  std::thread steady([] {
    for (int i = 0; i < 30000; ++i) add_one();
  });
  for (int i = 0; i < 200; ++i) {
    std::thread one(add_one);
    one.join();
  }
  steady.join();
  return itm::say(word);
}

ITM_PROGRAM(threads_that_are_detached, "50") {
  for (int i = 0; i < 50; ++i) {
    std::thread([] {
      add_one();
      itm::tell(0);
    }).detach();
  }
  itm::wait_for(0, 50);
  long seen = 0;
  __transaction_atomic { seen = word; }
  return itm::say(seen);
}

ITM_PROGRAM(threads_bank_keeps_its_money, "0 wrong 64000") {
  open_accounts();
  std::thread first(transfer, 1U, 20000);
  std::thread second(transfer, 2U, 20000);
  int wrong = 0;
  for (int i = 0; i < 500; ++i) wrong += read_all() != kMoneyInAll;
  first.join();
  second.join();
  return itm::say(wrong, "wrong", read_all());
}

ITM_PROGRAM(threads_write_skew, "0 skews") {
  // Each takes its own word if the other's is free: both at once is no serial order. A method with
  // snapshot isolation says another number.
  for (int round = 1; round <= 2000; ++round) {
    word = other_word = 0;
    if (round == 1) {
      std::thread([] {
        for (int turn = 1; turn <= 2000; ++turn) {
          itm::wait_for(0, turn);
          __transaction_atomic {
            if (word == 0) itm::put(&other_word, 1);
          }
          itm::tell(1);
        }
      }).detach();
    }
    itm::tell(0);
    __transaction_atomic {
      if (other_word == 0) itm::put(&word, 1);
    }
    itm::wait_for(1, round);
    if (word == 1 && other_word == 1) itm::tell(2);
  }
  return itm::say(itm::told(2), "skews");
}

ITM_PROGRAM(threads_swap_in_turns, "0 9 done") {
  // Two words that are exchanged by two threads stay two words.
  word = 0;
  other_word = 9;
  on_threads(2, [](int) {
    for (int i = 0; i < 10000; ++i) {
      __transaction_atomic {
        const long held = word;
        word = other_word;
        other_word = held;
      }
    }
  });
  return itm::say(word, other_word, "done");
}

ITM_PROGRAM(threads_exit_inside, "1") {
  // The thread's end unwinds the stack as an exception does: that commits the transaction.
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void *) -> void * {
        __transaction_atomic {
          itm::put(&word, 1);
          exit_thread();
          itm::put(&word, 2);
        }
        return nullptr;
      },
      nullptr);
  pthread_join(thread, nullptr);
  long seen = 0;
  __transaction_atomic { seen = word; }
  return itm::say(seen);
}

ITM_PROGRAM(threads_exit_inside_through_noexcept, "dies of 6") {
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void *) -> void * {
        __transaction_atomic {
          itm::put(&word, 1);
          exit_thread_noexcept();
        }
        return nullptr;
      },
      nullptr);
  pthread_join(thread, nullptr);
  return itm::say(word);
}

ITM_PROGRAM(threads_large_write_set, "100000 0") {
  Line *const lines = new_lines();
  __transaction_atomic {
    for (long i = 0; i < kLines; ++i) itm::put(&lines[i].value, i + 1);
  }
  long right = 0;
  for (long i = 0; i < kLines; ++i) right += lines[i].value == i + 1;
  __transaction_atomic {
    for (long i = 0; i < kLines; ++i) itm::put(&lines[i].value, 0);
    __transaction_cancel;
  }
  long wrong = 0;
  for (long i = 0; i < kLines; ++i) wrong += lines[i].value != i + 1;
  return itm::say(right, wrong);
}

ITM_PROGRAM(threads_large_read_set, "4999950000 0") {
  Line *const lines = new_lines();
  long sum = 0;
  __transaction_atomic {
    long all = 0;
    for (long i = 0; i < kLines; ++i) all += lines[i].value;
    sum = all;
  }
  return itm::say(sum, word);
}

ITM_PROGRAM(threads_large_read_set_beside_writers, "0 wrong") {
  // Pairs of lines: a writer moves one from one line to its partner; the sum stays.
  static Line *const lines = new_lines();
  constexpr long kUsed = 10000;
  long expected = 0;
  for (long i = 0; i < kUsed; ++i) expected += lines[i].value;
  std::thread writer([] {
    for (long i = 0; i < 20000; ++i) {
      const long at = (i * 7919) % (kUsed / 2);
      __transaction_atomic {
        lines[at].value = lines[at].value - 1;
        lines[kUsed - 1 - at].value = lines[kUsed - 1 - at].value + 1;
      }
    }
  });
  int wrong = 0;
  for (int round = 0; round < 10; ++round) {
    long sum = 0;
    __transaction_atomic {
      long all = 0;
      for (long i = 0; i < kUsed; ++i) all += lines[i].value;
      sum = all;
    }
    wrong += sum != expected;
  }
  writer.join();
  return itm::say(wrong, "wrong");
}

ITM_PROGRAM(threads_signal_to_oneself_inside, "handled 1") {
  handle(SIGUSR1, 0);
  __transaction_atomic {
    word = word + 1;
    send_to_oneself();
  }
  return itm::say(signals_seen > 0 ? "handled" : "lost", word);
}

ITM_PROGRAM(threads_signals_all_the_time, "200000 handled") {
  add_under_signals(SA_RESTART);
  return itm::say(word, "handled");
}

ITM_PROGRAM(threads_signals_that_interrupt_waits, "200000 handled") {
  add_under_signals(0);
  return itm::say(word, "handled");
}

ITM_PROGRAM(threads_fork_between_transactions, "7 3 4") {
  itm::put(&word, 3);
  const int child = in_a_child([] {
    __transaction_atomic { word = word + 4; }
    return static_cast<int>(word);
  });
  const long before = word;
  add_one();
  return itm::say(child, before, word);
}

ITM_PROGRAM(threads_fork_with_other_threads, "2100 1") {
  // The other thread waits between two transactions when the child is made.
  std::thread other([] {
    for (int i = 0; i < 1000; ++i) add_one();
    itm::tell(0);
    itm::wait_for(1, 1);
    for (int i = 0; i < 1000; ++i) add_one();
  });
  itm::wait_for(0, 1);
  const int child = in_a_child([] {
    const long before = word;
    add_one();
    return static_cast<int>(word - before);
  });
  itm::tell(1);
  for (int i = 0; i < 100; ++i) add_one();
  other.join();
  return itm::say(word, child);
}

ITM_PROGRAM(threads_in_a_child, "40") {
  const int child = in_a_child([] {
    on_threads(4, [](int) {
      for (int i = 0; i < 10; ++i) add_one();
    });
    return static_cast<int>(word);
  });
  return itm::say(child);
}

ITM_PROGRAM(threads_transaction_before_main, "506") { return itm::say(early.at_start); }

ITM_PROGRAM(threads_transaction_at_the_end_of_a_thread, "20") {
  for (int i = 0; i < 20; ++i) {
    std::thread one([] {
      static thread_local Late late;
      static_cast<void>(&late);
    });
    one.join();
  }
  return itm::say(word);
}

ITM_PROGRAM(threads_transaction_before_and_at_the_end, "40") {
  for (int i = 0; i < 20; ++i) {
    std::thread one([] {
      add_one();
      static thread_local Late late;
      static_cast<void>(&late);
    });
    one.join();
  }
  return itm::say(word);
}

ITM_PROGRAM(threads_transaction_in_a_key_destructor, "20") {
  static pthread_key_t key;
  pthread_key_create(&key, [](void *) { add_one(); });
  for (int i = 0; i < 10; ++i) {
    std::thread one([] {
      pthread_setspecific(key, &word);
      add_one();
    });
    one.join();
  }
  return itm::say(word);
}

ITM_PROGRAM(threads_transaction_at_exit, "3") {
  // In a child, whose handlers run at exit() and say by their own exit code what they found.
  const int child = in_a_child([] {
    std::atexit([] {
      __transaction_atomic { word = word + 2; }
      _exit(static_cast<int>(word));
    });
    add_one();
    std::exit(0);
    return 0;
  });
  return itm::say(child);
}
