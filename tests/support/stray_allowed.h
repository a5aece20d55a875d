// tests/support/stray_allowed.h -- for tests of what stray accesses do where they do not fault.
#pragma once

#include <cstdlib>

namespace tmh::test {

// Domains that are opened while it lives, without an option of their own, let stray accesses pass.
class StrayAllowed {
 public:
  StrayAllowed() { setenv("TMH_STRAY", "allow", 1); }
  StrayAllowed(const StrayAllowed &) = delete;
  StrayAllowed &operator=(const StrayAllowed &) = delete;
  ~StrayAllowed() { unsetenv("TMH_STRAY"); }
};

}  // namespace tmh::test
