// tests/support/json_schema.h -- documents held against a JSON Schema, in this process: to start
// Python for each of them took longer than to make them.
// Method:   valijson, which knows the keywords that tools/schema/ uses. tests/house/json_schema.py
//           holds the schemas themselves against the standard.
#pragma once

#include <string>
#include <vector>

namespace tmh::test {

// What is wrong with the documents, each a line of `documents`; empty: nothing. No document is
// wrong, too. Throws when the schema cannot be read.
[[nodiscard]] std::vector<std::string> schema_problems(const std::string &schema_path,
                                                       const std::string &documents);

}  // namespace tmh::test
