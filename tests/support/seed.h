// tests/support/seed.h -- one seed per test run: printed, and set by TMH_SEED=<number> to repeat a
// run.
// Shape:     rapidcheck properties get the same seed (RC_PARAMS, unless that is set already).
#pragma once

#include <cstdint>

namespace tmh::test {

[[nodiscard]] std::uint64_t seed();

// A positive number from the environment, or `otherwise`. A value that is no number fails the
// running test.
[[nodiscard]] std::uint64_t environment_number(const char *name, std::uint64_t otherwise);

}  // namespace tmh::test
