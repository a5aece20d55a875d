// tools/db.h -- tmh db: files of dbopen(), looked at, written as text, and made of it.
// Errors:    tmh::Error.
#pragma once

#include <cstdint>
#include <string>

#include "tools/exit_code.h"

namespace tmh::tools {

struct DbCommand {
  enum class Kind : std::uint8_t { kCheck, kDump, kLoad };
  Kind kind = Kind::kCheck;
  std::string file;
  std::string from;  // kLoad: a text; empty: standard input
  bool json = false;
};
[[nodiscard]] Exit run(const DbCommand &command);

}  // namespace tmh::tools
