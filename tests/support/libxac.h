// tests/support/libxac.h -- a fixture for tests of the C interface: its functions belong to the
// process, so every test leaves it without a session.
#pragma once

#include <cstddef>

#include <sys/mman.h>

#include <gtest/gtest.h>
#include <xac.h>

#include <tmh/error.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {

[[nodiscard]] constexpr int code(Errc errc) { return -static_cast<int>(errc); }

class Libxac : public ::testing::Test {
 protected:
  void TearDown() override {
    if (xShutdown() == code(Errc::kInstanceRunning)) {
      while (xendQuery() == 0 || xend() > 0) {
      }
      EXPECT_EQ(xShutdown(), 0);
    }
  }

  void init() {
    ASSERT_EQ(xInit(folder_.path().c_str(), NONDURABLE), 0) << xStrError(xLastError());
  }

  int *map(const char *name, std::size_t length) {
    void *address = xMmap(name, length);
    EXPECT_NE(address, MAP_FAILED) << xStrError(xLastError());
    return static_cast<int *>(address);
  }

  TempFolder folder_;
};

inline void expect_map_fails(const char *name, std::size_t length, Errc errc) {
  EXPECT_EQ(xMmap(name, length), MAP_FAILED);
  EXPECT_EQ(xLastError(), code(errc)) << xStrError(xLastError());
}

}  // namespace tmh::test
