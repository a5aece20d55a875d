// compat/libtp/calls.cpp -- errors of calls.
#include "compat/libtp/calls.h"

#include <string_view>

namespace tmh::tp {

namespace {

// Plain: functions that run at the process's end, behind all that the thread destroys, fail, too.
thread_local char text[1024];

}  // namespace

const char *last_error() noexcept { return text; }

int failed(Errc error, const std::string &why) noexcept {
  TMH_ASSERT(error != Errc::kOk);
  text[why.copy(text, sizeof text - 1)] = '\0';
  if (why.empty()) text[std::string_view(message(error)).copy(text, sizeof text - 1)] = '\0';
  return static_cast<int>(error);
}

int refused(const char *what) noexcept {
  TMH_ASSERT(what != nullptr);
  return failed(Errc::kBadArgument, what);
}

}  // namespace tmh::tp
