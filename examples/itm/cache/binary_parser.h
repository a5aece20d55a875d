// examples/itm/cache/binary_parser.h -- memcached's binary protocol: bytes to commands.
// Shape:     pure functions over the bytes that have come. A command's texts point into them.
// Source:    memcached protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "examples/itm/cache/store.h"
#include "examples/itm/cache/text_parser.h"

namespace cache {

inline constexpr std::size_t kBinaryHeaderBytes = 24;
inline constexpr unsigned char kRequestMagic = 0x80, kResponseMagic = 0x81;

// Numbers of the protocol.
enum class BinaryStatus : std::uint16_t {
  kOk = 0x00,
  kNotFound = 0x01,
  kExists = 0x02,
  kTooLarge = 0x03,
  kBadArguments = 0x04,
  kNotStored = 0x05,
  kNoNumber = 0x06,
  kUnknown = 0x81,
  kOutOfMemory = 0x82,
};

enum class BinaryKind : std::uint8_t {
  // `status` is the answer.
  kRefused,
  kGet,
  kPut,
  kDelete,
  kCount,
  kTouch,
  kFlush,
  kNoop,
  kVersion,
  kStat,
  kVerbosity,
  kQuit,
};

struct BinaryCommand {
  BinaryKind kind = BinaryKind::kRefused;
  BinaryStatus status = BinaryStatus::kOk;
  std::uint8_t opcode = 0;
  std::uint32_t opaque = 0;
  std::uint64_t cas = 0;
  // Says nothing when all is well; as a get, when there is nothing.
  bool is_quiet = false;
  // kGet: the answer has the key; the item gets a new end.
  bool has_key = false, touches = false;
  Put how = Put::kSet;
  bool is_down = false;
  std::string_view key, value;
  std::uint32_t flags = 0, time = 0;
  std::uint64_t delta = 0, initial = 0;
  // Of the body of a refused command, to be dropped when they come.
  std::size_t skipped_bytes = 0;
};

struct BinaryParse {
  Parse result = Parse::kNeedsMore;
  std::size_t bytes = 0;
  BinaryCommand command;
};
[[nodiscard]] BinaryParse parse_binary(std::string_view input);

}  // namespace cache
