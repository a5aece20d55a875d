// hierarchy/threads/living.h -- which Objects of one kind this process has: a thread that ends asks
// by serial whether those that it knows are still there.
// Shape:     static functions. The list is never gone: the last domain may belong to a static
//            object that was there before the first one.
// Sharing:   any thread; visit() holds the list's mutex. A forked child begins with an empty list.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "platform/assert.h"
#include "platform/process_object.h"

namespace tmh::detail {

template <class Object>
class Living {
 public:
  // Its serial: not 0, and never another one's. Throws std::bad_alloc.
  [[nodiscard]] static std::uint64_t add(Object *object) {
    TMH_ASSERT(object != nullptr);
    const std::uint64_t serial = ++serials_;
    List &list = platform::ProcessObject<List>::here();
    const std::scoped_lock guard(list.mutex);
    list.objects.emplace(serial, object);
    TMH_ASSERT(list.objects.at(serial) == object);
    return serial;
  }
  static void remove(std::uint64_t serial) noexcept {
    List &list = platform::ProcessObject<List>::here();
    const std::scoped_lock guard(list.mutex);
    list.objects.erase(serial);
  }
  // act(object, entry) for each entry whose `serial` is that of an object that is there.
  template <class Entries, class Act>
  static void visit(const Entries &entries, const Act &act) {
    List &list = platform::ProcessObject<List>::here();
    const std::scoped_lock guard(list.mutex);
    for (const auto &entry : entries) {
      const auto found = list.objects.find(entry.serial);
      if (found != list.objects.end()) act(*found->second, entry);
    }
  }

 private:
  struct List {
    std::mutex mutex;
    std::map<std::uint64_t, Object *> objects;
  };
  static inline std::atomic<std::uint64_t> serials_{0};
};

}  // namespace tmh::detail
