// examples/itm/support/options.h -- the command line of each program.
// Shape:     a program adds its own options to those that all have, then parses. Wrong ones: a
//            message on standard error and exit status 2. --help: text and exit status 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "programs/command_line.h"

namespace itm {

inline constexpr std::uint64_t kThreadsMax = 256;

// What all programs have.
struct Common {
  std::uint64_t threads = 1;
  // How long to work; used when `operations` is 0.
  double seconds = 1;
  // How much to work (Amount); then each run of one thread does the same.
  std::uint64_t operations = 0;
  std::uint64_t seed = 1;
};

// What --operations counts.
enum class Amount {
  kOperations,  // of each thread
  kInputs       // of all threads together: each is worked through to its end
};

class Options {
 public:
  Options(const std::string &program, const std::string &description,
          Amount amount = Amount::kOperations);

  // Names as "--size"; the value that a variable has is the default. Both bounds are allowed.
  void add(const std::string &name, std::uint64_t &value, const std::string &description,
           std::uint64_t min, std::uint64_t max);
  void add(const std::string &name, double &value, const std::string &description, double min,
           double max);
  void add(const std::string &name, std::string &value, const std::string &description,
           const std::vector<std::string> &allowed);
  void add_flag(const std::string &name, bool &value, const std::string &description);

  // False: the program ends with status(). Build "plain" refuses a second thread.
  [[nodiscard]] bool parse(int argc, const char *const *argv);
  // Prints what is wrong with values that do not fit each other; returns exit status 2.
  [[nodiscard]] int refuse(const std::string &problem) const;
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const Common &common() const { return common_; }
  [[nodiscard]] const std::string &program() const { return program_; }

 private:
  tmh::programs::CommandLine line_;
  std::string program_;
  Common common_;
  int status_ = 0;
};

}  // namespace itm
