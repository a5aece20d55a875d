// examples/inverted_index/tiny.h -- the input of --tiny: generated text, and one of everything that
// must be skipped.
#pragma once

#include <cstdint>
#include <string>

#include "examples/inverted_index/corpus.h"

namespace inverted_index {

// Writes it into `folder` (made here) and returns what the collector has to skip there.
[[nodiscard]] Skipped write_tiny_input(const std::string &folder, std::uint64_t seed);

}  // namespace inverted_index
