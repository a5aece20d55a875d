// tools/print.h -- standard output of the tmh command.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace tmh::tools {

using Json = nlohmann::ordered_json;

// Throws kIo or kDiskFull when standard output cannot be written.
void print(const std::string &text);
// Several lines; bytes of a name that are not UTF-8 are replaced.
[[nodiscard]] std::string text_of_json(const Json &document);
void print(const Json &document);
// One line.
void print_line(const Json &document);
// Writes out what print() kept; throws like it.
void flush_output();

}  // namespace tmh::tools
