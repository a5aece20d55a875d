// bench/support/itm_cases.h -- what bench/itm runs: programs with their arguments, and how a rate
// is read from what they print.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "bench/support/child.h"

namespace tmh::bench {

// How to read what a program has printed.
struct ItmReading {
  // A field of the JSON object that it printed last; "details.scans": a field of a field.
  std::string field;
  // Or what the first group of the first match in its output is.
  std::optional<std::regex> pattern;
  bool is_seconds = false;          // the number is the time of the work, not a rate
  std::optional<std::regex> check;  // its output must match
  int exit_code = 0;                // and it must end so
  bool is_own = false;              // it also has the keys of examples/itm
  // Counts transactions that read much beside the others; empty: there are none.
  std::string long_field;
};

struct ItmCase {
  std::string name;
  // By build: the program and its arguments, with {threads}, {seconds}, {seed}.
  std::map<std::string, std::vector<std::string>> commands;
  // Not empty: `commands` are servers, which say "listening on PLACE" and end at SIGTERM, and this
  // is the program that measures, with {place}.
  std::vector<std::string> client;
  std::string folder;             // it works there; empty: here
  std::vector<unsigned> threads;  // it can have these only; empty: any number
  ItmReading reading;
  // The case that is the same without the transactions of long_field; empty: there is none.
  std::string alone;
  bool reads_mostly = false;
  // Its transactions may skew under snapshot isolation: it runs on what is serializable.
  bool has_skew = false;

  [[nodiscard]] bool runs_with(unsigned threads_wanted) const;
};

struct ItmNumbers {
  double rate = 0;          // operations per second
  double long_rate = 0;     // those of long_field
  double transactions = 0;  // 0: the program does not tell
  double attempts = 0;
};

enum class ItmInputs : std::uint8_t {
  kWhole,
  kSmall,  // the slowest library works through them in some tenths of a second
  kTiny,   // as few operations as make sense
};
// The programs of examples/itm in that folder.
// why_not: empty, or why there is none. Throws std::runtime_error when some are missing.
[[nodiscard]] std::vector<ItmCase> itm_cases(const std::string &folder, ItmInputs inputs,
                                             std::string *why_not);

struct ItmPlaceholders {
  unsigned threads;
  double seconds;
  std::uint64_t seed;
  std::string place;
};
// Those of --programs; {place} is for our own client.
inline constexpr const char *kItmPlaceholders[] = {"{threads}", "{seconds}", "{seed}"};

[[nodiscard]] std::vector<std::string> filled_in(const std::vector<std::string> &words,
                                                 const ItmPlaceholders &values);

// Runs the program, or the server beside the client: what the one that measures has printed, and
// how it ended. Throws std::runtime_error when a server does not do as said.
[[nodiscard]] ChildOutcome run_case(const ItmCase &what, const ChildCommand &command,
                                    const ItmPlaceholders &values);

// Throws std::runtime_error, which says what is wrong, when the program did not end as it should,
// its check failed, or there is no rate.
[[nodiscard]] ItmNumbers read_numbers(const ItmReading &reading, const ChildOutcome &outcome,
                                      std::chrono::duration<double> time_max);

}  // namespace tmh::bench
