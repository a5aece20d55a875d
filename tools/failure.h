// tools/failure.h -- errors as the tmh command tells them: one sentence, the Errc's name, the exit
// code.
#pragma once

#include <string>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "tools/exit_code.h"

namespace tmh::tools {

// An error whose detail is a whole sentence: what message() says of its Errc would say it again.
class Refusal : public Error {
 public:
  using Error::Error;
};

// One with an exit code of its own, which says more than its Errc's.
class SpecificError : public Refusal {
 public:
  SpecificError(Exit exit, Errc code, const std::string &detail)
      : Refusal(code, detail), exit_(exit) {
    TMH_ASSERT(exit != Exit::kOk);
  }
  [[nodiscard]] Exit exit() const noexcept { return exit_; }

 private:
  Exit exit_;
};
[[nodiscard]] Exit exit_of(const Error &error) noexcept;

// "kLogDamaged"; "unknown" for a number that is none.
[[nodiscard]] const char *errc_name(Errc code) noexcept;
// What happened, said once: the detail alone where it is a sentence, else what().
[[nodiscard]] std::string text_of(const Error &error);
// "backup exists (kBadArgument, exit code 3)"
[[nodiscard]] std::string sentence(const Error &error);
// Throws a Refusal: the detail is a whole sentence.
[[noreturn]] void refuse(Errc code, const std::string &detail);
// Throws Error(code) with this thread's failure detail.
void check(Errc code);

}  // namespace tmh::tools
