// tools/failure.h -- errors as the tmh command tells them: one sentence, the Errc's name, the exit code.
#pragma once

#include <string>

#include <tmh/error.hpp>

#include "tools/exit_code.h"

namespace tmh::tools {

// An error with an exit code of its own, which says more than its Errc's.
class SpecificError : public Error {
 public:
  SpecificError(Exit exit, Errc code, const std::string &detail) : Error(code, detail), exit_(exit) {}
  [[nodiscard]] Exit exit() const noexcept { return exit_; }

 private:
  Exit exit_;
};
[[nodiscard]] Exit exit_of(const Error &error) noexcept;

// "kLogDamaged"; "unknown" for a number that is none.
[[nodiscard]] const char *errc_name(Errc code) noexcept;
// "/d/tmh.log.0000000000, offset 8192: ...: the redo log is damaged before its end (kLogDamaged, exit code 2)"
[[nodiscard]] std::string sentence(const Error &error);
[[noreturn]] void refuse(Errc code, const std::string &detail);
// Throws Error(code) with this thread's failure detail.
void check(Errc code);

}  // namespace tmh::tools
