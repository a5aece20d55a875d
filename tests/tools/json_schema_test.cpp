// tests/tools/json_schema_test.cpp -- tests/support/json_schema.h on trial: right documents pass,
// and each planted fault is caught.
#include "tests/support/json_schema.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "programs/json.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using programs::Json;
using Change = std::function<void(Json &)>;

const std::string kSchemas = TMH_SOURCE_DIR "/tools/schema/";

Json right_doctor() {
  return Json::parse(R"({"document": "tmh-doctor-1", "kernel": "6.1", "tracking": "signal",
    "pmu": "", "rtm_trial": {"made": true, "illegal_instruction": false, "attempts": 3,
    "commits": 2, "aborts": [{"status": 6, "count": 1}]},
    "topology": {"packages": 1, "numa_nodes": 1, "cores": 2, "threads": 2, "line_bytes": 64,
    "l1d_bytes": 32768, "l1d_ways": 8},
    "storage": {"folder": ".", "file_system": "ext4", "free_bytes": 1, "fdatasync_us": 90.5,
    "direct_us": 0},
    "findings": [{"area": "rtm", "subject": "RTM", "verdict": "yes", "found": "works"},
    {"area": "pages", "subject": "userfaultfd", "verdict": "no", "found": "EPERM",
    "cause": "sandbox", "remedy": "leave it"}]})");
}

std::vector<std::string> problems_of(const Json &document) {
  return schema_problems(kSchemas + "doctor.schema.json", document.dump());
}

TEST(JsonSchema, ARightDocumentPassesAndEachFaultIsCaught) {
  const std::vector<std::string> none = problems_of(right_doctor());
  EXPECT_TRUE(none.empty()) << none.front();
  const std::pair<const char *, Change> faults[] = {
      {"no findings", [](Json &d) { d["findings"].clear(); }},
      {"a key is missing", [](Json &d) { d.erase("tracking"); }},
      {"a key too many", [](Json &d) { d["more"] = 1; }},
      {"a number as text", [](Json &d) { d["storage"]["free_bytes"] = "1"; }},
      {"a fraction for an integer", [](Json &d) { d["topology"]["cores"] = 1.5; }},
      {"a truth for a number", [](Json &d) { d["topology"]["cores"] = true; }},
      {"a negative number", [](Json &d) { d["topology"]["cores"] = -1; }},
      {"a topology key that is none", [](Json &d) { d["topology"]["sockets"] = 1; }},
      {"another verdict", [](Json &d) { d["findings"][0]["verdict"] = "maybe"; }},
      {"a no without a remedy", [](Json &d) { d["findings"][1].erase("remedy"); }},
      {"a no with an empty cause", [](Json &d) { d["findings"][1]["cause"] = ""; }},
      {"a yes with a cause", [](Json &d) { d["findings"][0]["cause"] = "none"; }},
      {"another kind of document", [](Json &d) { d["document"] = "tmh-doctor-2"; }}};
  for (const auto &[what, change] : faults) {
    Json document = right_doctor();
    change(document);
    EXPECT_FALSE(problems_of(document).empty()) << what;
  }
}

TEST(JsonSchema, EachKeywordRefusesWhatItIsThereFor) {
  struct Case {
    const char *schema, *right, *wrong;
  };
  constexpr Case kCases[] = {
      {R"({"type": ["string", "null"]})", "null", "1"},
      {R"({"type": "integer", "maximum": 3})", "3", "4"},
      {R"({"exclusiveMaximum": 1, "exclusiveMinimum": 0})", "0.99", "1"},
      {R"({"exclusiveMinimum": 0})", "0.1", "0"},
      {R"({"type": "integer", "minimum": 0})", "18446744073709551615", "-1"},
      {R"({"pattern": "^(a|b .+)$"})", R"("b c")", R"("c")"},
      {R"({"minItems": 2, "items": {"enum": [1, "x"]}})", R"([1, "x"])", R"([1, 2])"},
      {R"({"oneOf": [{"minimum": 1}, {"minimum": 2}]})", "1", "2"},
      {R"({"anyOf": [{"const": 1}, {"const": 2}]})", "2", "3"},
      {R"({"not": {"required": ["a"]}})", R"({"b": 1})", R"({"a": 1})"},
      {R"({"if": {"minimum": 5}, "then": {"maximum": 7}, "else": {"minimum": 2}})", "3", "8"},
      {R"({"additionalProperties": {"type": "number"}})", R"({"a": 1})", R"({"a": ""})"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}})", "1", "2"}};
  const MemoryFolder folder;
  for (const Case &one : kCases) {
    write_file(folder / "schema", one.schema);
    EXPECT_TRUE(schema_problems(folder / "schema", one.right).empty()) << one.schema;
    EXPECT_FALSE(schema_problems(folder / "schema", one.wrong).empty()) << one.schema;
  }
}

TEST(JsonSchema, WhatIsNoDocumentIsAProblem) {
  const MemoryFolder folder;
  write_file(folder / "schema", "{}");
  EXPECT_FALSE(schema_problems(folder / "schema", "").empty()) << "no document";
  EXPECT_FALSE(schema_problems(folder / "schema", "{").empty()) << "half of one";
  EXPECT_TRUE(schema_problems(folder / "schema", "{}\n[]\n").empty());
}

}  // namespace
}  // namespace tmh::test
