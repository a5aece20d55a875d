// tests/itm/threads/create.h -- threads by pthread_create() from lambdas.
#pragma once

#include <pthread.h>

#include <utility>

namespace itm {

// The function's result is the thread's. The object lives until the thread was joined.
template <class Function>
class Thread {
 public:
  explicit Thread(Function function) : function_(std::move(function)) {
    error_ = pthread_create(&thread_, nullptr, run, this);
  }
  Thread(const Thread &) = delete;
  Thread &operator=(const Thread &) = delete;

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] pthread_t id() const { return thread_; }
  void *join() {
    void *result = nullptr;
    if (error_ == 0) error_ = pthread_join(thread_, &result);
    return result;
  }

 private:
  static void *run(void *self) { return static_cast<Thread *>(self)->function_(); }

  Function function_;
  pthread_t thread_{};
  int error_ = 0;
};

inline void *as_result(long value) { return reinterpret_cast<void *>(value); }
inline long as_number(void *result) { return reinterpret_cast<long>(result); }

}  // namespace itm
