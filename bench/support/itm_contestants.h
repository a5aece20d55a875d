// bench/support/itm_contestants.h -- what a program of -fgnu-tm is run on: a libitm and a method of
// it, or another build of the program.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tmh::bench {

// An option or a file that the user gave is wrong: a message, and exit status 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr const char *kTransactions = "itm", *kMutex = "mutex", *kPlain = "plain";

struct ItmContestant {
  std::string name;
  std::string build = kTransactions;  // which of the program's builds runs
  std::string library;                // file of libitm.so.1; empty: none
  std::string method;                 // ITM_DEFAULT_METHOD; empty: what the library chooses
  bool tells_method = false;          // in its statistics, which must be that one
  std::string loaded_first;           // a library that its method needs; empty: none
  bool is_serializable = true;        // else programs with write skew are wrong on it

  [[nodiscard]] bool has_threads() const { return build != kPlain; }
};

// What all are compared with, and ours by default.
inline constexpr const char *kBaseline = "gcc ml_wt", *kOursByDefault = "lines";

// GCC's by method, ours by method, mutex and plain; without those that cannot run here.
// why_not: what is missing, a sentence each.
[[nodiscard]] std::vector<ItmContestant> itm_contestants(const std::string &build_folder,
                                                         std::vector<std::string> *why_not);

// --libitm NAME=PATH[:METHOD]. Throws BadInput.
[[nodiscard]] ItmContestant outside_contestant(const std::string &text,
                                               const std::vector<ItmContestant> &others);

// How a child comes to run on that library: variables of its environment. `folder`: of its own,
// where a link to the library is made.
[[nodiscard]] std::map<std::string, std::string> environment_on(const ItmContestant &contestant,
                                                                const std::string &folder);

// For a run by which the loader is to tell what it loads, into files of `folder`.
[[nodiscard]] std::map<std::string, std::string> environment_that_tells(const std::string &folder);
// Throws std::runtime_error when no process of that run has loaded the contestant's library, or one
// has loaded another libitm.
void check_library(const ItmContestant &contestant, const std::string &folder);

}  // namespace tmh::bench
