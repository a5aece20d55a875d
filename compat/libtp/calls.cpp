// compat/libtp/calls.cpp -- errors of calls.
#include "compat/libtp/calls.h"

#include <utility>

namespace tmh::tp {

namespace {

// A pointer: little room is left for threads' data where a library is loaded late. Functions that
// run at the process's end, behind all that the thread destroys, make it once more.
thread_local std::string *text = nullptr;
struct End {
  ~End() { delete std::exchange(text, nullptr); }
};

}  // namespace

const char *last_error() noexcept { return text == nullptr ? "" : text->c_str(); }

int failed(Errc error, const std::string &why) noexcept {
  TMH_ASSERT(error != Errc::kOk);
  try {
    if (text == nullptr) {
      text = new std::string;
      thread_local End end;
      (void)end;
    }
    *text = why.empty() ? message(error) : why;
  } catch (const std::bad_alloc &) {
    if (text != nullptr) text->clear();
  }
  return static_cast<int>(error);
}

int refused(const char *what) noexcept {
  TMH_ASSERT(what != nullptr);
  return failed(Errc::kBadArgument, what);
}

}  // namespace tmh::tp
