// examples/itm/cache/text_parser.h -- memcached's text protocol: bytes to commands.
// Shape:     pure functions over the bytes that have come. A command's texts point into them.
// Source:    memcached protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "examples/itm/cache/store.h"

namespace cache {

// Longer lines end the connection; those that ask for many keys may be longer.
inline constexpr std::size_t kLineBytesMax = 2048;
inline constexpr std::size_t kGetLineBytesMax = std::size_t{1} << 20;

enum class TextKind : std::uint8_t {
  // `complaint` is the answer.
  kRefused,
  kGet,
  kGets,
  kGetAndTouch,
  kGetsAndTouch,
  kPut,
  kDelete,
  kIncr,
  kDecr,
  kTouch,
  kFlush,
  kStats,
  kVersion,
  kVerbosity,
  kQuit,
  // For tests, where they are allowed.
  kFault,
  kClock,
};

struct TextCommand {
  TextKind kind = TextKind::kRefused;
  std::string_view complaint;
  // Nothing is answered.
  bool is_quiet = false;
  // kPut.
  Put how = Put::kSet;
  bool is_compared = false;
  std::uint64_t compared_cas = 0;
  std::uint32_t flags = 0;
  std::string_view value;
  // Of the value of a refused command, to be dropped when they come.
  std::size_t skipped_bytes = 0;

  std::string_view key;
  // Blank between them. kStats: what about, or nothing. kFault: the kind.
  std::string_view keys;
  std::int64_t time = 0;
  // What to add; what kClock passes.
  std::uint64_t number = 0;
};

enum class Parse : std::uint8_t {
  // `bytes`: how many there must be before a new attempt is worth it.
  kNeedsMore,
  // `bytes`: how many the command took.
  kCommand,
  // The connection cannot go on.
  kHopeless,
};
struct TextParse {
  Parse result = Parse::kNeedsMore;
  std::size_t bytes = 0;
  TextCommand command;
};
[[nodiscard]] TextParse parse_text(std::string_view input);

// Takes the first word from the line, and the blanks before it. Empty: there is none.
[[nodiscard]] std::string_view take_word(std::string_view &line);

}  // namespace cache
