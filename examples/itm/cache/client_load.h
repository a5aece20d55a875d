// examples/itm/cache/client_load.h -- the threads of the load.
// Shape:     three parts, between which the threads meet: each key is set once; then the measured
//            part; then, with --verify, each key is got once more.
#pragma once

#include "examples/itm/cache/client_figures.h"
#include "examples/itm/cache/client_options.h"

namespace cache {

struct LoadResult {
  // Of the measured part.
  Figures measured;
  double seconds = 0;
  // Of the parts before and behind it.
  Figures around;
};
// Throws std::runtime_error when the server is gone.
[[nodiscard]] LoadResult run_load(const ClientOptions &options);

}  // namespace cache
