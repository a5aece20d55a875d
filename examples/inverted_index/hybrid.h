// examples/inverted_index/hybrid.h -- the second part of the demo: the same text counted in a
// hybrid domain, small transactions at cache lines, large ones at pages, on the same memory, while
// workers are killed; compared with what plain serial code found.
#pragma once

#include <string>

#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/plain_index.h"
#include "examples/inverted_index/signals.h"

namespace inverted_index {

// Prints what ran where. Returns whether the counts equal the serial ones. Throws
// std::runtime_error when a worker failed.
[[nodiscard]] bool run_hybrid(const Options &options, const std::string &folder,
                              const Corpus &corpus, const PlainIndex &plain, Signals &signals);

}  // namespace inverted_index
