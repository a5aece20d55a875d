// examples/inverted_index/report.h -- what is printed before and after the run.
#pragma once

#include <tmh/tmh.hpp>

#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/crew.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/plain_index.h"

namespace inverted_index {

void print_input(const Options &options, const Corpus &corpus);
void print_plan(const Options &options, const Index &index);

struct Results {
  const Corpus &corpus;
  const Comparison &comparison;
  const CrewReport &crew;
  tmh::Counters counters;
  tmh::TrackingReport tracking;
  tmh::Detection detection;
  tmh::Policy policy;
  std::uint64_t versions_after_collect;
  double serial_seconds;
};
void print_results(const Options &options, const Results &results);

}  // namespace inverted_index
