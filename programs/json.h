// programs/json.h -- a JSON value: what programs print, and what tests read of them.
// Shape:     a tree of values. The members of an object keep the order in which they came.
// Why:       text is nlohmann's to parse and to print (json.cpp). Its header alone costs a second
//            of each unit that includes it, and its templates many more; this one has none of them.
// Errors:    a wrong kind, a key or an index that is not there: JsonError. Nothing is undefined.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tmh::programs {

class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class JsonParseError : public JsonError {
 public:
  JsonParseError(const std::string &why, std::size_t byte_) : JsonError(why), byte(byte_) {}
  // Where parsing stopped; the first is 1.
  std::size_t byte;
};

class Json {
 public:
  // What parse() does with text that is no JSON: throws JsonParseError, or returns a value that
  // is_discarded().
  enum class IfBroken : std::uint8_t { kThrow, kDiscard };
  // Nesting beyond it is refused, so that no text exhausts the stack.
  static constexpr std::size_t kDepthMax = 500;

  struct Member;
  template <class Value>
  class Iterator;
  class Items;

  Json() noexcept = default;
  Json(std::nullptr_t) noexcept {}  // NOLINT: implicit, like all of them
  template <class T>
  requires std::is_arithmetic_v<T> Json(T value)
  noexcept {
    static_assert(std::is_floating_point_v<T> || sizeof(T) <= sizeof(std::uint64_t));
    if constexpr (std::is_same_v<T, bool>)
      set(value);
    else if constexpr (std::is_floating_point_v<T>)
      set(static_cast<double>(value));
    else if constexpr (std::is_signed_v<T>)
      set(static_cast<std::int64_t>(value));
    else
      set(static_cast<std::uint64_t>(value));
  }
  Json(const char *text);
  Json(std::string text);
  Json(std::string_view text);
  template <class T>
  Json(const std::vector<T> &values) : Json(array()) {
    for (const T &value : values) push_back(value);
  }
  // {{"key", value}, ...}: an object, when each is a list of a text and a value; else an array.
  Json(std::initializer_list<Json> values);
  Json(const Json &other);
  Json(Json &&other) noexcept : kind_(other.kind_), value_(other.value_) {
    other.kind_ = Kind::kNull;
  }
  ~Json() {
    if (kind_ >= Kind::kText) destroy();
  }
  Json &operator=(Json other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(value_, other.value_);
    return *this;
  }
  [[nodiscard]] static Json array();
  [[nodiscard]] static Json object();

  [[nodiscard]] static Json parse(std::string_view text, IfBroken if_broken = IfBroken::kThrow);
  // indent < 0: one line. Bytes that are not UTF-8 become U+FFFD; NaN and infinities become null.
  [[nodiscard]] std::string dump(int indent = -1) const;

  [[nodiscard]] bool is_null() const noexcept { return kind_ == Kind::kNull; }
  [[nodiscard]] bool is_discarded() const noexcept { return kind_ == Kind::kDiscarded; }
  [[nodiscard]] bool is_number() const noexcept {
    return is_number_integer() || kind_ == Kind::kDouble;
  }
  [[nodiscard]] bool is_number_integer() const noexcept {
    return kind_ == Kind::kSigned || kind_ == Kind::kUnsigned;
  }
  // Parsed without a sign and a fraction, or made of an unsigned type.
  [[nodiscard]] bool is_number_unsigned() const noexcept { return kind_ == Kind::kUnsigned; }
  [[nodiscard]] bool is_string() const noexcept { return kind_ == Kind::kText; }
  [[nodiscard]] bool is_array() const noexcept { return kind_ == Kind::kArray; }
  [[nodiscard]] bool is_object() const noexcept { return kind_ == Kind::kObject; }

  // bool, a number or std::string. Numbers are converted as static_cast does.
  template <class T>
  [[nodiscard]] T get() const {
    static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, std::string>);
    if constexpr (std::is_same_v<T, std::string>)
      return text();
    else if constexpr (std::is_same_v<T, bool>)
      return boolean();
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(number());
    else if constexpr (std::is_signed_v<T>)
      return static_cast<T>(signed_number());
    else
      return static_cast<T>(unsigned_number());
  }
  // Not to char: to assign a value to a std::string would be ambiguous.
  template <class T>
  requires((std::is_arithmetic_v<T> && !std::is_same_v<T, char>) || std::is_same_v<T, std::string>)
  operator T() const {  // NOLINT: implicit
    return get<T>();
  }

  // Of an array or an object; null has none, any other value is one.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  // Values of an array or an object.
  [[nodiscard]] Iterator<Json> begin();
  [[nodiscard]] Iterator<Json> end();
  [[nodiscard]] Iterator<const Json> begin() const;
  [[nodiscard]] Iterator<const Json> end() const;
  // Members of an object: for (const auto &[key, value] : json.items()).
  [[nodiscard]] Items items() const;

  [[nodiscard]] bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  // Null becomes an object; a key that is not there gets a null.
  Json &operator[](const char *key) { return member(key); }
  Json &operator[](const std::string &key) { return member(key); }
  const Json &operator[](const char *key) const { return at(key); }
  const Json &operator[](const std::string &key) const { return at(key); }
  [[nodiscard]] Json &at(std::string_view key) {
    return const_cast<Json &>(std::as_const(*this).at(key));
  }
  [[nodiscard]] const Json &at(std::string_view key) const;
  // A template, because 0 is a pointer, too.
  template <std::integral T>
  [[nodiscard]] Json &operator[](T index) {
    return const_cast<Json &>(element(static_cast<std::size_t>(index)));
  }
  template <std::integral T>
  [[nodiscard]] const Json &operator[](T index) const {
    return element(static_cast<std::size_t>(index));
  }
  template <std::integral T>
  [[nodiscard]] Json &at(T index) {
    return const_cast<Json &>(element(static_cast<std::size_t>(index)));
  }
  template <std::integral T>
  [[nodiscard]] const Json &at(T index) const {
    return element(static_cast<std::size_t>(index));
  }
  [[nodiscard]] const Json &front() const { return element(0); }
  [[nodiscard]] const Json &back() const { return element(size() - 1); }
  // Of an object; without the key: `otherwise`.
  template <class T>
  [[nodiscard]] T value(std::string_view key, const T &otherwise) const {
    const Json *const found = find_in_object(key);
    return found == nullptr ? otherwise : found->get<T>();
  }
  [[nodiscard]] std::string value(std::string_view key, const char *otherwise) const {
    return value(key, std::string(otherwise));
  }

  // Null becomes an array.
  void push_back(Json value);
  // Each member of the other object: replaces the one with its key, or comes behind.
  void update(const Json &other);
  // False: there is no such key.
  bool erase(std::string_view key);
  // No values are left of an array or an object.
  void clear();

  // Numbers are equal as numbers, objects in any order of their members.
  [[nodiscard]] friend bool operator==(const Json &left, const Json &right) noexcept {
    return left.is_equal(right);
  }
  // Numbers and texts have an order; other values that are not equal have none.
  [[nodiscard]] friend std::partial_ordering operator<=>(const Json &left,
                                                         const Json &right) noexcept {
    return left.compare(right);
  }
  // With anything that a value can be made of: exact matches, because a value converts to it, too.
  template <class T>
  requires(!std::same_as<T, Json> && std::convertible_to<const T &, Json>) [[nodiscard]] friend bool
  operator==(const Json &left, const T &right) {
    return left.is_equal(Json(right));
  }
  template <class T>
  requires(!std::same_as<T, Json> && std::convertible_to<const T &, Json>)
      [[nodiscard]] friend std::partial_ordering
      operator<=>(const Json &left, const T &right) {
    return left.compare(Json(right));
  }
  // On one line.
  friend std::ostream &operator<<(std::ostream &out, const Json &json);

 private:
  friend class JsonText;
  // From kText on there is something to destroy.
  enum class Kind : std::uint8_t {
    kNull,
    kDiscarded,
    kBoolean,
    kSigned,
    kUnsigned,
    kDouble,
    kText,
    kArray,
    kObject
  };
  union Content {
    bool boolean;
    std::int64_t signed_number;
    std::uint64_t unsigned_number;
    double number;
    std::string *text;
    std::vector<Json> *values;
    std::vector<Member> *members;
  };
  static_assert(Kind::kDouble < Kind::kText && Kind::kText < Kind::kArray &&
                Kind::kArray < Kind::kObject);
  static_assert(std::is_trivially_copyable_v<Content>, "it is moved by being copied");

  void set(bool value) noexcept;
  void set(std::int64_t value) noexcept;
  void set(std::uint64_t value) noexcept;
  void set(double value) noexcept;
  void destroy() noexcept;
  [[nodiscard]] bool is_equal(const Json &other) const noexcept;
  [[nodiscard]] std::partial_ordering compare(const Json &other) const noexcept;
  [[nodiscard]] std::partial_ordering compare_numbers(const Json &other) const noexcept;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t signed_number() const;
  [[nodiscard]] std::uint64_t unsigned_number() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] const std::string &text() const;
  // Null: not an object, or it has no such key.
  [[nodiscard]] const Json *find(std::string_view key) const noexcept;
  [[nodiscard]] const Json *find_in_object(std::string_view key) const;
  [[nodiscard]] const Json &element(std::size_t index) const;
  Json &member(std::string_view key);
  [[noreturn]] void refuse(const char *wanted) const;

  Kind kind_ = Kind::kNull;
  Content value_ = {};
};

struct Json::Member {
  std::string key;
  Json value;
};

static_assert(sizeof(Json) == 16 && std::is_nothrow_move_constructible_v<Json>,
              "a list of values that grows moves them");
static_assert(std::is_convertible_v<Json, std::string> && !std::is_convertible_v<Json, char>);

// Of an array's values or an object's members. Invalid after a change of either. Value: Json or
// const Json.
template <class Value>
class Json::Iterator {
  static_assert(std::is_same_v<std::remove_const_t<Value>, Json>);

 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = Json;
  using difference_type = std::ptrdiff_t;
  using pointer = Value *;
  using reference = Value &;
  using MemberOf = std::conditional_t<std::is_const_v<Value>, const Member, Member>;

  Iterator() noexcept = default;
  Iterator(Value *value, MemberOf *member) noexcept : value_(value), member_(member) {}
  [[nodiscard]] Value &operator*() const noexcept {
    return member_ == nullptr ? *value_ : member_->value;
  }
  [[nodiscard]] Value *operator->() const noexcept { return &**this; }
  Iterator &operator++() noexcept {
    member_ == nullptr ? void(++value_) : void(++member_);
    return *this;
  }
  Iterator operator++(int) noexcept {
    const Iterator old = *this;
    ++*this;
    return old;
  }
  [[nodiscard]] bool operator==(const Iterator &other) const noexcept = default;

 private:
  Value *value_ = nullptr;
  MemberOf *member_ = nullptr;
};

class Json::Items {
 public:
  Items(const Member *begin, const Member *end) noexcept : begin_(begin), end_(end) {}
  [[nodiscard]] const Member *begin() const noexcept { return begin_; }
  [[nodiscard]] const Member *end() const noexcept { return end_; }

 private:
  const Member *begin_, *end_;
};

static_assert(std::forward_iterator<Json::Iterator<Json>> &&
              std::forward_iterator<Json::Iterator<const Json>>);

}  // namespace tmh::programs
