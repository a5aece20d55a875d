// tests/itm/threads/standard.cpp -- threads and waits of the C++ standard library.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/itm/program.h"

namespace {

std::mutex mutex;
std::condition_variable condition;
std::once_flag flag;
int made = 0;

struct SlowToMake {
  SlowToMake() {
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    ++made;
  }
  int value = 9;
};

int static_of_function() {
  static const SlowToMake object;
  return object.value;
}

template <class Work>
void in_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread &each : threads) each.join();
}

}  // namespace

ITM_PROGRAM(standard_mutex_and_vector, "8000") {
  std::vector<int> numbers;
  in_threads(8, [&numbers](int number) {
    for (int i = 0; i < 1000; ++i) {
      const std::lock_guard held(mutex);
      numbers.push_back(number);
    }
  });
  return itm::say(numbers.size());
}

ITM_PROGRAM(standard_condition_variable, "1000 timed out") {
  int turn = 0;
  std::thread other([&turn] {
    for (int i = 1; i < 1000; i += 2) {
      std::unique_lock held(mutex);
      condition.wait(held, [&turn, i] { return turn == i; });
      ++turn;
      condition.notify_all();
    }
  });
  for (int i = 0; i < 1000; i += 2) {
    std::unique_lock held(mutex);
    condition.wait(held, [&turn, i] { return turn == i; });
    ++turn;
    condition.notify_all();
  }
  other.join();
  std::unique_lock held(mutex);
  const bool is_met = condition.wait_for(held, std::chrono::milliseconds(5), [] { return false; });
  return itm::say(turn, is_met ? "met" : "timed out");
}

ITM_PROGRAM(standard_call_once, "1") {
  in_threads(16, [](int) { std::call_once(flag, [] { ++made; }); });
  return itm::say(made);
}

ITM_PROGRAM(standard_call_once_that_throws, "thrown 1") {
  std::string verdict = "?";
  try {
    std::call_once(flag, [] { throw std::runtime_error("thrown"); });
  } catch (const std::runtime_error &error) {
    verdict = error.what();
  }
  in_threads(4, [](int) { std::call_once(flag, [] { ++made; }); });
  return itm::say(verdict, made);
}

ITM_PROGRAM(standard_function_local_static_is_made_once, "144 1") {
  std::atomic<int> sum{0};
  in_threads(16, [&sum](int) { sum.fetch_add(static_of_function()); });
  return itm::say(sum.load(), made);
}

ITM_PROGRAM(standard_async_and_exceptions, "45 thrown") {
  std::vector<std::future<int>> results;
  for (int i = 0; i < 10; ++i) results.push_back(std::async(std::launch::async, [i] { return i; }));
  int sum = 0;
  for (std::future<int> &each : results) sum += each.get();
  std::future<void> failing =
      std::async(std::launch::async, [] { throw std::runtime_error("thrown"); });
  try {
    failing.get();
  } catch (const std::runtime_error &error) {
    return itm::say(sum, error.what());
  }
  return "?";
}

ITM_PROGRAM(standard_promise, "5") {
  std::promise<int> promise;
  std::future<int> result = promise.get_future();
  std::thread thread([&promise] { promise.set_value(5); });
  const int value = result.get();
  thread.join();
  return itm::say(value);
}

ITM_PROGRAM(standard_atomic_wait, "1000") {
  std::atomic<int> turn{0};
  std::thread other([&turn] {
    for (int i = 1; i < 1000; i += 2) {
      for (int seen = turn; seen != i; seen = turn) turn.wait(seen);
      turn = i + 1;
      turn.notify_all();
    }
  });
  for (int i = 0; i < 1000; i += 2) {
    for (int seen = turn; seen != i; seen = turn) turn.wait(seen);
    turn = i + 1;
    turn.notify_all();
  }
  other.join();
  return itm::say(turn.load());
}

ITM_PROGRAM(standard_latch_barrier_semaphore, "4 400 100") {
  std::latch latch(4);
  std::barrier barrier(4);
  std::counting_semaphore<100> semaphore(0);
  std::atomic<int> arrived{0}, rounds{0};
  int taken = 0;
  std::thread taker([&] {
    for (; taken < 100; ++taken) semaphore.acquire();
  });
  in_threads(4, [&](int) {
    arrived.fetch_add(1);
    latch.arrive_and_wait();
    for (int i = 0; i < 100; ++i) {
      rounds.fetch_add(1);
      barrier.arrive_and_wait();
    }
    for (int i = 0; i < 25; ++i) semaphore.release();
  });
  taker.join();
  return itm::say(arrived.load(), rounds.load(), taken);
}

ITM_PROGRAM(standard_shared_mutex_and_shared_ptr, "2000 1") {
  std::shared_mutex lock;
  auto number = std::make_shared<int>(0);
  in_threads(4, [&lock, number](int) {
    for (int i = 0; i < 500; ++i) {
      const std::shared_ptr<int> copy = number;
      const std::unique_lock held(lock);
      ++*copy;
    }
  });
  return itm::say(*number, number.use_count());
}

ITM_PROGRAM(standard_exceptions_in_threads, "800") {
  std::atomic<int> caught{0};
  in_threads(8, [&caught](int) {
    for (int i = 0; i < 100; ++i) try {
        throw std::runtime_error(std::to_string(i));
      } catch (const std::exception &error) {
        if (error.what() == std::to_string(i)) caught.fetch_add(1);
      }
  });
  return itm::say(caught.load());
}

ITM_PROGRAM(standard_exception_that_leaves_a_thread, "dies of 6") {
  std::thread thread([] { throw std::runtime_error("nobody catches it"); });
  thread.join();
  return "?";
}

ITM_PROGRAM(standard_jthread_and_sleep, "stopped") {
  std::atomic<bool> is_running{false}, is_stopped{false};
  {
    std::jthread thread([&](const std::stop_token &token) {
      is_running = true;
      while (!token.stop_requested()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      is_stopped = true;
    });
    while (!is_running) std::this_thread::yield();
  }
  return is_stopped ? "stopped" : "?";
}
