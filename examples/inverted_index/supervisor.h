// examples/inverted_index/supervisor.h -- the process that opens the domain, lays out the work or
// finds it, and runs the crew.
#pragma once

#include <cstdint>
#include <string>

#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/ledger.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/signals.h"

namespace inverted_index {

// Returns when all the work is done and the domain is closed. Whatever is wrong stands in the
// ledger. REQUIRES: in a forked child that has opened no domain. `life`: how often the whole domain
// was killed before.
[[nodiscard]] Exit run_supervisor(const Options &options, const std::string &folder,
                                  const Corpus &corpus, std::uint32_t life, Signals &signals,
                                  const Ledger &ledger) noexcept;

}  // namespace inverted_index
