// examples/inverted_index/report.h -- what is printed before and after the run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/ledger.h"
#include "examples/inverted_index/lives.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/plain_index.h"

namespace inverted_index {

// 1234567 -> "1,234,567", whatever the locale.
[[nodiscard]] std::string grouped(std::uint64_t value);
// "  name                  value"
void row(std::string_view name, const std::string &value);

void print_input(const Options &options, const Corpus &corpus);
void print_plan(const Options &options, const Opening &opening);
void print_killed(const Outage &outage);
void print_recovered(const Options &options, const Outage &outage);

struct Results {
  const Corpus &corpus;
  const Comparison &comparison;
  const RunReport &run;
  const tmh::RecoveryInfo &reopening;  // for the comparison
  std::string folder, file_system;
  tmh::TrackingReport tracking;
  tmh::Detection detection;
  tmh::Policy policy;
  double serial_seconds;
};
void print_results(const Options &options, const Results &results);

}  // namespace inverted_index
