// tests/itm/threads/life.cpp -- threads are created, end, and are joined.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <string>

#include "tests/itm/program.h"
#include "tests/itm/threads/create.h"

namespace {

using itm::as_number;
using itm::as_result;

void *twice(void *argument) { return as_result(2 * as_number(argument)); }

void *wait_until_set(void *flag) {
  auto &set = *static_cast<std::atomic<int> *>(flag);
  while (set.load() == 0) sched_yield();
  return nullptr;
}

}  // namespace

ITM_PROGRAM(life_a_thousand_one_after_another, "999000") {
  long sum = 0;
  for (long i = 0; i < 1000; ++i) {
    pthread_t thread;
    void *result = nullptr;
    if (pthread_create(&thread, nullptr, twice, as_result(i)) != 0) return "create";
    if (pthread_join(thread, &result) != 0) return "join";
    sum += as_number(result);
  }
  return itm::say(sum);
}

ITM_PROGRAM(life_32_at_once, "496 32") {
  pthread_t threads[32];
  std::atomic<int> started{0}, go{0};
  struct Shared {
    std::atomic<int> *started, *go;
    std::atomic<long> number;
  } shared{&started, &go, 0};
  for (pthread_t &each : threads)
    if (pthread_create(
            &each, nullptr,
            [](void *argument) -> void * {
              Shared &all = *static_cast<Shared *>(argument);
              const long number = all.number.fetch_add(1);
              all.started->fetch_add(1);
              while (all.go->load() == 0) sched_yield();
              return as_result(number);
            },
            &shared) != 0)
      return "create";
  while (started.load() != 32) sched_yield();
  go = 1;
  long sum = 0;
  for (const pthread_t each : threads) {
    void *result = nullptr;
    if (pthread_join(each, &result) != 0) return "join";
    sum += as_number(result);
  }
  return itm::say(sum, started.load());
}

ITM_PROGRAM(life_detached_threads_end, "300") {
  static std::atomic<int> ended{0};
  const auto count = [](void *) -> void * {
    ended.fetch_add(1);
    return nullptr;
  };
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (int i = 0; i < 300; ++i) {
    pthread_t thread;
    // Threads that have counted may still be on their way out.
    while (const int error =
               pthread_create(&thread, i % 2 == 0 ? &detached : nullptr, count, nullptr))
      if (error != EAGAIN) return "create";
    if (i % 2 != 0 && pthread_detach(thread) != 0) return "detach";
  }
  while (ended.load() != 300) sched_yield();
  return itm::say(ended.load());
}

ITM_PROGRAM(life_joins_that_are_wrong, "deadlock invalid invalid busy timed out 0") {
  std::atomic<int> flag{0};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, wait_until_set, &flag) != 0) return "create";
  std::string verdict = pthread_join(pthread_self(), nullptr) == EDEADLK ? "deadlock" : "?";
  pthread_t detached;
  pthread_create(&detached, nullptr, wait_until_set, &flag);
  pthread_detach(detached);
  verdict += pthread_join(detached, nullptr) == EINVAL ? " invalid" : " ?";
  verdict += pthread_detach(detached) == EINVAL ? " invalid" : " ?";
  verdict += pthread_tryjoin_np(thread, nullptr) == EBUSY ? " busy" : " ?";
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec = until.tv_nsec / 2;
  verdict += pthread_timedjoin_np(thread, nullptr, &until) == ETIMEDOUT ? " timed out " : " ? ";
  flag = 1;
  return verdict + std::to_string(pthread_join(thread, nullptr));
}

// The C library's threads may both wait.
ITM_PROGRAM(pages_two_that_join_each_other, "deadlock") {
  struct Both {
    std::atomic<pthread_t> first{0}, second{0};
    std::atomic<int> errors{0};
  } both;
  itm::Thread first([&both] {
    while (both.second.load() == 0) sched_yield();
    if (pthread_join(both.second, nullptr) == EDEADLK) both.errors.fetch_add(1);
    return nullptr;
  });
  both.first = first.id();
  itm::Thread second([&both] {
    while (both.first.load() == 0) sched_yield();
    if (pthread_join(both.first, nullptr) == EDEADLK) both.errors.fetch_add(1);
    return nullptr;
  });
  both.second = second.id();
  while (both.errors.load() == 0) sched_yield();
  return "deadlock";
}

ITM_PROGRAM(life_nested_creation_joined_by_main, "60") {
  struct Made {
    pthread_t thread;
    int error;
  } made[10];
  itm::Thread creator([&made] {
    for (Made &each : made)
      each.error = pthread_create(&each.thread, nullptr, twice, as_result(&each - made));
    return nullptr;
  });
  creator.join();
  long sum = creator.error() == 0 ? -30 : -1000;
  for (const Made &each : made) {
    void *result = nullptr;
    if (each.error != 0 || pthread_join(each.thread, &result) != 0) return "join";
    sum += as_number(result);
  }
  return itm::say(sum);
}

ITM_PROGRAM(life_joined_by_another_than_its_creator, "84") {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, twice, as_result(42)) != 0) return "create";
  itm::Thread joiner([thread] {
    void *result = nullptr;
    return pthread_join(thread, &result) == 0 ? result : nullptr;
  });
  return itm::say(as_number(joiner.join()));
}

ITM_PROGRAM(life_creates_in_many_at_once, "800 0") {
  static std::atomic<int> ran{0}, failed{0};
  const auto create_all = [](void *) -> void * {
    for (int i = 0; i < 100; ++i) {
      pthread_t thread;
      const auto count = [](void *) -> void * {
        ran.fetch_add(1);
        return nullptr;
      };
      if (pthread_create(&thread, nullptr, count, nullptr) != 0 ||
          pthread_join(thread, nullptr) != 0)
        failed.fetch_add(1);
    }
    return nullptr;
  };
  pthread_t threads[8];
  for (pthread_t &each : threads) pthread_create(&each, nullptr, create_all, nullptr);
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  return itm::say(ran.load(), failed.load());
}

// Of method pages: so many threads at one time, 64 at least, main included.
ITM_PROGRAM(pages_one_thread_too_many, "again enough 0") {
  std::atomic<int> flag{0};
  std::deque<pthread_t> threads;
  int error = 0;
  for (pthread_t thread; (error = pthread_create(&thread, nullptr, wait_until_set, &flag)) == 0;)
    threads.push_back(thread);
  flag = 1;
  const std::size_t most = threads.size();
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  pthread_t thread;
  const int last = pthread_create(&thread, nullptr, wait_until_set, &flag);
  if (last == 0) pthread_join(thread, nullptr);
  return itm::say(error == EAGAIN ? "again" : "?", most >= 63 ? "enough" : "too few", last);
}

ITM_PROGRAM(life_pthread_exit_unwinds, "destroyed 7 7") {
  struct Noted {
    std::atomic<int> *word;
    ~Noted() { word->store(7); }
  };
  std::atomic<int> word{0};
  itm::Thread thread([&word]() -> void * {
    const Noted noted{&word};
    pthread_exit(as_result(7));
  });
  const long result = as_number(thread.join());
  return itm::say("destroyed", word.load(), result);
}

ITM_PROGRAM(life_main_leaves_before_the_others, "dies with 0") {
  static std::atomic<int> flag{0};
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void *) -> void * {
        while (flag.load() == 0) sched_yield();
        return nullptr;
      },
      nullptr);
  flag = 1;
  pthread_exit(nullptr);
}

ITM_PROGRAM(life_main_returns_while_others_run, "main") {
  static std::atomic<int> never{0};
  pthread_t thread;
  for (int i = 0; i < 10; ++i) pthread_create(&thread, nullptr, wait_until_set, &never);
  return "main";
}

ITM_PROGRAM(life_names_and_attributes, "worker 1 0") {
  std::atomic<int> flag{0}, is_named{0};
  itm::Thread named([&flag, &is_named] {
    is_named = pthread_setname_np(pthread_self(), "worker") == 0 ? 1 : 2;
    return wait_until_set(&flag);
  });
  while (is_named.load() == 0) sched_yield();
  char name[16] = {};
  if (pthread_getname_np(named.id(), name, 16) != 0) return "name";
  itm::Thread asker([] {
    pthread_attr_t attributes;
    void *begin = nullptr;
    std::size_t bytes = 0;
    const int local = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return as_result(-1);
    pthread_attr_getstack(&attributes, &begin, &bytes);
    pthread_attr_destroy(&attributes);
    const char *const at = reinterpret_cast<const char *>(&local);
    return as_result(at >= begin && at < static_cast<char *>(begin) + bytes ? 1 : 0);
  });
  const long inside = as_number(asker.join());
  flag = 1;
  named.join();
  return itm::say(name, inside, named.error());
}
