// examples/trees/slot.hpp -- how records lie in the trees: keys in slots, values in them or beside them.
// Shape:     Slot: a key as it is stored (keys.hpp) and the value, or a pointer to the value in a block of its own. Slots are moved by
//            copying; a value that lies beside stays where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "keys.hpp"

namespace trees {

// Of the processor's cache, and of the allocator's header in a page.
inline constexpr std::size_t kLineBytes = 64;

enum class ValuePlace : std::uint8_t { kInSlot, kBeside };

template <class Stored, class Payload>
struct Slot {
  Stored key;
  Payload payload;  // the value, or a pointer to it
};

// Makes and drops the records of a tree.
template <class Key, class Value, class Allocator, ValuePlace kPlace>
struct Records {
  static constexpr bool kBeside = kPlace == ValuePlace::kBeside;
  using Form = KeyForm<Key>;
  using SlotType = Slot<typename Form::Stored, std::conditional_t<kBeside, Value *, Value>>;
  static_assert(std::is_trivially_copyable_v<SlotType> && std::is_trivially_destructible_v<SlotType>,
                "values in slots are moved by copying; others: ValuePlace::kBeside");

  [[nodiscard]] static Value &value_of(SlotType &slot) noexcept {
    if constexpr (kBeside)
      return *slot.payload;
    else
      return slot.payload;
  }
  [[nodiscard]] static Value &value_of(const SlotType &slot) noexcept { return value_of(const_cast<SlotType &>(slot)); }

  // Throws what the allocator throws; nothing is left then.
  [[nodiscard]] static SlotType make(const typename Form::View &key, const Value &value, const Allocator &allocator) {
    if constexpr (kBeside) {
      Values values(allocator);
      Value *made = values.allocate(1);
      try {
        ::new (static_cast<void *>(made)) Value(value);
        return {Form::make(key, allocator), made};
      } catch (...) {
        values.deallocate(made, 1);
        throw;
      }
    } else {
      return {Form::make(key, allocator), value};
    }
  }
  static void drop(const SlotType &slot, const Allocator &allocator) noexcept {
    Form::drop(slot.key, allocator);
    if constexpr (kBeside) {
      std::destroy_at(slot.payload);
      Values(allocator).deallocate(slot.payload, 1);
    }
  }

 private:
  using Values = typename std::allocator_traits<Allocator>::template rebind_alloc<Value>;
};

}  // namespace trees
