// platform/thread_object.h -- a T of each thread that lives longer than the thread's thread_local objects, and in the main thread for ever.
// Shape:     made at the first here() of a thread. A thread that ends destroys it behind all its thread_local objects, whose destructors may
//            still ask for it; what asks later makes another one, which is destroyed in turn. exit() destroys none, because the destructors
//            of static objects come after it.
// Contexts:  NOT async-signal-safe. No memory: std::bad_alloc. No key left (PTHREAD_KEYS_MAX): it stays when its thread ends.
// Source:    pthread_key_create(3): glibc calls a key's destructor after those of thread_local objects.
#pragma once

#include <pthread.h>

#include <atomic>

namespace tmh::platform {

template <class T>
class ThreadObject {
 public:
  [[nodiscard]] static T &here() {
    if (object_ == nullptr) [[unlikely]]
      make();
    return *object_;
  }

 private:
  // Deleted before the library's code is gone: a thread that ends later leaves its object behind. Whether it is there stays known to static
  // objects whose destructors run later: its number may be another library's by then.
  struct Key {
    Key() { has_key_.store(pthread_key_create(&key_, end) == 0, std::memory_order_relaxed); }
    Key(const Key &) = delete;
    Key &operator=(const Key &) = delete;
    ~Key() {
      if (has_key_.exchange(false, std::memory_order_relaxed)) pthread_key_delete(key_);
    }
  };

  static void make() {
    object_ = new T();
    static const Key key;
    if (has_key_.load(std::memory_order_relaxed)) (void)pthread_setspecific(key_, object_);
  }
  static void end(void *object) noexcept {
    object_ = nullptr;
    delete static_cast<T *>(object);
  }

  static inline constinit thread_local T *object_ = nullptr;
  static inline constinit pthread_key_t key_ = 0;
  static inline constinit std::atomic<bool> has_key_{false};  // relaxed: the initialization of `key` comes before
};

}  // namespace tmh::platform
