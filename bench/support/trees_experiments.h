// bench/support/trees_experiments.h -- the thesis's experiments on search trees, but for the
// inserts of several processes.
// Shape:   each runs its variants in turn, every one in a process and a folder of its own, checks
//          what they found, prints a table and adds its rows to the report. Serial trees:
//          trees_serial.h; ours: the same trees in a segment of a volatile domain, each insert and
//          each search a transaction.
// Source:  thesis, section 5.2 (tables 5.1 to 5.3) and 6.1 item 6.
#pragma once

#include <cstdint>

#include "bench/support/options.h"
#include "bench/support/report.h"

namespace tmh::bench {

struct TreeExperiment {
  std::uint64_t seed = 0;
  std::uint64_t records = 0;
  std::uint64_t searches = 0;
  std::uint64_t memory_bytes = 0;  // static searches: what the searching process may use
  const ScratchFolder *scratch = nullptr;
  Report *report = nullptr;
};

// Random searches on a loaded tree that the page cache has forgotten, in less memory than it takes.
// Rows "static".
void run_static(const TreeExperiment &experiment);
// Random inserts, one scan of everything, random searches. Rows "dynamic".
void run_dynamic(const TreeExperiment &experiment);
// Inserts in the order of keys. Rows "in-order".
void run_in_order(const TreeExperiment &experiment);
// Block transfers of searches, pages and lines of inserts: serially, on the thesis's mechanism and
// on ours. Rows "search-transfers" and "insert-transfers".
void run_transfers(const TreeExperiment &experiment);

}  // namespace tmh::bench
