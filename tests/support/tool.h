// tests/support/tool.h -- the tmh command run as a program, and its documents held against their
// schemas.
// REQUIRES: TMH_TOOL and TMH_SOURCE_DIR are defined, as for tests/tools/*_test.cpp.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/support/json_schema.h"
#include "tests/support/program.h"

namespace tmh::test {

// Fails the test when the command hangs or dies of a signal.
inline ProgramEnd run_tmh(std::vector<std::string> words) {
  words.insert(words.begin(), TMH_TOOL);
  ProgramEnd end = run_program(words);
  EXPECT_FALSE(end.hung) << words[1];
  EXPECT_EQ(end.signal, 0) << words[1] << ": " << end.err;
  return end;
}

// For a child that signals are to be sent to. Fails by returning. Signals mean what they mean at a
// terminal: whoever starts the tests in the background, as a shell without job control does, has
// them ignored.
inline void become_tmh(std::vector<std::string> words, const std::string &out) {
  words.insert(words.begin(), TMH_TOOL);
  const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  (void)::dup2(file, STDOUT_FILENO);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM})
    (void)::signal(signal, SIG_DFL);
  std::vector<char *> arguments;
  for (std::string &word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  (void)::execv(TMH_TOOL, arguments.data());
}

// Each line of `documents` is one.
inline void expect_valid(const std::string &schema, const std::string &documents) {
  const std::string path = TMH_SOURCE_DIR "/tools/schema/" + schema + ".schema.json";
  for (const std::string &problem : schema_problems(path, documents))
    ADD_FAILURE() << schema << " " << problem << '\n' << documents;
}

}  // namespace tmh::test
