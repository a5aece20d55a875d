// platform/thread_object.h -- a T of each thread that lives longer than the thread's thread_local
// objects, and in the main thread for ever.
// Shape:     made at the first here() of a thread. A thread that ends destroys it behind all its
//            thread_local objects, whose destructors may still ask for it; what asks later makes
//            another one, which is destroyed in turn. exit() destroys none, because the destructors
//            of static objects come after it. The key is never deleted: threads that run while
//            others are in exit() would hold a number that may be another library's by then. The
//            code that it calls is never unloaded (cmake/libraries.cmake).
// Contexts:  NOT async-signal-safe. No memory: std::bad_alloc. No key left (PTHREAD_KEYS_MAX): it
//            stays when its thread ends.
// Source:    pthread_key_create(3): glibc calls a key's destructor after those of thread_local
//            objects.
#pragma once

#include <pthread.h>

#include "platform/assert.h"

namespace tmh::platform {

template <class T>
class ThreadObject {
 public:
  [[nodiscard]] static T &here() {
    if (object_ == nullptr) [[unlikely]]
      make();
    return *object_;
  }
  // Null: the thread has none yet.
  [[nodiscard]] static T *if_made() noexcept { return object_; }

 private:
  struct Key {
    pthread_key_t number{};
    bool is_there = pthread_key_create(&number, end) == 0;
  };

  static void make() {
    object_ = new T();
    if (key_.is_there) (void)pthread_setspecific(key_.number, object_);
  }
  static void end(void *object) noexcept {
    TMH_ASSERT(object == object_);
    object_ = nullptr;
    delete static_cast<T *>(object);
  }

  static inline constinit thread_local T *object_ = nullptr;
  // While the program, or the library, is loaded: see ProcessObject. What a thread makes before
  // that stays when it ends.
  static inline const Key key_;
};

}  // namespace tmh::platform
