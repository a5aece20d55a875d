// platform/thread_object.h -- a T of each thread that lives longer than the thread's thread_local objects, and in the main thread for ever.
// Shape:     made at the first here() of a thread. A thread that ends destroys it behind all its thread_local objects, whose destructors may
//            still ask for it; what asks later makes another one, which is destroyed in turn. exit() destroys none, because the destructors
//            of static objects come after it.
// Contexts:  NOT async-signal-safe. No memory: std::bad_alloc. No key left (PTHREAD_KEYS_MAX): it stays when its thread ends.
// Source:    pthread_key_create(3): glibc calls a key's destructor after those of thread_local objects.
#pragma once

#include <pthread.h>

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
  // Gone before the library's code is: a thread that ends later leaves its object behind.
  struct Key {
    pthread_key_t key{};
    const bool is_made = pthread_key_create(&key, end) == 0;
    ~Key() {
      if (is_made) pthread_key_delete(key);
    }
  };

  static void make() {
    object_ = new T();
    static const Key key;
    if (key.is_made) (void)pthread_setspecific(key.key, object_);
  }
  static void end(void *object) noexcept {
    object_ = nullptr;
    delete static_cast<T *>(object);
  }

  static inline constinit thread_local T *object_ = nullptr;
};

}  // namespace tmh::platform
