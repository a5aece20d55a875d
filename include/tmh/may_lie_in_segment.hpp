// include/tmh/may_lie_in_segment.hpp -- which types Segment::root<T>() refuses when it is compiled.
// Shape:     pure decisions on types. What a type holds is looked at as far as a compiler can:
//            elements of containers, arrays, pairs, tuples, optionals and variants; not the members
//            of a class, nor what a pointer points to.
// Why:       a segment's bytes mean the same in every process, and in every later one. Addresses of
//            a program's functions and statics and of a process's heap do not:
//            docs/what_may_lie_in_a_segment.md.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <any>
#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace tmh {

// Not specialised: the rules below decide. Specialise it for a type of your own where they are
// wrong: template <> struct tmh::may_lie_in_segment<Mine> : std::true_type {};
template <class T>
struct may_lie_in_segment {};

namespace detail {

enum class Unfit : unsigned char {
  kNothing,
  kProgramSaysSo,
  kPolymorphic,
  kStatelessAllocator,
  kResourceAllocator,
  kOwner,
  kErasedType,
  kCode,
  kHandle
};

template <class T>
concept SpeaksForItself = requires {
  may_lie_in_segment<T>::value;
};
template <class T>
concept IsContainer = requires {
  typename T::allocator_type;
  typename T::value_type;
};
template <class T>
concept IsAdaptor = requires {
  typename T::container_type;
};
template <class T>
concept IsTupleLike = requires {
  std::tuple_size<T>::value;
};
// std::array: all of its elements are of one type.
template <class T>
concept IsArray = IsTupleLike<T> && requires {
  typename T::value_type;
};
template <class T>
concept IsOptional = requires(const T &value) {
  typename T::value_type;
  value.has_value();
  *value;
};
// Mutexes, condition variables, threads: of the standard library, Boost and others.
template <class T>
concept IsHandle = requires {
  typename T::native_handle_type;
};
// That of std::pmr.
template <class A>
concept UsesResource = requires(const A &allocator) {
  allocator.resource();
};
// std::scoped_allocator_adaptor.
template <class A>
concept WrapsAllocator = requires {
  typename A::outer_allocator_type;
};

template <class T>
inline constexpr bool kIsOwner = false;
template <class T>
inline constexpr bool kIsOwner<std::unique_ptr<T, std::default_delete<T>>> = true;
template <class T>
inline constexpr bool kIsOwner<std::shared_ptr<T>> = true;
template <class T>
inline constexpr bool kIsOwner<std::weak_ptr<T>> = true;
template <class T>
inline constexpr bool kIsErased = std::is_same_v<T, std::any>;
template <class Signature>
inline constexpr bool kIsErased<std::function<Signature>> = true;
template <class T>
inline constexpr bool kIsCode =
    std::is_member_function_pointer_v<T> || std::is_function_v<std::remove_pointer_t<T>>;

template <class A>
constexpr Unfit unfit_allocator() {
  if constexpr (WrapsAllocator<A>)
    return unfit_allocator<typename A::outer_allocator_type>();
  else if constexpr (UsesResource<A>)
    return Unfit::kResourceAllocator;
  else
    return std::allocator_traits<A>::is_always_equal::value ? Unfit::kStatelessAllocator
                                                            : Unfit::kNothing;
}

// Of types that hold themselves, like a tree that is a map of trees, a few turns are looked at.
inline constexpr std::size_t kTurnsMax = 6;

template <class T, std::size_t kTurns>
constexpr Unfit unfit_class();

template <class T, std::size_t kTurns>
constexpr Unfit unfit() {
  using Plain = std::remove_cv_t<std::remove_all_extents_t<T>>;
  if constexpr (SpeaksForItself<Plain>)
    return may_lie_in_segment<Plain>::value ? Unfit::kNothing : Unfit::kProgramSaysSo;
  else if constexpr (kIsCode<Plain>)
    return Unfit::kCode;
  else if constexpr (kTurns == 0 || !std::is_class_v<Plain> || !requires { sizeof(Plain); })
    return Unfit::kNothing;
  else
    return unfit_class<Plain, kTurns>();
}

constexpr Unfit first_unfit() { return Unfit::kNothing; }
template <class... Others>
constexpr Unfit first_unfit(Unfit first, Others... others) {
  return first != Unfit::kNothing ? first : first_unfit(others...);
}
template <class T, std::size_t kTurns, std::size_t... kIndex>
constexpr Unfit unfit_elements(std::index_sequence<kIndex...> /*indices*/) {
  return first_unfit(unfit<std::tuple_element_t<kIndex, T>, kTurns - 1>()...);
}
template <class T>
inline constexpr bool kIsVariant = false;
template <class... Ts>
inline constexpr bool kIsVariant<std::variant<Ts...>> = true;
template <class T, std::size_t kTurns, std::size_t... kIndex>
constexpr Unfit unfit_alternatives(std::index_sequence<kIndex...> /*indices*/) {
  return first_unfit(unfit<std::variant_alternative_t<kIndex, T>, kTurns - 1>()...);
}

template <class T, std::size_t kTurns>
constexpr Unfit unfit_class() {
  if constexpr (std::is_polymorphic_v<T>) {
    return Unfit::kPolymorphic;
  } else if constexpr (kIsOwner<T>) {
    return Unfit::kOwner;
  } else if constexpr (kIsErased<T>) {
    return Unfit::kErasedType;
  } else if constexpr (IsHandle<T>) {
    return Unfit::kHandle;
  } else if constexpr (IsContainer<T>) {
    constexpr Unfit by_allocator = unfit_allocator<typename T::allocator_type>();
    if constexpr (by_allocator != Unfit::kNothing || std::is_same_v<typename T::value_type, T>)
      return by_allocator;
    else
      return unfit<typename T::value_type, kTurns - 1>();
  } else if constexpr (IsAdaptor<T>) {
    return unfit<typename T::container_type, kTurns - 1>();
  } else if constexpr (IsArray<T>) {
    return unfit<typename T::value_type, kTurns - 1>();
  } else if constexpr (IsTupleLike<T>) {
    return unfit_elements<T, kTurns>(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (kIsVariant<T>) {
    return unfit_alternatives<T, kTurns>(std::make_index_sequence<std::variant_size_v<T>>());
  } else if constexpr (IsOptional<T>) {
    return unfit<typename T::value_type, kTurns - 1>();
  } else {
    return Unfit::kNothing;
  }
}

// One sentence for each reason. T, or what it holds.
template <class T>
constexpr void require_fit_for_segment() {
  constexpr Unfit why = unfit<T, kTurnsMax>();
  static_assert(why != Unfit::kProgramSaysSo,
                "tmh: T, or what it holds, may not lie in a segment: "
                "tmh::may_lie_in_segment<T> is specialised as false.");
  static_assert(why != Unfit::kPolymorphic,
                "tmh: T, or what it holds, has virtual functions: the next process would follow a "
                "pointer to this program's code.");
  static_assert(why != Unfit::kStatelessAllocator,
                "tmh: T, or what it holds, allocates from the process's heap (std::allocator): "
                "use tmh::allocator, for strings too.");
  static_assert(why != Unfit::kResourceAllocator,
                "tmh: T, or what it holds, allocates from a std::pmr::memory_resource, which has "
                "virtual functions: use tmh::allocator.");
  static_assert(why != Unfit::kOwner,
                "tmh: T, or what it holds, is a std::unique_ptr, shared_ptr or weak_ptr, which own "
                "memory of the process's heap: use containers with tmh::allocator, or plain "
                "pointers into the segment.");
  static_assert(why != Unfit::kErasedType,
                "tmh: T, or what it holds, is a std::function or std::any, which point to this "
                "program's code: store a number that says what to do.");
  static_assert(why != Unfit::kCode,
                "tmh: T, or what it holds, is a pointer to a function, which lies elsewhere in the "
                "next process: store a number that says what to do.");
  static_assert(why != Unfit::kHandle,
                "tmh: T, or what it holds, is a lock, thread or other handle of this process: "
                "transactions need no locks, and handles mean nothing in the next process.");
}

}  // namespace detail
}  // namespace tmh
