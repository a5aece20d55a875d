// tests/itm/threads/own.cpp -- what each thread has of its own: thread_local, errno, keys; and what
// all have: locals of other threads, globals.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/itm/program.h"
#include "tests/itm/threads/create.h"

namespace {

std::atomic<int> made{0}, destroyed{0};

struct Counted {
  int value = 5;
  Counted() { made.fetch_add(1); }
  ~Counted() { destroyed.fetch_add(1); }
};
thread_local Counted counted;
thread_local int plain = 3;
int shared_word = 0;
std::string shared_text = "before";

std::atomic<int> key_sum{0};
void add_to_sum(void *value) { key_sum.fetch_add(static_cast<int>(itm::as_number(value))); }

}  // namespace

ITM_PROGRAM(own_thread_locals_are_made_and_destroyed, "10 10 50") {
  int sum = 0;
  for (int i = 0; i < 10; ++i) {
    itm::Thread thread([] { return itm::as_result(counted.value++); });
    sum += static_cast<int>(itm::as_number(thread.join()));
  }
  return itm::say(made.load(), destroyed.load(), sum);
}

ITM_PROGRAM(own_thread_locals_begin_anew_in_a_reused_slot, "3 3 3") {
  std::string verdict;
  for (int i = 0; i < 3; ++i) {
    itm::Thread thread([] {
      const int before = plain;
      plain = 1000;
      errno = 77;
      return itm::as_result(before);
    });
    verdict += (i == 0 ? "" : " ") + std::to_string(itm::as_number(thread.join()));
  }
  return verdict;
}

ITM_PROGRAM(own_addresses_are_distinct, "17 17 17") {
  struct Seen {
    const void *local, *error;
    pthread_t self;
  } seen[16];
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (Seen &each : seen)
    threads.emplace_back([&each, &arrived] {
      each = {&plain, &errno, pthread_self()};
      arrived.fetch_add(1);
      while (arrived.load() != 16) sched_yield();
    });
  for (std::thread &each : threads) each.join();
  std::set<const void *> locals{&plain}, errors{&errno};
  std::set<pthread_t> ids{pthread_self()};
  for (const Seen &each : seen) {
    locals.insert(each.local);
    errors.insert(each.error);
    ids.insert(each.self);
  }
  return itm::say(locals.size(), errors.size(), ids.size());
}

ITM_PROGRAM(own_errno_stays, "2 9") {
  errno = ENOENT;
  itm::Thread thread([] {
    errno = 0;
    close(-1);
    return itm::as_result(errno);
  });
  const long theirs = itm::as_number(thread.join());
  return itm::say(errno, theirs);
}

ITM_PROGRAM(own_keys_have_values_and_destructors, "null null 7 45") {
  pthread_key_t key;
  if (pthread_key_create(&key, add_to_sum) != 0) return "key";
  pthread_setspecific(key, itm::as_result(7));
  std::string verdict;
  for (int i = 0; i < 10; ++i) {
    itm::Thread thread([key, i] {
      void *const before = pthread_getspecific(key);
      pthread_setspecific(key, itm::as_result(i));
      return before;
    });
    if (thread.join() == nullptr && i < 2) verdict += "null ";
  }
  return verdict + itm::say(itm::as_number(pthread_getspecific(key)), key_sum.load());
}

ITM_PROGRAM(own_a_key_that_a_thread_makes, "4 4 invalid null") {
  pthread_key_t key = 0;
  itm::Thread maker([&key] {
    pthread_key_create(&key, nullptr);
    pthread_setspecific(key, itm::as_result(4));
    return pthread_getspecific(key);
  });
  const long theirs = itm::as_number(maker.join());
  pthread_setspecific(key, itm::as_result(4));
  std::string verdict = itm::say(theirs, itm::as_number(pthread_getspecific(key)));
  pthread_key_delete(key);
  verdict += pthread_key_delete(key) == EINVAL ? " invalid" : " ?";
  pthread_key_t next;
  pthread_key_create(&next, nullptr);
  return verdict + (pthread_getspecific(next) == nullptr ? " null" : " ?");
}

ITM_PROGRAM(own_mains_locals_are_used_by_others, "499500 1000") {
  std::vector<int> numbers(1000, 0);
  int local = 0;
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) numbers[static_cast<std::size_t>(i)] = i;
    local = 1000;
  });
  writer.join();
  long sum = 0;
  for (const int each : numbers) sum += each;
  return itm::say(sum, local);
}

ITM_PROGRAM(own_globals_are_shared, "12 longer than what fits into the object itself") {
  itm::Thread thread([]() -> void * {
    shared_word = 12;
    shared_text = "longer than what fits into the object itself";
    return nullptr;
  });
  thread.join();
  return itm::say(shared_word, shared_text);
}

ITM_PROGRAM(own_spins_between_threads, "2000") {
  std::atomic<int> turn{0};
  itm::Thread thread([&turn]() -> void * {
    for (int i = 1; i < 2000; i += 2) {
      while (turn.load() != i) sched_yield();
      turn.store(i + 1);
    }
    return nullptr;
  });
  for (int i = 0; i < 2000; i += 2) {
    while (turn.load() != i) sched_yield();
    turn.store(i + 1);
  }
  thread.join();
  return itm::say(turn.load());
}
