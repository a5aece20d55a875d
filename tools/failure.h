// tools/failure.h -- errors as the tmh command tells them: one sentence, the Errc's name, the exit code.
#pragma once

#include <string>

#include <tmh/error.hpp>

namespace tmh::tools {

// "kLogDamaged"; "unknown" for a number that is none.
[[nodiscard]] const char *errc_name(Errc code) noexcept;
// "/d/tmh.log.0000000000, offset 8192: ...: the redo log is damaged before its end (kLogDamaged, exit code 2)"
[[nodiscard]] std::string sentence(const Error &error);
[[noreturn]] void refuse(Errc code, const std::string &detail);
// Throws Error(code) with this thread's failure detail.
void check(Errc code);

}  // namespace tmh::tools
