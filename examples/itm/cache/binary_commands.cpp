#include "examples/itm/cache/binary_commands.h"

#include <array>
#include <optional>
#include <string>

#include "examples/itm/cache/big_endian.h"

namespace cache {

namespace {

constexpr std::size_t kFlagsBytes = 4, kNumberBytes = 8;
// As the end of an item that count() would create: it must not create one.
constexpr std::uint32_t kCreatesNone = 0xffffffff;

struct Parts {
  BinaryStatus status = BinaryStatus::kOk;
  std::size_t extras_bytes = 0, key_bytes = 0, value_bytes = 0;
  std::uint64_t cas = 0;
};
void write_header(const BinaryCommand &command, const Parts &parts, char *at) {
  at[0] = static_cast<char>(kResponseMagic);
  at[1] = static_cast<char>(command.opcode);
  write_big_endian(parts.key_bytes, 2, at + 2);
  at[4] = static_cast<char>(parts.extras_bytes);
  at[5] = 0;
  write_big_endian(static_cast<std::uint16_t>(parts.status), 2, at + 6);
  write_big_endian(parts.extras_bytes + parts.key_bytes + parts.value_bytes, 4, at + 8);
  write_big_endian(command.opaque, 4, at + 12);
  write_big_endian(parts.cas, 8, at + 16);
}

void answer(const BinaryCommand &command, Bytes &out, std::uint64_t cas = 0,
            std::string_view extras = {}, std::string_view key = {}, std::string_view value = {}) {
  write_header(command, {BinaryStatus::kOk, extras.size(), key.size(), value.size(), cas},
               out.room(kBinaryHeaderBytes));
  out.added(kBinaryHeaderBytes);
  out.append(extras);
  out.append(key);
  out.append(value);
}

std::string_view sentence(BinaryStatus status) {
  switch (status) {
    case BinaryStatus::kOk:
      return "";
    case BinaryStatus::kNotFound:
      return "Not found";
    case BinaryStatus::kExists:
      return "Data exists for key.";
    case BinaryStatus::kTooLarge:
      return "Too large.";
    case BinaryStatus::kBadArguments:
      return "Invalid arguments";
    case BinaryStatus::kNotStored:
      return "Not stored.";
    case BinaryStatus::kNoNumber:
      return "Non-numeric server-side value for incr or decr";
    case BinaryStatus::kUnknown:
      return "Unknown command";
    case BinaryStatus::kOutOfMemory:
      return "Out of memory allocating item";
  }
  return "";
}
void refuse(const BinaryCommand &command, Bytes &out, BinaryStatus status) {
  const std::string_view text = sentence(status);
  write_header(command, {status, 0, 0, text.size(), 0}, out.room(kBinaryHeaderBytes));
  out.added(kBinaryHeaderBytes);
  out.append(text);
}
BinaryStatus status_of(Status status) {
  switch (status) {
    case Status::kOk:
      return BinaryStatus::kOk;
    case Status::kExists:
      return BinaryStatus::kExists;
    case Status::kNotStored:
      return BinaryStatus::kNotStored;
    case Status::kTooLarge:
      return BinaryStatus::kTooLarge;
    case Status::kOutOfMemory:
      return BinaryStatus::kOutOfMemory;
    case Status::kNoNumber:
      return BinaryStatus::kNoNumber;
    case Status::kNotFound:
    case Status::kNoRoom:
      break;
  }
  return BinaryStatus::kNotFound;
}

void do_get(const BinaryCommand &command, Operations &operations, Bytes &out) {
  const std::size_t key_bytes = command.has_key ? command.key.size() : 0;
  const std::size_t head_bytes = kBinaryHeaderBytes + kFlagsBytes + key_bytes;
  static_cast<void>(out.room(head_bytes));
  out.added(head_bytes);
  const std::optional<Seconds> until =
      command.touches ? std::optional(operations.end_of(command.time)) : std::nullopt;
  const Got got = operations.get(make_key(command.key), out, until);
  if (got.status == Status::kOk) {
    char *head = out.room(0) - got.value_bytes - head_bytes;
    write_header(command, {BinaryStatus::kOk, kFlagsBytes, key_bytes, got.value_bytes, got.cas},
                 head);
    write_big_endian(got.flags, kFlagsBytes, head + kBinaryHeaderBytes);
    command.key.copy(head + kBinaryHeaderBytes + kFlagsBytes, key_bytes);
    return;
  }
  out.drop_back(head_bytes);
  if (command.is_quiet) return;
  if (!command.has_key) return refuse(command, out, BinaryStatus::kNotFound);
  write_header(command, {BinaryStatus::kNotFound, 0, key_bytes, 0, 0},
               out.room(kBinaryHeaderBytes));
  out.added(kBinaryHeaderBytes);
  out.append(command.key);
}

void do_put(const BinaryCommand &command, Operations &operations, Bytes &out) {
  PutRequest request;
  request.how = command.how;
  request.is_compared = command.cas != 0;
  request.compared_cas = command.cas;
  request.flags = command.flags;
  request.until = operations.end_of(command.time);
  request.value = command.value;
  const Status status = operations.put(make_key(command.key), request);
  if (status != Status::kOk) return refuse(command, out, status_of(status));
  if (!command.is_quiet) answer(command, out, operations.last_cas());
}

void do_count(const BinaryCommand &command, Operations &operations, Bytes &out) {
  CountRequest request;
  request.is_down = command.is_down;
  request.delta = command.delta;
  request.initial = command.initial;
  request.may_create = command.time != kCreatesNone;
  request.until_if_created = operations.end_of(command.time);
  request.compared_cas = command.cas;
  const Counted counted = operations.count(make_key(command.key), request);
  if (counted.status != Status::kOk) return refuse(command, out, status_of(counted.status));
  if (command.is_quiet) return;
  std::array<char, kNumberBytes> number;
  write_big_endian(counted.value, kNumberBytes, number.data());
  answer(command, out, counted.cas, {}, {}, {number.data(), number.size()});
}

void do_delete(const BinaryCommand &command, Operations &operations, Bytes &out) {
  const Status status = operations.remove(make_key(command.key), command.cas);
  if (status != Status::kOk) return refuse(command, out, status_of(status));
  if (!command.is_quiet) answer(command, out);
}

void do_touch(const BinaryCommand &command, Operations &operations, Bytes &out) {
  const Touched touched = operations.touch(make_key(command.key), operations.end_of(command.time));
  if (touched.status != Status::kOk) return refuse(command, out, status_of(touched.status));
  std::array<char, kFlagsBytes> flags;
  write_big_endian(touched.flags, kFlagsBytes, flags.data());
  answer(command, out, touched.cas, {flags.data(), flags.size()});
}

void do_statistics(const BinaryCommand &command, Operations &operations, Bytes &out) {
  const bool is_known = tell_statistics(operations.shared(), command.key,
                                        [&](const std::string &name, const std::string &value) {
                                          answer(command, out, 0, {}, name, value);
                                        });
  if (!is_known) return refuse(command, out, BinaryStatus::kNotFound);
  answer(command, out);  // an empty one ends the list
}

After do_refused(const BinaryCommand &command, Operations &operations, Bytes &out) {
  if (command.status == BinaryStatus::kTooLarge && command.how == Put::kSet)
    static_cast<void>(operations.remove(make_key(command.key), 0));
  refuse(command, out, command.status);
  return command.status == BinaryStatus::kBadArguments ? After::kClose : After::kNext;
}

}  // namespace

After do_binary(const BinaryCommand &command, Operations &operations, Bytes &out) {
  switch (command.kind) {
    case BinaryKind::kRefused:
      return do_refused(command, operations, out);
    case BinaryKind::kGet:
      do_get(command, operations, out);
      break;
    case BinaryKind::kPut:
      do_put(command, operations, out);
      break;
    case BinaryKind::kDelete:
      do_delete(command, operations, out);
      break;
    case BinaryKind::kCount:
      do_count(command, operations, out);
      break;
    case BinaryKind::kTouch:
      do_touch(command, operations, out);
      break;
    case BinaryKind::kFlush:
      operations.flush(command.time);
      if (!command.is_quiet) answer(command, out);
      break;
    case BinaryKind::kNoop:
    case BinaryKind::kVerbosity:
      answer(command, out);
      break;
    case BinaryKind::kVersion:
      answer(command, out, 0, {}, {}, kServerVersion);
      break;
    case BinaryKind::kStat:
      do_statistics(command, operations, out);
      break;
    case BinaryKind::kQuit:
      if (!command.is_quiet) answer(command, out);
      return After::kClose;
  }
  return After::kNext;
}

}  // namespace cache
