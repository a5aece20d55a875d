// bench/support/options.h -- command line that all benches share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "programs/command_line.h"

namespace tmh::bench {

using programs::CommandLine;

struct CommonOptions {
  bool tiny = false;      // small inputs, below 2 s: what the test suite runs
  std::string csv, json;  // files to write; empty: none
  // Where scratch folders are made; empty: the system's temporary folder.
  std::string folder;
  // Fixed: the same inputs and result hash on every run (the thesis's year).
  std::uint64_t seed = 2005;
};

void add_common_options(CommandLine &line, CommonOptions *options);

// The main() of every bench: parses, runs body, turns an exception into a message and exit status
// 1.
// Exit status: 0 measured, 1 failed or a wrong result. Speed never changes it: what was wanted is
// only reported.
int run_bench(CommandLine &line, int argc, char **argv, const std::function<int()> &body);

// Nothing could be measured here. Prints the line by which the test suite counts a skip; returns
// the exit status.
[[nodiscard]] int skipped(const std::string &reason);

// A folder of its own below `parent`, removed with everything in it by the process that made it.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string &parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;
  [[nodiscard]] const std::string &path() const noexcept { return path_; }
  // A new, empty folder inside.
  [[nodiscard]] std::string subfolder(const std::string &name) const;

 private:
  std::string path_;
  int owner_pid_;
};

// Writes a file of `page_count` pages in pieces of 128 KiB, as cp does; page p begins with the
// 32-bit value p. The page cache holds it afterwards, and its blocks are allocated.
void write_page_file(const std::string &path, std::uint64_t page_count);

}  // namespace tmh::bench
