// include/tmh/field.hpp -- tmh::field<T>: a member of a shared structure whose loads and stores go
// through the running instance.
// Shape:     exactly a T. In an instance of level 1 (software lines) each access goes through it;
//            otherwise, when pages or RTM run the instance or none runs, an access is a plain one,
//            after one predictable branch. So one body runs at every level. A site's body that
//            takes tmh::Fields promises to reach shared memory through fields only (tmh/site.hpp);
//            in a plain body a field is a plain T.
// Invariant: sizeof and alignment are T's size: a field never straddles two lines.
// Caveat:    (1) Copying a field copies nothing by accident: the copy constructor is deleted; `T
//            value = object.field` loads, and `a.field = b.field` loads and stores. Structures of
//            fields can therefore not be copied by memcpy or by default. (2) A field outside every
//            segment is plain memory, and not rolled back. (3) What C++ itself stores is plain, and
//            no part of an instance of level 1: the zeros of value-initialisation (`new (p)
//            Node()`, `Node{}`, members that `Node{key}` leaves out) and of memset(). So a node is
//            made in a segment by `new (p) Node`, which stores nothing, or with a value for every
//            member, its default or yours, and then stored to. With TMH_TRACKING=signal a plain
//            access in a body at level 1 ends the process at its instruction, with the address;
//            other tracking may lose it silently. (4) An access may end the attempt by an exception
//            that is no std::exception (tmh/transaction.hpp), and so does every later one of that
//            attempt. So not in a destructor, nor in another function that is noexcept:
//            std::terminate().
// Contexts:  of the thread that runs the instance. NOT async-signal-safe inside an instance.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <concepts>
#include <type_traits>

#include <tmh/detail/line_access.hpp>

namespace tmh {

namespace detail {
template <class T>
concept Incrementable = requires(T a) {
  ++a;
};
template <class T>
concept Decrementable = requires(T a) {
  --a;
};

struct Unset {};
// A T that may be left as its memory is.
template <class T, bool kIsTrivial = std::is_trivially_default_constructible_v<T>>
struct FieldCell {
  T value;
  FieldCell() = default;
  constexpr explicit FieldCell(const T &initial) noexcept : value(initial) {}
  constexpr explicit FieldCell(Unset) noexcept {}
};
template <class T>
struct FieldCell<T, false> {
  union {
    T value;
  };
  constexpr FieldCell() noexcept(std::is_nothrow_default_constructible_v<T>) : value() {}
  constexpr explicit FieldCell(const T &initial) noexcept : value(initial) {}
  constexpr explicit FieldCell(Unset) noexcept {}
};
}  // namespace detail

// T: trivially copyable, 1, 2, 4 or 8 bytes. REQUIRES: no padding inside T.
template <class T>
class alignas(sizeof(T)) field {
  static_assert(std::is_trivially_copyable_v<T>, "tmh::field<T>: T must be trivially copyable");
  static_assert(detail::kIsLineWord<T>,
                "tmh::field<T>: T must have 1, 2, 4 or 8 bytes; use several fields");

 public:
  using value_type = T;

  // As T: not initialised, unless value-initialised; plainly then, see Caveat (3).
  field() = default;
  // A store, so that an object may be made where it lies in a segment.
  explicit(false) constexpr field(const T &value)
      : cell_(std::is_constant_evaluated() ? detail::FieldCell<T>(value)
                                           : detail::FieldCell<T>(detail::Unset{})) {
    if (!std::is_constant_evaluated()) store(value);
  }
  field(const field &) = delete;
  field &operator=(const field &other) {
    store(other.load());
    return *this;
  }

  [[nodiscard]] T load() const {
    if (detail::LineAccess *const access = detail::line_access; access != nullptr)
      return detail::line_load(*access, &cell_.value);
    // A compiler that knows that this object is there, as clang does, may load it before it asks
    // for the instance; but the page may be protected then. So it does not know of this pointer.
    const T *plain = &cell_.value;
    asm("" : "+r"(plain));
    return *plain;
  }
  void store(const T &value) {
    if (detail::LineAccess *const access = detail::line_access; access != nullptr) {
      detail::line_store(*access, &cell_.value, value);
    } else {
      cell_.value = value;
    }
  }

  // NOLINT(google-explicit-constructor): a field reads as its value
  operator T() const { return load(); }
  field &operator=(const T &value) {
    store(value);
    return *this;
  }
  // Of pointers and of values with members: const, because storing to a part would bypass the
  // instance.
  [[nodiscard]] T operator->() const requires std::is_pointer_v<T> { return load(); }
  [[nodiscard]] std::add_lvalue_reference_t<std::remove_pointer_t<T>> operator*() const
      requires(std::is_pointer_v<T> && !std::is_void_v<std::remove_pointer_t<T>>) {
    return *load();
  }

#define TMH_FIELD_OPERATOR(op)                                        \
  template <class U>                                                  \
  field &operator op##=(const U &other) requires requires(T a, U b) { \
    T(a op b);                                                        \
  }                                                                   \
  {                                                                   \
    store(static_cast<T>(load() op other));                           \
    return *this;                                                     \
  }
  TMH_FIELD_OPERATOR(+)
  TMH_FIELD_OPERATOR(-)
  TMH_FIELD_OPERATOR(*)
  TMH_FIELD_OPERATOR(/)
  TMH_FIELD_OPERATOR(%)
  TMH_FIELD_OPERATOR(&)
  TMH_FIELD_OPERATOR(|)
  TMH_FIELD_OPERATOR(^)
  TMH_FIELD_OPERATOR(<<)
  TMH_FIELD_OPERATOR(>>)
#undef TMH_FIELD_OPERATOR

  // As for T: ++ and -- change by one; the postfix ones return the value before. Templates, because
  // clang 14 looks into the constraint of any other member with the class, where what T points to
  // may be incomplete.
  template <detail::Incrementable U = T>
  field &operator++() {
    T value = load();
    store(++value);
    return *this;
  }
  template <detail::Decrementable U = T>
  field &operator--() {
    T value = load();
    store(--value);
    return *this;
  }
  template <detail::Incrementable U = T>
  T operator++(int) {
    const T before = load();
    T value = before;
    store(++value);
    return before;
  }
  template <detail::Decrementable U = T>
  T operator--(int) {
    const T before = load();
    T value = before;
    store(--value);
    return before;
  }

 private:
  detail::FieldCell<T> cell_;
};

}  // namespace tmh
