// include/tmh/trees/slot.hpp -- how records lie in the trees: keys in slots, values in them
// or beside them.
// Shape:     Slot: a key as it is stored (keys.hpp) and the value, or a pointer to the value in a
//            block of its own, or nothing: the key's block has the value, too (ValuePlace). Slots
//            are moved by assignment; what lies beside stays where it is.
//            Field says how the words of a tree are accessed: PlainField<T> is a T, so the tree is
//            ordinary C++; with tmh::field every access goes through the running instance, and the
//            same tree runs at either level. An access of a tmh::field may end the attempt by an
//            exception: nothing that touches a node is noexcept, or happens in a destructor or a
//            catch (...). Two exceptions: a tree is made and destroyed inside
//            tmh::atomically(domain, body).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>

#include <tmh/trees/bytes.hpp>
#include <tmh/trees/keys.hpp>

namespace tmh::trees {

// Of the processor's cache, and of the allocator's header in a page.
inline constexpr std::size_t kLineBytes = 64;

// kWithKey: keys std::string_view, values Bytes; key and value in one block of fields.
enum class ValuePlace : std::uint8_t { kInSlot, kBeside, kWithKey };

template <class Key, class Payload>
struct Slot {
  Key key;
  Payload payload;  // the value, or a pointer to it

  template <class Fresh>
  void set(const Fresh &fresh) {
    key = fresh.key;
    payload = fresh.payload;
  }
};
template <class Key>
struct KeySlot {
  Key key;

  template <class Fresh>
  void set(const Fresh &fresh) {
    key = fresh.key;
  }
};

// Makes, changes and drops the records of a tree.
template <template <class> class Field, class Key, class Value, class Allocator, ValuePlace kPlace>
struct Records {
  static constexpr bool kBeside = kPlace == ValuePlace::kBeside;
  static_assert(!std::is_same_v<Value, Bytes> && kPlace != ValuePlace::kWithKey,
                "Bytes are values of keys std::string_view, with ValuePlace::kWithKey");
  using Form = KeyForm<Key, Field>;
  using Payload = std::conditional_t<kBeside, Value *, Value>;
  using SlotType = Slot<typename Form::InNode, Field<Payload>>;
  using Fresh = Slot<typename Form::Stored, Payload>;  // not in the tree yet
  using InTree = std::conditional_t<kBeside, Value, Field<Value>>;
  // What iterators give.
  struct Record {
    typename Form::Seen key;
    InTree &value;
  };
  static_assert(std::is_trivially_copyable_v<Payload> && std::is_trivially_destructible_v<Payload>,
                "values in slots are moved by copying; others: ValuePlace::kBeside");
  static_assert(kIsPlain<Field> || !kBeside ||
                    (!std::is_copy_constructible_v<Value> &&
                     std::is_trivially_default_constructible_v<Value> &&
                     std::is_trivially_destructible_v<Value>),
                "a value beside is made of fields, and neither made nor destroyed by plain code");

  [[nodiscard]] static InTree &value_of(SlotType &slot) {
    if constexpr (kBeside)
      return *slot.payload;
    else
      return slot.payload;
  }
  [[nodiscard]] static InTree &value_of(const SlotType &slot) {
    return value_of(const_cast<SlotType &>(slot));
  }

  [[nodiscard]] static Record record_of(const SlotType &slot) {
    return {Form::view(slot.key), value_of(slot)};
  }
  template <class Visit>
  static void visit(Visit &visit, const SlotType &slot) {
    visit(Form::view(slot.key), value_of(slot));
  }

  // Throws what the allocator throws; nothing is left then. A Value that is made of fields is
  // stored to, never copied.
  template <class From>
  [[nodiscard]] static Fresh make(const typename Form::View &key, const From &value,
                                  const Allocator &allocator) {
    const typename Form::Stored stored = Form::make(key, allocator);
    try {
      return {stored, make_payload(value, allocator)};
    } catch (const std::exception &) {
      Form::drop(stored, allocator);
      throw;
    }
  }
  template <class From>
  static void replace(SlotType &slot, const typename Form::View &, const From &value,
                      const Allocator &) {
    if constexpr (kBeside && std::is_copy_constructible_v<Value>)
      value_of(slot) = static_cast<Value>(value);
    else if constexpr (kBeside)
      value_of(slot) = value;
    else
      slot.payload = static_cast<Payload>(value);
  }
  template <class AnySlot>
  static void drop(const AnySlot &slot, const Allocator &allocator) {
    Form::drop(slot.key, allocator);
    if constexpr (kBeside) {
      Value *const value = slot.payload;
      std::destroy_at(value);
      Values(allocator).deallocate(value, 1);
    }
  }

 private:
  using Values = typename std::allocator_traits<Allocator>::template rebind_alloc<Value>;

  template <class From>
  [[nodiscard]] static Payload make_payload(const From &value, const Allocator &allocator) {
    if constexpr (kBeside) {
      Values values(allocator);
      Value *made = values.allocate(1);
      try {
        if constexpr (std::is_copy_constructible_v<Value>)
          ::new (static_cast<void *>(made)) Value(static_cast<Value>(value));
        else
          *::new (static_cast<void *>(made)) Value = value;
        return made;
      } catch (const std::exception &) {
        values.deallocate(made, 1);
        throw;
      }
    } else {
      return static_cast<Payload>(value);
    }
  }
};

// Key and value in one block: a record is that block.
template <template <class> class Field, class Allocator>
struct Records<Field, std::string_view, Bytes, Allocator, ValuePlace::kWithKey> {
  using Form = KeyForm<std::string_view, Field>;
  using SlotType = KeySlot<typename Form::InNode>;
  using Fresh = KeySlot<typename Form::Stored>;
  using InTree = const BytesRecord<Field>;
  using Record = InTree &;

  [[nodiscard]] static InTree &value_of(const SlotType &slot) {
    InTree *const record = slot.key.block;
    return *record;
  }
  [[nodiscard]] static Record record_of(const SlotType &slot) { return value_of(slot); }
  template <class Visit>
  static void visit(Visit &visit, const SlotType &slot) {
    visit(value_of(slot));
  }

  [[nodiscard]] static Fresh make(const BytesView &key, std::string_view value,
                                  const Allocator &allocator) {
    return {Form::make(key, allocator, value)};
  }
  static void replace(SlotType &slot, const BytesView &key, std::string_view value,
                      const Allocator &allocator) {
    Form::replace(slot.key, key, value, allocator);
  }
  template <class AnySlot>
  static void drop(const AnySlot &slot, const Allocator &allocator) {
    Form::drop(slot.key, allocator);
  }
};

}  // namespace tmh::trees
