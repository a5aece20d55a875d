// tools/print.h -- standard output and standard error of the tmh command.
#pragma once

#include <string>
#include <string_view>

#include "programs/json.h"

namespace tmh::tools {

using programs::Json;

// Throws kIo or kDiskFull when standard output cannot be written.
void print(const std::string &text);
// Several lines; bytes of a name that are not UTF-8 are replaced.
[[nodiscard]] std::string text_of_json(const Json &document);
void print(const Json &document);
// One line.
void print_line(const Json &document);
// Bytes that may be damaged, as text that a terminal and JSON can take: control
// characters, and what is no UTF-8, become \xNN.
[[nodiscard]] std::string printable(std::string_view bytes);
// Writes out what print() kept; throws like it.
void flush_output();
// Standard error. What it does not take nobody hears; that is no reason to end with another status,
// or to leave work undone.
void print_error(const std::string &text) noexcept;

}  // namespace tmh::tools
