// tests/support/skip_status.cpp -- a test program whose tests were all skipped ends with status 77,
// which ctest takes for skipped (cmake/gtest_cases.py). Not by what it prints: a program that has
// skipped a test and then fails would count as skipped.
#include <cstdlib>

#include <gtest/gtest.h>

namespace {

class SkipStatus : public testing::EmptyTestEventListener {
  void OnTestProgramEnd(const testing::UnitTest &program) override {
    // exit(): a leak checker may have another word to say.
    if (program.Passed() && program.skipped_test_count() > 0 &&
        program.successful_test_count() == 0)
      std::exit(77);
  }
};

}  // namespace

const bool tmh_test_tells_skips = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SkipStatus);
  return true;
}();
