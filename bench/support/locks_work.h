// bench/support/locks_work.h -- what lockers do in bench/locks, the same for every lock table.
// Shape:     one locker in each process. A contestant is a class Locks: lock(object, is_exclusive),
//            unlock(&lock), upgraded(object): a shared lock that becomes an exclusive one and goes;
//            locked_together(first, count): so many exclusive locks that go in one call;
//            renew(): the locker ends, and another one begins.
// Checked:   the contended object guards a plain number, which must have counted every pair.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "platform/assert.h"

namespace tmh::bench {

enum class LockWork : std::uint8_t {
  kExclusive,  // lock and unlock
  kShared,
  kUpgraded,   // lock shared, upgrade, unlock
  kTogether,   // four locks and one call that gives all back, counted as one
  kLocker,     // begin and end of a locker
  kContended,  // as kExclusive, of one object that all processes want
};
inline constexpr std::uint64_t kLocksTogether = 4;

// Objects [first, first + count) of one process.
struct LockedObjects {
  std::uint64_t first, count;
};

class LockSession {
 public:
  virtual ~LockSession() = default;
  // guarded: what the contended object guards. Throws std::exception when a call fails.
  virtual void run(LockWork work, LockedObjects objects, std::uint64_t repetitions,
                   std::uint64_t *guarded) = 0;
};

template <class Locks>
class LockSessionOf final : public LockSession {
 public:
  explicit LockSessionOf(const std::string &folder) : locks_(folder) {}

  void run(LockWork work, LockedObjects objects, std::uint64_t repetitions,
           std::uint64_t *guarded) override {
    TMH_ASSERT(objects.count >= kLocksTogether && guarded != nullptr);
    switch (work) {
      case LockWork::kExclusive:
      case LockWork::kShared:
        for_each(objects, repetitions, 1, [&](std::uint64_t object) {
          auto lock = locks_.lock(object, work == LockWork::kExclusive);
          locks_.unlock(&lock);
        });
        break;
      case LockWork::kUpgraded:
        for_each(objects, repetitions, 1, [&](std::uint64_t object) { locks_.upgraded(object); });
        break;
      case LockWork::kTogether:
        for_each({objects.first, objects.count - kLocksTogether + 1}, repetitions, kLocksTogether,
                 [&](std::uint64_t object) { locks_.locked_together(object, kLocksTogether); });
        break;
      case LockWork::kLocker:
        for (std::uint64_t i = 0; i < repetitions; ++i) locks_.renew();
        break;
      case LockWork::kContended:
        for (std::uint64_t i = 0; i < repetitions; ++i) {
          auto lock = locks_.lock(0, true);
          ++*guarded;
          locks_.unlock(&lock);
        }
        break;
    }
  }

 private:
  template <class Act>
  static void for_each(LockedObjects objects, std::uint64_t repetitions, std::uint64_t stride,
                       const Act &act) {
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < repetitions; ++i) {
      act(objects.first + at);
      at += stride;
      if (at >= objects.count) at = 0;
    }
  }

  Locks locks_;
};

}  // namespace tmh::bench
