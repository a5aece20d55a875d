// tests/support/tool.h -- the tmh command run as a program, and its documents held against their schemas.
// REQUIRES: TMH_TOOL, TMH_PYTHON, TMH_SOURCE_DIR are defined, as for tests/tool_*_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

// Fails the test when the command hangs or dies of a signal.
inline ProgramEnd run_tmh(std::vector<std::string> words) {
  words.insert(words.begin(), TMH_TOOL);
  ProgramEnd end = run_program(words);
  EXPECT_FALSE(end.hung) << words[1];
  EXPECT_EQ(end.signal, 0) << words[1] << ": " << end.err;
  return end;
}

// Each line of `documents` is one. Without python3-jsonschema nothing is checked: the test goes on, and counts as skipped unless it fails.
inline void expect_valid(const std::string &schema, const std::string &documents) {
  const TempFolder folder;
  std::ofstream(folder / "documents") << documents;
  const std::string root = TMH_SOURCE_DIR;
  const ProgramEnd end = run_program({TMH_PYTHON, "-B", root + "/tests/json_schema.py", "--validate",
                                      root + "/tools/schema/" + schema + ".schema.json", folder / "documents"});
  if (end.exit_code == 77) GTEST_SKIP() << "the document was not held against its schema: " << end.out;
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err << documents;
}

}  // namespace tmh::test
