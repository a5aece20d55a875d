#include "examples/itm/cache/client_protocol.h"

#include <charconv>

#include "examples/itm/cache/big_endian.h"
#include "examples/itm/cache/binary_parser.h"

namespace cache {

namespace {

constexpr std::uint8_t kGetOpcode = 0x00, kSetOpcode = 0x01;
constexpr std::size_t kSetExtrasBytes = 8;
constexpr std::string_view kLineEnd = "\r\n", kEnd = "END\r\n";
using Kind = Answer::Kind;

void append_header(std::uint8_t opcode, std::size_t key_bytes, std::size_t extras_bytes,
                   std::size_t value_bytes, std::string *to) {
  const std::size_t first = to->size();
  to->resize(first + kBinaryHeaderBytes);
  char *at = to->data() + first;
  at[0] = static_cast<char>(kRequestMagic);
  at[1] = static_cast<char>(opcode);
  write_big_endian(key_bytes, 2, at + 2);
  at[4] = static_cast<char>(extras_bytes);
  write_big_endian(key_bytes + extras_bytes + value_bytes, 4, at + 8);
}

Answer parse_value(std::string_view input, std::size_t line_bytes) {
  const std::string_view line = input.substr(0, line_bytes);
  std::size_t value_bytes = 0;
  const char *last_word = line.data() + line.rfind(' ') + 1;
  const auto read = std::from_chars(last_word, line.data() + line.size(), value_bytes);
  if (read.ec != std::errc() || read.ptr != line.data() + line.size())
    return {Kind::kNonsense, 0, line};
  const std::size_t value_at = line_bytes + kLineEnd.size();
  const std::size_t tail_at = value_at + value_bytes;
  const std::size_t bytes = tail_at + kLineEnd.size() + kEnd.size();
  if (input.size() < bytes) return {};
  if (input.substr(tail_at, kLineEnd.size()) != kLineEnd ||
      input.substr(tail_at + kLineEnd.size(), kEnd.size()) != kEnd)
    return {Kind::kNonsense, 0, line};
  return {Kind::kHit, bytes, input.substr(value_at, value_bytes)};
}
Answer parse_text_answer(bool is_set, std::string_view input) {
  const std::size_t end = input.find(kLineEnd);
  if (end == std::string_view::npos) return {};
  const std::string_view line = input.substr(0, end);
  const std::size_t bytes = end + kLineEnd.size();
  if (is_set && line == "STORED") return {Kind::kStored, bytes, {}};
  if (!is_set && line == "END") return {Kind::kMiss, bytes, {}};
  if (!is_set && line.starts_with("VALUE ")) return parse_value(input, end);
  const bool is_error = line.starts_with("SERVER_ERROR") || line.starts_with("CLIENT_ERROR") ||
                        line == "ERROR" || line == "NOT_STORED";
  return {is_error ? Kind::kError : Kind::kNonsense, bytes, line};
}

Answer parse_binary_answer(bool is_set, std::string_view input) {
  if (input.size() < kBinaryHeaderBytes) return {};
  const std::size_t extras_bytes = static_cast<unsigned char>(input[4]);
  const std::size_t key_bytes = read_big_endian(input.substr(2, 2));
  const std::size_t body_bytes = read_big_endian(input.substr(8, 4));
  const auto status = static_cast<BinaryStatus>(read_big_endian(input.substr(6, 2)));
  if (static_cast<unsigned char>(input[0]) != kResponseMagic ||
      static_cast<std::uint8_t>(input[1]) != (is_set ? kSetOpcode : kGetOpcode) ||
      extras_bytes + key_bytes > body_bytes)
    return {Kind::kNonsense, 0, "no answer of the binary protocol"};
  const std::size_t bytes = kBinaryHeaderBytes + body_bytes;
  if (input.size() < bytes) return {};
  const std::size_t value_at = kBinaryHeaderBytes + extras_bytes + key_bytes;
  const std::string_view value = input.substr(value_at, bytes - value_at);
  if (status == BinaryStatus::kOk) return {is_set ? Kind::kStored : Kind::kHit, bytes, value};
  if (!is_set && status == BinaryStatus::kNotFound) return {Kind::kMiss, bytes, {}};
  return {Kind::kError, bytes, value};
}

}  // namespace

void append_get(Protocol protocol, std::string_view key, std::string *to) {
  if (protocol == Protocol::kBinary) {
    append_header(kGetOpcode, key.size(), 0, 0, to);
    to->append(key);
    return;
  }
  to->append("get ").append(key).append(kLineEnd);
}

void append_set_head(Protocol protocol, std::string_view key, std::size_t value_bytes,
                     std::string *to) {
  if (protocol == Protocol::kBinary) {
    append_header(kSetOpcode, key.size(), kSetExtrasBytes, value_bytes, to);
    to->append(kSetExtrasBytes, '\0');
    to->append(key);
    return;
  }
  to->append("set ").append(key).append(" 0 0 ").append(std::to_string(value_bytes));
  to->append(kLineEnd);
}
void append_set_tail(Protocol protocol, std::string *to) {
  if (protocol == Protocol::kText) to->append(kLineEnd);
}

Answer parse_answer(Protocol protocol, bool is_set, std::string_view input) {
  return protocol == Protocol::kBinary ? parse_binary_answer(is_set, input)
                                       : parse_text_answer(is_set, input);
}

}  // namespace cache
