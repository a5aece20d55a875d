// tests/programs/json_test.cpp -- programs/json.h: every kind of value, its text and back; hostile
// text.
// Invariant: (1) what is printed is parsed to an equal value, and printed again as the same bytes.
//            (2) members keep their order. (3) no text crashes parse(): it is a value or refused.
//            (4) a wrong kind, key or index is a JsonError.
// The seed is printed, and read from TMH_SEED.
#include "programs/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using programs::Json;
using programs::JsonError;
using programs::JsonParseError;

bool is_refused(const std::string &text) {
  return Json::parse(text, Json::IfBroken::kDiscard).is_discarded();
}

TEST(Json, EveryKindIsPrintedAndParsed) {
  const std::pair<Json, const char *> cases[] = {
      {nullptr, "null"},
      {true, "true"},
      {false, "false"},
      {0, "0"},
      {-1, "-1"},
      {std::numeric_limits<std::int64_t>::min(), "-9223372036854775808"},
      {std::numeric_limits<std::uint64_t>::max(), "18446744073709551615"},
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.5, "1.5"},
      {1e300, "1e+300"},
      {0.1f, "0.10000000149011612"},
      {1.0 / 3, "0.3333333333333333"},
      {"", R"("")"},
      {std::string("a\0b", 3), R"("a\u0000b")"},
      {"\"\\/\b\f\n\r\t\x1f\x7f", "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f\""},
      {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
      {Json::array(), "[]"},
      {Json::object(), "{}"},
      {std::vector<std::uint64_t>{1, 2}, "[1,2]"},
      {{1, "a", nullptr}, R"([1,"a",null])"},
      {{{"z", 1}, {"a", {1, 2}}}, R"({"z":1,"a":[1,2]})"}};
  for (const auto &[value, text] : cases) {
    EXPECT_EQ(value.dump(), text);
    const Json parsed = Json::parse(text);
    EXPECT_EQ(parsed, value) << text;
    EXPECT_EQ(parsed.dump(), text);
  }
}

TEST(Json, WhatHasNoTextOfItsOwnIsReplaced) {
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(Json("a\xff\xc3").dump(), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(Json, IndentedTextHasOneMemberALine) {
  const Json json{{"a", 1}, {"b", {1, 2}}, {"c", Json::object()}};
  EXPECT_EQ(json.dump(2), "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": {}\n}");
  std::ostringstream out;
  out << json;
  EXPECT_EQ(out.str(), R"({"a":1,"b":[1,2],"c":{}})");
}

TEST(Json, AListOfPairsIsAnObjectAndAnyOtherListAnArray) {
  EXPECT_TRUE((Json{{"a", 1}, {"b", 2}}).is_object());
  EXPECT_TRUE((Json{{"a", 1}, {2, 3}}).is_array());
  EXPECT_TRUE((Json{{"a", 1}, {"b", 2, 3}}).is_array());
  EXPECT_TRUE((Json{"a", 1}).is_array());
  EXPECT_EQ((Json{{"a", 1}, {"a", 2}}).dump(), R"({"a":1})") << "the first one stays";
}

TEST(Json, MembersKeepTheirOrderAndAreFoundByKey) {
  Json json;
  EXPECT_TRUE(json.is_null() && json.empty());
  json["z"] = 1;
  json["a"]["b"] = "deep";
  json[std::string("m")].push_back(2.5);
  EXPECT_EQ(json.dump(), R"({"z":1,"a":{"b":"deep"},"m":[2.5]})");
  EXPECT_TRUE(json.contains("a"));
  EXPECT_FALSE(json.contains("b"));
  EXPECT_FALSE(Json(1).contains("a"));
  std::string keys;
  for (const auto &[key, value] : json.items()) keys += key;
  EXPECT_EQ(keys, "zam");
  json.update({{"z", 2}, {"n", nullptr}});
  EXPECT_EQ(json.dump(), R"({"z":2,"a":{"b":"deep"},"m":[2.5],"n":null})");
  EXPECT_TRUE(json.erase("a"));
  EXPECT_FALSE(json.erase("a"));
  EXPECT_EQ(json.size(), 3u);
  json.clear();
  EXPECT_EQ(json.dump(), "{}");
}

TEST(Json, ValuesOfArraysAndObjectsAreVisited) {
  Json json{1, 2, 3};
  for (Json &one : json) one = one.get<int>() * 10;
  int sum = 0;
  for (const Json &one : json) sum += one.get<int>();
  EXPECT_EQ(sum, 60);
  EXPECT_EQ(json.front(), 10);
  EXPECT_EQ(json.back(), 30);
  EXPECT_EQ(json[0], json.at(0));
  int seen = 0;
  for (const Json &one : Json{{"a", 7}, {"b", 8}}) seen += one.get<int>();
  EXPECT_EQ(seen, 15);
  for (const Json &one : Json()) ADD_FAILURE() << one;
}

TEST(Json, NumbersAreConvertedAndCompared) {
  const Json large = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(large.get<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_GT(large, -1);
  EXPECT_GT(large, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Json(1), Json(1u));
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_EQ(Json(2.9).get<int>(), 2);
  EXPECT_LT(Json(1.5), 2);
  EXPECT_GE(Json("b"), Json("a"));
  EXPECT_FALSE(Json("b") > 1) << "a text and a number have no order";
  EXPECT_NE(Json(true), Json(1));
  EXPECT_NE(Json(0), Json(nullptr));
  const int number = Json(7);
  const std::string text = Json("seven");
  EXPECT_EQ(number, 7);
  EXPECT_EQ(text, "seven");
  EXPECT_TRUE(Json::parse("1").is_number_unsigned());
  EXPECT_FALSE(Json::parse("-1").is_number_unsigned());
  EXPECT_FALSE(Json::parse("1.0").is_number_integer());
  EXPECT_EQ(Json::parse("18446744073709551616").get<double>(), 18446744073709551616.0);
}

TEST(Json, ObjectsAreEqualInAnyOrder) {
  EXPECT_EQ(Json::parse(R"({"a":1,"b":[2]})"), Json::parse(R"({"b":[2],"a":1.0})"));
  EXPECT_NE(Json::parse(R"({"a":1})"), Json::parse(R"({"a":1,"b":2})"));
  EXPECT_NE(Json::parse(R"({"a":1})"), Json::parse(R"({"b":1})"));
  EXPECT_NE(Json::parse("[1,2]"), Json::parse("[2,1]"));
}

TEST(Json, AWrongKindOrKeyIsAnError) {
  const Json object{{"a", 1}}, array{1}, broken = Json::parse("{", Json::IfBroken::kDiscard);
  EXPECT_THROW((void)object.at("b"), JsonError);
  EXPECT_THROW((void)object["b"], JsonError);
  EXPECT_THROW((void)object.at(0), JsonError);
  EXPECT_THROW((void)array.at(1), JsonError);
  EXPECT_THROW((void)array.at(-1), JsonError);
  EXPECT_THROW((void)array["a"], JsonError);
  EXPECT_THROW((void)Json::array().back(), JsonError);
  EXPECT_THROW((void)Json("1").get<int>(), JsonError);
  EXPECT_THROW((void)Json(1).get<std::string>(), JsonError);
  EXPECT_THROW((void)Json(1).get<bool>(), JsonError);
  EXPECT_THROW((void)Json(1).begin(), JsonError);
  EXPECT_THROW((void)array.items(), JsonError);
  EXPECT_THROW((void)broken.value("error", ""), JsonError);
  EXPECT_THROW((void)Json("a").push_back(1), JsonError);
  EXPECT_EQ(object.value("a", 5), 1);
  EXPECT_EQ(object.value("b", 5), 5);
  EXPECT_EQ(object.value("b", "none"), "none");
}

TEST(Json, ACopyIsApart) {
  const Json one{{"a", {1, 2}}};
  Json other = one;
  other["a"].push_back(3);
  EXPECT_EQ(one.dump(), R"({"a":[1,2]})");
  Json moved = std::move(other);
  EXPECT_EQ(moved.dump(), R"({"a":[1,2,3]})");
  const Json part = moved["a"];
  moved = part;
  EXPECT_EQ(moved.dump(), "[1,2,3]");
  moved = moved[2];
  EXPECT_EQ(moved, 3) << "of itself";
}

TEST(JsonText, WhatIsNoJsonIsRefused) {
  for (const char *text : {"",         " ",     "{",       "}",      "[1,]",        "{\"a\"}",
                           "{\"a\":}", "{a:1}", "nul",     "01",     "1.",          "+1",
                           "'a'",      "\"",    "\"\\x\"", "\"\n\"", "\"\\ud800\"", "\"\xff\"",
                           "1 2",      "[1] x", "NaN",     "1e999",  "/**/1",       "\xef\xbb\xbf"})
    EXPECT_TRUE(is_refused(text)) << text;
  EXPECT_TRUE(is_refused(std::string("1\0", 2)));
  EXPECT_EQ(Json::parse(" [ 1 , 2 ] \n").size(), 2u);
  EXPECT_EQ(Json::parse(R"({"a":1,"b":2,"a":3})").dump(), R"({"a":3,"b":2})");
  try {
    (void)Json::parse("[1, x]");
    ADD_FAILURE() << "it was parsed";
  } catch (const JsonParseError &error) {
    EXPECT_EQ(error.byte, 5u);
    EXPECT_NE(std::string(error.what()).find("column 5"), std::string::npos) << error.what();
  }
}

TEST(JsonText, NestingIsBounded) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_FALSE(is_refused(nested(Json::kDepthMax)));
  EXPECT_TRUE(is_refused(nested(Json::kDepthMax + 1)));
  EXPECT_TRUE(is_refused(std::string(1'000'000, '[')));
  EXPECT_TRUE(is_refused(std::string(1'000'000, '{')));
  EXPECT_THROW((void)Json::parse(nested(1'000'000)), JsonParseError);
}

class RandomJson {
 public:
  explicit RandomJson(std::uint64_t seed) : random_(seed) {}

  Json value(unsigned depth) {
    switch (below(depth == 0 ? 7 : 9)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<std::int64_t>(random_() >> below(64));
      case 3:
        return -static_cast<std::int64_t>(random_() >> (1 + below(63)));
      case 4:
        return random_() >> below(64);
      case 5:
        return number();
      case 6:
        return text();
      case 7: {
        Json array = Json::array();
        for (std::uint64_t left = below(5); left > 0; --left) array.push_back(value(depth - 1));
        return array;
      }
      default:
        break;
    }
    Json object = Json::object();
    for (std::uint64_t left = below(5); left > 0; --left) object[text()] = value(depth - 1);
    return object;
  }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

 private:
  double number() {
    return (static_cast<double>(random_()) - 9e18) * (below(2) == 0 ? 1e-18 : 1e-300);
  }
  // Of UTF-8: what each length begins with, and control characters.
  std::string text() {
    static const char *const kPieces[] = {
        "a",   "\"", "\\", "\n", "\x01", "/", "\xc3\xa4", "\xe2\x82\xac", " ", "\xf0\x9f\x98\x80",
        "\x7f"};
    std::string text;
    for (std::uint64_t left = below(8); left > 0; --left) text += kPieces[below(11)];
    return text;
  }
  std::mt19937_64 random_;
};

TEST(JsonText, RandomValuesSurviveTheirText) {
  RandomJson random(seed());
  for (int round = 0; round < 3000; ++round) {
    const Json value = random.value(4);
    const std::string text = value.dump();
    const Json parsed = Json::parse(text);
    ASSERT_EQ(parsed, value);
    ASSERT_EQ(parsed.dump(), text);
    ASSERT_EQ(Json::parse(value.dump(2)), value);
    const Json copy = value;
    ASSERT_EQ(copy.dump(), text);
  }
}

TEST(JsonText, DamagedTextIsParsedOrRefused) {
  RandomJson random(seed());
  std::size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = random.value(4).dump();
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    if (random.below(3) == 0) text.resize(random.below(text.size() + 1));
    const Json parsed = Json::parse(text, Json::IfBroken::kDiscard);
    if (parsed.is_discarded())
      ++refused;
    else
      ASSERT_EQ(Json::parse(parsed.dump()), parsed) << text;
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace tmh::test
