#include "examples/itm/cache/binary_parser.h"

#include <array>

#include "examples/itm/cache/big_endian.h"

namespace cache {

namespace {

// How the parts of a request have to be.
enum class KeyRule : std::uint8_t { kNone, kSome, kMay };
struct Operation {
  std::uint8_t opcode;
  BinaryKind kind;
  bool is_quiet;
  std::uint8_t extras_bytes;
  KeyRule key;
  bool has_value;
  Put how = Put::kSet;
  bool has_key = false, touches = false, is_down = false;
};
using enum BinaryKind;
constexpr std::uint8_t kPutExtras = 8, kCountExtras = 20, kTimeExtras = 4;
constexpr std::array kOperations = {
    Operation{0x00, kGet, false, 0, KeyRule::kSome, false},
    Operation{0x01, kPut, false, kPutExtras, KeyRule::kSome, true, Put::kSet},
    Operation{0x02, kPut, false, kPutExtras, KeyRule::kSome, true, Put::kAdd},
    Operation{0x03, kPut, false, kPutExtras, KeyRule::kSome, true, Put::kReplace},
    Operation{0x04, kDelete, false, 0, KeyRule::kSome, false},
    Operation{0x05, kCount, false, kCountExtras, KeyRule::kSome, false},
    Operation{.opcode = 0x06,
              .kind = kCount,
              .is_quiet = false,
              .extras_bytes = kCountExtras,
              .key = KeyRule::kSome,
              .has_value = false,
              .is_down = true},
    Operation{0x07, kQuit, false, 0, KeyRule::kNone, false},
    Operation{0x08, kFlush, false, kTimeExtras, KeyRule::kNone, false},
    Operation{0x09, kGet, true, 0, KeyRule::kSome, false},
    Operation{0x0a, kNoop, false, 0, KeyRule::kNone, false},
    Operation{0x0b, kVersion, false, 0, KeyRule::kNone, false},
    Operation{0x0c, kGet, false, 0, KeyRule::kSome, false, Put::kSet, true},
    Operation{0x0d, kGet, true, 0, KeyRule::kSome, false, Put::kSet, true},
    Operation{0x0e, kPut, false, 0, KeyRule::kSome, true, Put::kAppend},
    Operation{0x0f, kPut, false, 0, KeyRule::kSome, true, Put::kPrepend},
    Operation{0x10, kStat, false, 0, KeyRule::kMay, false},
    Operation{0x11, kPut, true, kPutExtras, KeyRule::kSome, true, Put::kSet},
    Operation{0x12, kPut, true, kPutExtras, KeyRule::kSome, true, Put::kAdd},
    Operation{0x13, kPut, true, kPutExtras, KeyRule::kSome, true, Put::kReplace},
    Operation{0x14, kDelete, true, 0, KeyRule::kSome, false},
    Operation{0x15, kCount, true, kCountExtras, KeyRule::kSome, false},
    Operation{.opcode = 0x16,
              .kind = kCount,
              .is_quiet = true,
              .extras_bytes = kCountExtras,
              .key = KeyRule::kSome,
              .has_value = false,
              .is_down = true},
    Operation{0x17, kQuit, true, 0, KeyRule::kNone, false},
    Operation{0x18, kFlush, true, kTimeExtras, KeyRule::kNone, false},
    Operation{0x19, kPut, true, 0, KeyRule::kSome, true, Put::kAppend},
    Operation{0x1a, kPut, true, 0, KeyRule::kSome, true, Put::kPrepend},
    Operation{0x1b, kVerbosity, false, kTimeExtras, KeyRule::kNone, false},
    Operation{0x1c, kTouch, false, kTimeExtras, KeyRule::kSome, false},
    Operation{0x1d, kGet, false, kTimeExtras, KeyRule::kSome, false, Put::kSet, false, true},
    Operation{0x1e, kGet, true, kTimeExtras, KeyRule::kSome, false, Put::kSet, false, true},
    Operation{0x23, kGet, false, kTimeExtras, KeyRule::kSome, false, Put::kSet, true, true},
    Operation{0x24, kGet, true, kTimeExtras, KeyRule::kSome, false, Put::kSet, true, true},
};
const Operation *operation_of(std::uint8_t opcode) {
  for (const Operation &each : kOperations)
    if (each.opcode == opcode) return &each;
  return nullptr;
}

// Offsets in a request's header.
struct Header {
  std::uint8_t opcode;
  std::size_t key_bytes, extras_bytes, body_bytes;
  std::uint32_t opaque;
  std::uint64_t cas;
};
Header header_of(std::string_view input) {
  return {static_cast<std::uint8_t>(input[1]),
          read_big_endian(input.substr(2, 2)),
          static_cast<std::uint8_t>(input[4]),
          read_big_endian(input.substr(8, 4)),
          static_cast<std::uint32_t>(read_big_endian(input.substr(12, 4))),
          read_big_endian(input.substr(16, 8))};
}

bool fits(const Operation &operation, const Header &header) {
  // A flush may come without its time.
  const bool may_lack_extras = operation.kind == kFlush;
  if (header.extras_bytes != operation.extras_bytes &&
      !(may_lack_extras && header.extras_bytes == 0))
    return false;
  if (header.key_bytes > kKeyBytesMax) return false;
  if (operation.key == KeyRule::kSome && header.key_bytes == 0) return false;
  if (operation.key == KeyRule::kNone && header.key_bytes != 0) return false;
  const std::size_t before_value = header.extras_bytes + header.key_bytes;
  return operation.has_value || header.body_bytes == before_value;
}

void take_extras(std::string_view extras, BinaryCommand *command) {
  const auto word = [extras](std::size_t at) {
    return static_cast<std::uint32_t>(read_big_endian(extras.substr(at, 4)));
  };
  if (extras.size() == kPutExtras) {
    command->flags = word(0);
    command->time = word(4);
  } else if (extras.size() == kCountExtras) {
    command->delta = read_big_endian(extras.substr(0, 8));
    command->initial = read_big_endian(extras.substr(8, 8));
    command->time = word(16);
  } else if (extras.size() == kTimeExtras) {
    command->time = word(0);
  }
}

}  // namespace

BinaryParse parse_binary(std::string_view input) {
  if (!input.empty() && static_cast<unsigned char>(input[0]) != kRequestMagic)
    return {Parse::kHopeless, 0, {}};
  if (input.size() < kBinaryHeaderBytes) return {Parse::kNeedsMore, kBinaryHeaderBytes, {}};
  const Header header = header_of(input);
  // The parser cannot tell where the next request begins.
  if (header.key_bytes + header.extras_bytes > header.body_bytes) return {Parse::kHopeless, 0, {}};
  BinaryCommand command;
  command.opcode = header.opcode;
  command.opaque = header.opaque;
  command.cas = header.cas;
  const auto refused = [&](BinaryStatus status) -> BinaryParse {
    command.status = status;
    command.skipped_bytes = header.body_bytes;
    return {Parse::kCommand, kBinaryHeaderBytes, command};
  };
  const Operation *operation = operation_of(header.opcode);
  if (operation == nullptr) return refused(BinaryStatus::kUnknown);
  command.is_quiet = operation->is_quiet;
  if (!fits(*operation, header)) return refused(BinaryStatus::kBadArguments);
  const std::size_t before_value = header.extras_bytes + header.key_bytes;
  const std::size_t value_bytes = header.body_bytes - before_value;
  if (value_bytes > kItemBytesMax) {
    // The key is wanted: an outdated value must not stay where a new one was meant to be.
    const std::size_t bytes = kBinaryHeaderBytes + before_value;
    if (input.size() < bytes) return {Parse::kNeedsMore, bytes, {}};
    command.status = BinaryStatus::kTooLarge;
    command.how = operation->how;
    command.key = input.substr(kBinaryHeaderBytes + header.extras_bytes, header.key_bytes);
    command.skipped_bytes = value_bytes;
    return {Parse::kCommand, bytes, command};
  }
  const std::size_t bytes = kBinaryHeaderBytes + header.body_bytes;
  if (input.size() < bytes) return {Parse::kNeedsMore, bytes, {}};

  command.kind = operation->kind;
  command.how = operation->how;
  command.has_key = operation->has_key;
  command.touches = operation->touches;
  command.is_down = operation->is_down;
  const std::string_view body = input.substr(kBinaryHeaderBytes, header.body_bytes);
  take_extras(body.substr(0, header.extras_bytes), &command);
  command.key = body.substr(header.extras_bytes, header.key_bytes);
  command.value = body.substr(before_value);
  if (operation->has_value && !value_fits(make_key(command.key), command.value.size())) {
    command.kind = kRefused;
    command.status = BinaryStatus::kTooLarge;
  }
  return {Parse::kCommand, bytes, command};
}

}  // namespace cache
