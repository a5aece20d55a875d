// programs/json.cpp -- values; their text by nlohmann's parser and printer.
#include "programs/json.h"

#include <algorithm>
#include <ostream>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace tmh::programs {

namespace {

// Of any two types of numbers.
std::partial_ordering order_of(auto left, auto right) noexcept {
  static_assert(std::is_arithmetic_v<decltype(left)> && !std::is_same_v<decltype(left), bool>);
  static_assert(std::is_arithmetic_v<decltype(right)> && !std::is_same_v<decltype(right), bool>);
  if constexpr (std::is_floating_point_v<decltype(left)> ||
                std::is_floating_point_v<decltype(right)>)
    return static_cast<double>(left) <=> static_cast<double>(right);
  else
    return std::cmp_less(left, right)    ? std::partial_ordering::less
           : std::cmp_equal(left, right) ? std::partial_ordering::equivalent
                                         : std::partial_ordering::greater;
}

}  // namespace

static_assert(std::is_same_v<nlohmann::ordered_json::number_integer_t, std::int64_t> &&
                  std::is_same_v<nlohmann::ordered_json::number_unsigned_t, std::uint64_t> &&
                  std::is_same_v<nlohmann::ordered_json::number_float_t, double>,
              "no number changes on its way");
static_assert(std::is_same_v<nlohmann::json::string_t, std::string>);
static_assert(std::is_base_of_v<nlohmann::ordered_json::object_t::Container,
                                nlohmann::ordered_json::object_t>,
              "an object is a list of its members");

// Between values and nlohmann's.
class JsonText {
 public:
  static nlohmann::ordered_json printed(const Json &json) {
    switch (json.kind_) {
      case Json::Kind::kNull:
        return nullptr;
      case Json::Kind::kDiscarded:
        return nlohmann::ordered_json::value_t::discarded;
      case Json::Kind::kBoolean:
        return json.value_.boolean;
      case Json::Kind::kSigned:
        return json.value_.signed_number;
      case Json::Kind::kUnsigned:
        return json.value_.unsigned_number;
      case Json::Kind::kDouble:
        return json.value_.number;
      case Json::Kind::kText:
        return *json.value_.text;
      case Json::Kind::kArray: {
        auto array = nlohmann::ordered_json::array_t();
        for (const Json &value : *json.value_.values) array.push_back(printed(value));
        return array;
      }
      case Json::Kind::kObject:
        break;
    }
    auto object = nlohmann::ordered_json::object_t();
    // Into the vector beneath: the map would look for each key among all before it.
    nlohmann::ordered_json::object_t::Container &pairs = object;
    for (const Json::Member &member : *json.value_.members)
      pairs.emplace_back(member.key, printed(member.value));
    return object;
  }
  static Json discarded() noexcept {
    Json json;
    json.kind_ = Json::Kind::kDiscarded;
    return json;
  }

  // Builds the value from the inside: an array or an object is moved into its own when it ends.
  class Builder final : public nlohmann::json_sax<nlohmann::json> {
   public:
    bool null() override { return add({}); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(std::int64_t value) override { return add(value); }
    bool number_unsigned(std::uint64_t value) override { return add(value); }
    bool number_float(double value, const std::string & /*text*/) override { return add(value); }
    bool string(std::string &value) override { return add(std::move(value)); }
    bool binary(nlohmann::json::binary_t & /*value*/) override { return false; }
    bool start_object(std::size_t /*count*/) override { return start(Json::object()); }
    bool start_array(std::size_t /*count*/) override { return start(Json::array()); }
    bool key(std::string &value) override {
      keys_.back() = std::move(value);
      return true;
    }
    bool end_object() override { return end(); }
    bool end_array() override { return end(); }
    bool parse_error(std::size_t byte_, const std::string & /*token*/,
                     const nlohmann::json::exception &error) override {
      byte = byte_;
      why = error.what();
      return false;
    }

    Json whole;
    std::string why;
    std::size_t byte = 0;

   private:
    bool start(Json container) {
      if (open_.size() == Json::kDepthMax) {
        why = "nested deeper than " + std::to_string(Json::kDepthMax);
        return false;
      }
      open_.push_back(std::move(container));
      keys_.emplace_back();
      return true;
    }
    bool end() {
      Json ended = std::move(open_.back());
      open_.pop_back();
      keys_.pop_back();
      return add(std::move(ended));
    }
    bool add(Json value) {
      if (open_.empty())
        whole = std::move(value);
      else if (open_.back().is_array())
        open_.back().push_back(std::move(value));
      else
        open_.back()[keys_.back()] = std::move(value);
      return true;
    }

    std::vector<Json> open_;
    // Of each: the key of the member that comes.
    std::vector<std::string> keys_;
  };
};

Json::Json(const char *text) : Json(std::string(text)) {}
Json::Json(std::string_view text) : Json(std::string(text)) {}
Json::Json(std::string text) {
  value_.text = new std::string(std::move(text));
  kind_ = Kind::kText;
}

Json::Json(std::initializer_list<Json> values) {
  const bool is_object = std::all_of(values.begin(), values.end(), [](const Json &value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  *this = is_object ? object() : array();
  if (is_object)
    for (const Json &pair : values) {
      if (!contains(pair[0].text())) value_.members->push_back({pair[0].text(), pair[1]});
    }
  else
    value_.values->assign(values.begin(), values.end());
}

Json::Json(const Json &other) : value_(other.value_) {
  if (other.kind_ == Kind::kText) value_.text = new std::string(*other.value_.text);
  if (other.kind_ == Kind::kArray) value_.values = new std::vector<Json>(*other.value_.values);
  if (other.kind_ == Kind::kObject) value_.members = new std::vector<Member>(*other.value_.members);
  kind_ = other.kind_;
}

Json Json::array() {
  Json json;
  json.value_.values = new std::vector<Json>;
  json.kind_ = Kind::kArray;
  return json;
}

Json Json::object() {
  Json json;
  json.value_.members = new std::vector<Member>;
  json.kind_ = Kind::kObject;
  return json;
}

void Json::destroy() noexcept {
  if (kind_ == Kind::kText) delete value_.text;
  if (kind_ == Kind::kArray) delete value_.values;
  if (kind_ == Kind::kObject) delete value_.members;
}

void Json::set(bool value) noexcept {
  kind_ = Kind::kBoolean;
  value_.boolean = value;
}
void Json::set(std::int64_t value) noexcept {
  kind_ = Kind::kSigned;
  value_.signed_number = value;
}
void Json::set(std::uint64_t value) noexcept {
  kind_ = Kind::kUnsigned;
  value_.unsigned_number = value;
}
void Json::set(double value) noexcept {
  kind_ = Kind::kDouble;
  value_.number = value;
}

Json Json::parse(std::string_view text, IfBroken if_broken) {
  JsonText::Builder builder;
  const bool is_json = nlohmann::json::sax_parse(text, &builder);
  // nlohmann's parser takes a NUL for the end.
  const std::size_t nul = text.find('\0');
  if (is_json && nul == std::string_view::npos) return std::move(builder.whole);
  if (if_broken == IfBroken::kDiscard) return JsonText::discarded();
  if (is_json) throw JsonParseError("a NUL byte in the text", nul + 1);
  throw JsonParseError(builder.why, builder.byte);
}

std::string Json::dump(int indent) const {
  return JsonText::printed(*this).dump(indent, ' ', false,
                                       nlohmann::ordered_json::error_handler_t::replace);
}

std::ostream &operator<<(std::ostream &out, const Json &json) { return out << json.dump(); }

bool Json::boolean() const {
  if (kind_ != Kind::kBoolean) refuse("true or false");
  return value_.boolean;
}

std::int64_t Json::signed_number() const {
  if (kind_ == Kind::kSigned) return value_.signed_number;
  if (kind_ == Kind::kUnsigned) return static_cast<std::int64_t>(value_.unsigned_number);
  return static_cast<std::int64_t>(number());
}

std::uint64_t Json::unsigned_number() const {
  if (kind_ == Kind::kUnsigned) return value_.unsigned_number;
  if (kind_ == Kind::kSigned) return static_cast<std::uint64_t>(value_.signed_number);
  return static_cast<std::uint64_t>(number());
}

double Json::number() const {
  if (kind_ == Kind::kDouble) return value_.number;
  if (kind_ == Kind::kSigned) return static_cast<double>(value_.signed_number);
  if (kind_ != Kind::kUnsigned) refuse("a number");
  return static_cast<double>(value_.unsigned_number);
}

const std::string &Json::text() const {
  if (kind_ != Kind::kText) refuse("a text");
  return *value_.text;
}

std::size_t Json::size() const noexcept {
  if (kind_ == Kind::kArray) return value_.values->size();
  if (kind_ == Kind::kObject) return value_.members->size();
  return kind_ == Kind::kNull ? 0 : 1;
}

Json::Iterator<Json> Json::begin() {
  if (kind_ == Kind::kArray) return {value_.values->data(), nullptr};
  if (kind_ == Kind::kObject) return {nullptr, value_.members->data()};
  if (kind_ != Kind::kNull) refuse("an array or an object");
  return {};
}

Json::Iterator<Json> Json::end() {
  if (kind_ == Kind::kArray) return {value_.values->data() + size(), nullptr};
  if (kind_ == Kind::kObject) return {nullptr, value_.members->data() + size()};
  return {};
}

Json::Iterator<const Json> Json::begin() const {
  if (kind_ == Kind::kArray) return {value_.values->data(), nullptr};
  if (kind_ == Kind::kObject) return {nullptr, value_.members->data()};
  if (kind_ != Kind::kNull) refuse("an array or an object");
  return {};
}

Json::Iterator<const Json> Json::end() const {
  if (kind_ == Kind::kArray) return {value_.values->data() + size(), nullptr};
  if (kind_ == Kind::kObject) return {nullptr, value_.members->data() + size()};
  return {};
}

Json::Items Json::items() const {
  if (kind_ == Kind::kNull) return {nullptr, nullptr};
  if (kind_ != Kind::kObject) refuse("an object");
  return {value_.members->data(), value_.members->data() + size()};
}

const Json *Json::find(std::string_view key) const noexcept {
  if (kind_ != Kind::kObject) return nullptr;
  for (const Member &member : *value_.members)
    if (member.key == key) return &member.value;
  return nullptr;
}

const Json *Json::find_in_object(std::string_view key) const {
  if (kind_ != Kind::kObject) refuse("an object");
  return find(key);
}

const Json &Json::at(std::string_view key) const {
  const Json *const found = find_in_object(key);
  if (found == nullptr) throw JsonError("no key \"" + std::string(key) + "\" in " + dump());
  return *found;
}

const Json &Json::element(std::size_t index) const {
  if (kind_ != Kind::kArray) refuse("an array");
  if (index >= size())
    throw JsonError("no value " + std::to_string(index) + " among " + std::to_string(size()));
  return (*value_.values)[index];
}

Json &Json::member(std::string_view key) {
  if (kind_ == Kind::kNull) *this = object();
  const Json *const found = find_in_object(key);
  if (found != nullptr) return const_cast<Json &>(*found);
  return value_.members->emplace_back(Member{std::string(key), {}}).value;
}

void Json::push_back(Json value) {
  if (kind_ == Kind::kNull) *this = array();
  if (kind_ != Kind::kArray) refuse("an array");
  value_.values->push_back(std::move(value));
}

void Json::update(const Json &other) {
  for (const auto &[key, value] : other.items()) member(key) = value;
}

bool Json::erase(std::string_view key) {
  if (kind_ != Kind::kObject) refuse("an object");
  return std::erase_if(*value_.members, [&](const Member &one) { return one.key == key; }) != 0;
}

void Json::clear() {
  if (kind_ == Kind::kArray)
    value_.values->clear();
  else if (kind_ == Kind::kObject)
    value_.members->clear();
  else
    refuse("an array or an object");
}

std::partial_ordering Json::compare_numbers(const Json &other) const noexcept {
  const auto with = [&](auto mine) {
    if (other.kind_ == Kind::kSigned) return order_of(mine, other.value_.signed_number);
    if (other.kind_ == Kind::kUnsigned) return order_of(mine, other.value_.unsigned_number);
    return order_of(mine, other.value_.number);
  };
  if (kind_ == Kind::kSigned) return with(value_.signed_number);
  return kind_ == Kind::kUnsigned ? with(value_.unsigned_number) : with(value_.number);
}

bool Json::is_equal(const Json &other) const noexcept {
  if (is_number() && other.is_number()) return compare_numbers(other) == 0;
  if (kind_ != other.kind_ || is_discarded()) return false;
  switch (kind_) {
    case Kind::kBoolean:
      return value_.boolean == other.value_.boolean;
    case Kind::kText:
      return *value_.text == *other.value_.text;
    case Kind::kArray:
      return *value_.values == *other.value_.values;
    case Kind::kObject:
      return size() == other.size() &&
             std::all_of(value_.members->begin(), value_.members->end(), [&](const Member &mine) {
               const Json *const theirs = other.find(mine.key);
               return theirs != nullptr && mine.value.is_equal(*theirs);
             });
    default:
      return true;  // both are null
  }
}

std::partial_ordering Json::compare(const Json &other) const noexcept {
  if (is_number() && other.is_number()) return compare_numbers(other);
  if (is_string() && other.is_string()) return *value_.text <=> *other.value_.text;
  return is_equal(other) ? std::partial_ordering::equivalent : std::partial_ordering::unordered;
}

void Json::refuse(const char *wanted) const {
  if (is_discarded()) throw JsonError(std::string("wanted ") + wanted + ", parsed no JSON");
  throw JsonError(std::string("wanted ") + wanted + ", found " + dump());
}

}  // namespace tmh::programs
