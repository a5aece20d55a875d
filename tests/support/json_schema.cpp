// tests/support/json_schema.cpp -- asks valijson.
#include "tests/support/json_schema.h"

#include <cstdint>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {

using nlohmann::json;
using valijson::adapters::NlohmannJsonAdapter;

namespace {
// valijson keeps integers in std::int64_t: a larger one would count as negative.
void bound_integers(json *value) {
  if (value->is_structured())
    for (json &part : *value) bound_integers(&part);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{kMost})
    *value = kMost;
}
}  // namespace

std::vector<std::string> schema_problems(const std::string &schema_path,
                                         const std::string &documents) {
  const json text = json::parse(read_file(schema_path));
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(text), schema);
  std::vector<std::string> problems;
  std::istringstream lines(documents);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    json document = json::parse(line, nullptr, false);
    if (document.is_discarded()) {
      problems.push_back("no JSON: " + line);
      continue;
    }
    bound_integers(&document);
    valijson::Validator validator;
    valijson::ValidationResults found;
    if (validator.validate(schema, NlohmannJsonAdapter(document), &found)) continue;
    for (valijson::ValidationResults::Error error; found.popError(error);) {
      std::string at;
      for (const std::string &part : error.context) at += part;
      problems.push_back(at + ": " + error.description);
    }
  }
  if (count == 0) problems.emplace_back("no document");
  return problems;
}

}  // namespace tmh::test
