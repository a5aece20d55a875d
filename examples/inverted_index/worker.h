// examples/inverted_index/worker.h -- one worker process.
#pragma once

#include "examples/inverted_index/options.h"

namespace inverted_index {

// Works until no lane has a unit left. Throws on errors.
void run_worker(const Options &options);

}  // namespace inverted_index
