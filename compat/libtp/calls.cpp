// compat/libtp/calls.cpp -- errors of calls.
#include "compat/libtp/calls.h"

namespace tmh::tp {

std::string &last_error() noexcept {
  thread_local std::string text;
  return text;
}

int failed(Errc error, const std::string &why) noexcept {
  TMH_ASSERT(error != Errc::kOk);
  try {
    last_error() = why.empty() ? message(error) : why;
  } catch (const std::bad_alloc &) {
    last_error().clear();
  }
  return static_cast<int>(error);
}

int refused(const char *what) noexcept {
  TMH_ASSERT(what != nullptr);
  return failed(Errc::kBadArgument, what);
}

}  // namespace tmh::tp
