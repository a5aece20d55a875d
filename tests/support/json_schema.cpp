// tests/support/json_schema.cpp -- a table of keywords, and who judges each.
#include "tests/support/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {

namespace {

using nlohmann::json;

class Validator {
 public:
  explicit Validator(json root) : root_(std::move(root)) {}

  [[nodiscard]] std::vector<std::string> problems_of(const json &document) const {
    Problems problems;
    validate(root_, document, "", &problems);
    return problems;
  }

 private:
  using Problems = std::vector<std::string>;
  struct Place {
    const json &schema;    // that the keyword stands in
    const json &wanted;    // the keyword's value
    const json &found;     // what is judged
    const std::string at;  // where that lies in the document
    Problems *problems;
  };
  using Judge = void (Validator::*)(const Place &) const;

  void validate(const json &schema, const json &found, const std::string &at,
                Problems *problems) const {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) problems->push_back(at + ": nothing may stand here");
      return;
    }
    for (const auto &[keyword, wanted] : schema.items()) {
      const auto judge = judges().find(keyword);
      if (judge == judges().end())
        problems->push_back(at + ": this validator does not know " + keyword);
      else if (judge->second != nullptr)
        (this->*judge->second)({schema, wanted, found, at, problems});
    }
  }

  [[nodiscard]] bool holds(const json &schema, const json &found, const std::string &at) const {
    Problems problems;
    validate(schema, found, at, &problems);
    return problems.empty();
  }

  static void expect(bool is_right, const Place &place, const std::string &what) {
    if (!is_right)
      place.problems->push_back(place.at + ": " + place.found.dump() + " is not " + what + " " +
                                place.wanted.dump());
  }

  // As the standard has it: 1.0 is an integer, too.
  static bool is_of(const std::string &type, const json &found) {
    if (type == "integer")
      return found.is_number_integer() ||
             (found.is_number_float() && found.get<double>() == std::floor(found.get<double>()));
    if (type == "number") return found.is_number();
    if (type == "string") return found.is_string();
    if (type == "boolean") return found.is_boolean();
    if (type == "object") return found.is_object();
    if (type == "array") return found.is_array();
    if (type == "null") return found.is_null();
    throw std::runtime_error("a schema knows a type " + type);
  }

  void judge_type(const Place &place) const {
    const bool is_right =
        place.wanted.is_array()
            ? std::any_of(place.wanted.begin(), place.wanted.end(),
                          [&](const json &type) { return is_of(type, place.found); })
            : is_of(place.wanted, place.found);
    expect(is_right, place, "of type");
  }
  void judge_const(const Place &place) const { expect(place.found == place.wanted, place, "the"); }
  void judge_enum(const Place &place) const {
    expect(std::find(place.wanted.begin(), place.wanted.end(), place.found) != place.wanted.end(),
           place, "among");
  }
  void judge_minimum(const Place &place) const {
    expect(!place.found.is_number() || place.found >= place.wanted, place, "at least");
  }
  void judge_maximum(const Place &place) const {
    expect(!place.found.is_number() || place.found <= place.wanted, place, "at most");
  }
  void judge_exclusive_minimum(const Place &place) const {
    expect(!place.found.is_number() || place.found > place.wanted, place, "above");
  }
  void judge_exclusive_maximum(const Place &place) const {
    expect(!place.found.is_number() || place.found < place.wanted, place, "below");
  }
  void judge_min_length(const Place &place) const {
    expect(!place.found.is_string() ||
               place.found.get_ref<const std::string &>().size() >= place.wanted.get<std::size_t>(),
           place, "as long as");
  }
  void judge_pattern(const Place &place) const {
    expect(!place.found.is_string() || std::regex_search(place.found.get<std::string>(),
                                                         std::regex(place.wanted.get<std::string>(),
                                                                    std::regex::ECMAScript)),
           place, "like");
  }
  void judge_min_items(const Place &place) const {
    expect(!place.found.is_array() || place.found.size() >= place.wanted.get<std::size_t>(), place,
           "as many as");
  }
  void judge_items(const Place &place) const {
    if (!place.found.is_array()) return;
    for (std::size_t i = 0; i < place.found.size(); ++i)
      validate(place.wanted, place.found[i], place.at + "/" + std::to_string(i), place.problems);
  }
  void judge_required(const Place &place) const {
    if (!place.found.is_object()) return;
    for (const json &name : place.wanted)
      if (!place.found.contains(name.get<std::string>()))
        place.problems->push_back(place.at + ": " + name.dump() + " is missing");
  }
  void judge_properties(const Place &place) const {
    if (!place.found.is_object()) return;
    for (const auto &[name, schema] : place.wanted.items())
      if (const auto one = place.found.find(name); one != place.found.end())
        validate(schema, *one, place.at + "/" + name, place.problems);
  }
  void judge_additional(const Place &place) const {
    if (!place.found.is_object()) return;
    const json named = place.schema.value("properties", json::object());
    for (const auto &[name, one] : place.found.items())
      if (!named.contains(name)) validate(place.wanted, one, place.at + "/" + name, place.problems);
  }
  void judge_ref(const Place &place) const {
    const std::string to = place.wanted;
    if (!to.starts_with("#")) throw std::runtime_error("a schema refers to " + to);
    validate(root_.at(json::json_pointer(to.substr(1))), place.found, place.at, place.problems);
  }
  void judge_not(const Place &place) const {
    expect(!holds(place.wanted, place.found, place.at), place, "other than");
  }
  [[nodiscard]] std::ptrdiff_t held(const Place &place) const {
    return std::count_if(place.wanted.begin(), place.wanted.end(),
                         [&](const json &schema) { return holds(schema, place.found, place.at); });
  }
  void judge_any(const Place &place) const { expect(held(place) >= 1, place, "any of"); }
  void judge_one(const Place &place) const { expect(held(place) == 1, place, "one of"); }
  void judge_if(const Place &place) const {
    const char *const then = holds(place.wanted, place.found, place.at) ? "then" : "else";
    if (const auto schema = place.schema.find(then); schema != place.schema.end())
      validate(*schema, place.found, place.at, place.problems);
  }

  // Without a judge: what says nothing of a document, or what another keyword's judge looks at.
  static const std::map<std::string, Judge> &judges() {
    static const std::map<std::string, Judge> all = {
        {"$defs", nullptr},
        {"$ref", &Validator::judge_ref},
        {"$schema", nullptr},
        {"additionalProperties", &Validator::judge_additional},
        {"anyOf", &Validator::judge_any},
        {"const", &Validator::judge_const},
        {"default", nullptr},
        {"description", nullptr},
        {"else", nullptr},
        {"enum", &Validator::judge_enum},
        {"exclusiveMaximum", &Validator::judge_exclusive_maximum},
        {"exclusiveMinimum", &Validator::judge_exclusive_minimum},
        {"if", &Validator::judge_if},
        {"items", &Validator::judge_items},
        {"maximum", &Validator::judge_maximum},
        {"minItems", &Validator::judge_min_items},
        {"minLength", &Validator::judge_min_length},
        {"minimum", &Validator::judge_minimum},
        {"not", &Validator::judge_not},
        {"oneOf", &Validator::judge_one},
        {"pattern", &Validator::judge_pattern},
        {"properties", &Validator::judge_properties},
        {"required", &Validator::judge_required},
        {"then", nullptr},
        {"title", nullptr},
        {"type", &Validator::judge_type},
    };
    return all;
  }

  const json root_;
};

}  // namespace

std::vector<std::string> schema_problems(const std::string &schema_path,
                                         const std::string &documents) {
  const Validator validator(json::parse(read_file(schema_path)));
  std::vector<std::string> problems;
  std::istringstream lines(documents);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json document = json::parse(line, nullptr, false);
    const std::vector<std::string> more = document.is_discarded()
                                              ? std::vector<std::string>{"no JSON: " + line}
                                              : validator.problems_of(document);
    problems.insert(problems.end(), more.begin(), more.end());
  }
  if (count == 0) problems.emplace_back("no document");
  return problems;
}

}  // namespace tmh::test
