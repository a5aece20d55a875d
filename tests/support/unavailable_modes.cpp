// tests/support/unavailable_modes.cpp -- a program: what this machine cannot run. One line each:
// the name of a mode of support/modes, or "rtm" or "keys"; a tab; the library's sentence. ctest
// then lists no test that needs it (cmake/gtest_cases.py).
#include <algorithm>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "platform/protection_keys.h"
#include "tests/support/modes.h"
#include "tests/support/rtm_table.h"

namespace {
void print(const char *name, std::string why) {
  std::replace(why.begin(), why.end(), '\n', ' ');
  if (!why.empty()) std::printf("%s\t%s\n", name, why.c_str());
}

template <class Modes>
void print_unavailable(const Modes &modes) {
  for (const tmh::test::Mode &mode : modes) print(mode.name, tmh::test::why_unavailable(mode));
}
}  // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  print_unavailable(tmh::test::kModes);
  print_unavailable(tmh::test::kDurableHybridModes);
  print_unavailable(tmh::test::kSnapshotModes);
  print("rtm", tmh::test::why_no_rtm());
  if (!tmh::platform::has_keys()) print("keys", tmh::platform::key_refusal());
  return testing::Test::HasFailure() ? 1 : 0;
}
