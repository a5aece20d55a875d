// tests/support/code_of.h -- the code of the error that a call throws.
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <tmh/error.hpp>

namespace tmh::test {

// kOk: it throws none. Every error has something to say.
[[nodiscard]] inline Errc code_of(const std::function<void()> &call) {
  try {
    call();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()), "");
    return error.errc();
  }
  return Errc::kOk;
}

}  // namespace tmh::test
