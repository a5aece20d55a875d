// tests/support/sanitizers.h -- what a sanitizer's own work keeps a test from, as a reason to skip
// it.
#pragma once

#include <string>

namespace tmh::test {

// Empty: code under test may run where no descriptor is left. TMH_TEST_UBSAN is
//        cmake/tests.cmake's: g++ has no macro of its own for it.
[[nodiscard]] inline std::string why_descriptors_must_stay() {
#if defined(TMH_TEST_UBSAN)
  return "UBSan's check of virtual tables opens a pipe, and reports an error where it cannot";
#else
  return {};
#endif
}

}  // namespace tmh::test
