// platform/try.h -- a call that may fail, in a function that fails with it.
#pragma once

#include <tmh/error.hpp>

// Calls, and returns the Errc unless that is kOk. Variadic: the expression may hold commas.
// NOLINTBEGIN(cppcoreguidelines-avoid-do-while): as one statement, below an `if` too
#define TMH_TRY(...)                                                                \
  do {                                                                              \
    if (const ::tmh::Errc tmh_error = (__VA_ARGS__); tmh_error != ::tmh::Errc::kOk) \
      return tmh_error;                                                             \
  } while (false)
// NOLINTEND(cppcoreguidelines-avoid-do-while)
