// tests/support/guarded_field.h -- a stand-in for tmh::field, and memory that nothing but it can
// access.
// Shape:     GuardedMemory: an arena that is mapped twice. What it gives out are addresses in a
//            range that may not be accessed; a GuardedField there works on the other mapping, as
//            tmh::field does at level 1. So an access around it, and a member that is not one, is a
//            SIGSEGV. end_after(n): the n-th access from now on throws GuardedEnd, and so does
//            every later one, until restore(): what an attempt at level 1 that ends in its middle
//            does. restore() puts back all bytes, and what was given out, as they were at save().
// Contexts:  one thread.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <vector>

#include "tests/support/tree_history.h"

namespace tmh::test {

struct GuardedEnd {};  // no std::exception, as what ends an attempt

class GuardedMemory {
 public:
  static GuardedMemory &here() {
    static GuardedMemory memory;
    return memory;
  }
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;

  [[nodiscard]] void *allocate(std::size_t bytes) {
    std::vector<std::size_t> &free = now_.free[bytes];
    std::size_t offset = now_.used;
    if (!free.empty()) {
      offset = free.back();
      free.pop_back();
    } else {
      now_.used += (bytes + 63) / 64 * 64;
      if (now_.used > kBytes) throw std::bad_alloc();
    }
    return guarded_ + offset;
  }
  void deallocate(void *block, std::size_t bytes) {
    now_.free[bytes].push_back(
        static_cast<std::size_t>(static_cast<std::byte *>(block) - guarded_));
  }
  // Where `address` can be accessed. Counts an access.
  template <class T>
  [[nodiscard]] T *accessed(T *address) {
    if (left_ == 0) throw GuardedEnd();
    if (left_ > 0) --left_;
    ++accesses_;
    const std::uintptr_t offset =
        reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(guarded_);
    return offset < kBytes ? reinterpret_cast<T *>(reinterpret_cast<std::uintptr_t>(open_) + offset)
                           : address;
  }
  [[nodiscard]] std::uint64_t accesses() const noexcept { return accesses_; }

  void end_after(std::int64_t accesses) noexcept { left_ = accesses; }
  void save() {
    saved_ = now_;
    saved_bytes_.assign(open_, open_ + now_.used);
  }
  void restore() {
    left_ = -1;
    now_ = saved_;
    if (!saved_bytes_.empty()) std::memcpy(open_, saved_bytes_.data(), saved_bytes_.size());
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  struct Given {
    std::size_t used = 0;
    std::map<std::size_t, std::vector<std::size_t>> free;  // by size
  };

  GuardedMemory() {
    open_ = map(nullptr, PROT_READ | PROT_WRITE);
    guarded_ = map(nullptr, PROT_NONE);
  }
  static std::byte *map(void *at, int protection) {
    void *const memory =
        mmap(at, kBytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "mmap of guarded memory");
    return static_cast<std::byte *>(memory);
  }

  std::byte *open_ = nullptr, *guarded_ = nullptr;
  Given now_, saved_;
  std::vector<std::byte> saved_bytes_;
  std::int64_t left_ = -1;
  std::uint64_t accesses_ = 0;
};

// What the trees use of tmh::field, and no more.
template <class T>
class GuardedField {
 public:
  GuardedField() = default;
  GuardedField(const T &value) { *this = value; }  // NOLINT(google-explicit-constructor)
  GuardedField(const GuardedField &) = delete;
  GuardedField &operator=(const GuardedField &other) { return *this = T(other); }
  GuardedField &operator=(const T &value) {
    *GuardedMemory::here().accessed(&value_) = value;
    return *this;
  }
  // NOLINT(google-explicit-constructor)
  operator T() const { return *GuardedMemory::here().accessed(&value_); }
  T operator->() const requires std::is_pointer_v<T> { return T(*this); }
  [[nodiscard]] std::add_lvalue_reference_t<std::remove_pointer_t<T>> operator*() const
      requires(std::is_pointer_v<T> && !std::is_void_v<std::remove_pointer_t<T>>) {
    return *T(*this);
  }
  GuardedField &operator++() { return *this = static_cast<T>(T(*this) + 1); }
  GuardedField &operator--() { return *this = static_cast<T>(T(*this) - 1); }

 private:
  T value_;
};

// A value that lies beside the slots.
struct GuardedValue {
  GuardedField<std::uint64_t> number, again;
  GuardedValue &operator=(std::uint64_t value) {
    number = value;
    again = value;
    return *this;
  }
  operator std::uint64_t() const {  // NOLINT(google-explicit-constructor)
    if (number != again) throw std::logic_error("half a value");
    return number;
  }
};

// As Counting, in guarded memory, where it may lie itself.
template <class T>
class GuardedAllocator {
 public:
  using value_type = T;
  explicit GuardedAllocator(Budget *budget) : budget_(budget) {}
  GuardedAllocator(const GuardedAllocator &other) : budget_(other.budget()) {}
  template <class U>
  GuardedAllocator(const GuardedAllocator<U> &other) : budget_(other.budget()) {}
  [[nodiscard]] T *allocate(std::size_t count) {
    budget()->take();
    return static_cast<T *>(GuardedMemory::here().allocate(count * sizeof(T)));
  }
  void deallocate(T *pointer, std::size_t count) {
    budget()->give_back();
    GuardedMemory::here().deallocate(pointer, count * sizeof(T));
  }
  [[nodiscard]] Budget *budget() const { return budget_; }

 private:
  GuardedField<Budget *> budget_;
};

// The attempt ends at each access of `action` in turn: that comes out of it, whatever it was in the
// middle of, and nothing else.
// REQUIRES: all that `action` changes lies in guarded memory, or is restored by `restore`.
template <class Action, class Restore>
void ends_at_every_access(const Action &action, const Restore &restore) {
  GuardedMemory &memory = GuardedMemory::here();
  memory.save();
  const std::uint64_t before = memory.accesses();
  action();
  const std::uint64_t accesses = memory.accesses() - before;
  for (std::uint64_t at = 0; at < accesses; ++at) {
    memory.restore();
    restore();
    memory.end_after(static_cast<std::int64_t>(at));
    EXPECT_THROW(action(), GuardedEnd) << "access " << at << " of " << accesses;
  }
  memory.restore();
  restore();
}

}  // namespace tmh::test
