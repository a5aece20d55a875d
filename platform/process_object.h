// platform/process_object.h -- a T of this process: a forked child begins with a new one.
// What the child inherits may be half changed, and its mutex locked, by a thread that the child
// does not have. That one stays where it is: what it holds is the parent's.
// Shape:     never gone, because static objects and threads that outlive main() may ask for it.
// Contexts:  NOT async-signal-safe. Not for a child of a plain clone(2), which runs no handlers of
//            pthread_atfork(3).
#pragma once

#include <pthread.h>

namespace tmh::platform {

template <class T>
class ProcessObject {
 public:
  [[nodiscard]] static T &here() {
    static_cast<void>(is_made_);
    if (newest_ == nullptr) [[unlikely]]
      make();  // for another file's initializer, before this one's turn
    return newest_->object;
  }

 private:
  struct Made {
    T object;
    Made *parents;  // keeps it reachable, for tools that look for leaks
  };

  static bool make() {
    if (newest_ != nullptr) return true;
    renew();
    return pthread_atfork(nullptr, nullptr, renew) == 0;
  }
  static void renew() { newest_ = new Made{{}, newest_}; }

  static inline constinit Made *newest_ = nullptr;
  // While the program, or the library, is loaded. A fork in the middle of a first call would leave
  // the child with an initialization that no thread ends.
  static inline const bool is_made_ = make();
};

}  // namespace tmh::platform
