#include "examples/itm/cache/text_commands.h"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>

namespace cache {

namespace {

constexpr std::string_view kLineEnd = "\r\n";
// " FLAGS BYTES[ CAS]" and the end of the line.
constexpr std::size_t kValueLineBytesMax = 1 + 10 + 1 + 10 + 1 + 20 + 2;
constexpr std::size_t kDigitsMax = 20;

char *put_number(char *at, std::uint64_t number) {
  return std::to_chars(at, at + kDigitsMax, number).ptr;
}

void answer(const TextCommand &command, Bytes &out, std::string_view text) {
  if (command.is_quiet) return;
  out.append(text);
  out.append(kLineEnd);
}

// "VALUE <key> <flags> <bytes>[ <cas>]", the value. How long the line is shows when the value is
// there: the value is copied behind room for the longest line, and moved.
void answer_get(const TextCommand &command, std::string_view key_text, Operations &operations,
                Bytes &out) {
  const bool has_cas = command.kind == TextKind::kGets || command.kind == TextKind::kGetsAndTouch;
  const bool touches =
      command.kind == TextKind::kGetAndTouch || command.kind == TextKind::kGetsAndTouch;
  out.append("VALUE ");
  out.append(key_text);
  static_cast<void>(out.room(kValueLineBytesMax));
  out.added(kValueLineBytesMax);
  const std::optional<Seconds> until =
      touches ? std::optional(operations.end_of(command.time)) : std::nullopt;
  const Got got = operations.get(make_key(key_text), out, until);
  if (got.status != Status::kOk) {
    out.drop_back(6 + key_text.size() + kValueLineBytesMax);
    return;
  }
  std::array<char, kValueLineBytesMax> line;
  char *end = line.data();
  *end++ = ' ';
  end = put_number(end, got.flags);
  *end++ = ' ';
  end = put_number(end, got.value_bytes);
  if (has_cas) {
    *end++ = ' ';
    end = put_number(end, got.cas);
  }
  *end++ = '\r';
  *end++ = '\n';
  const auto line_bytes = static_cast<std::size_t>(end - line.data());
  char *place = out.room(0) - got.value_bytes - kValueLineBytesMax;
  std::memmove(place + line_bytes, place + kValueLineBytesMax, got.value_bytes);
  std::memcpy(place, line.data(), line_bytes);
  out.drop_back(kValueLineBytesMax - line_bytes);
  out.append(kLineEnd);
}

After answer_gets(const TextCommand &command, Operations &operations, Bytes &out,
                  std::size_t *keys_done) {
  std::string_view keys = command.keys.substr(*keys_done);
  for (std::string_view key = take_word(keys); !key.empty(); key = take_word(keys)) {
    answer_get(command, key, operations, out);
    *keys_done = command.keys.size() - keys.size();
    if (out.size() >= kWaitingBytesMax) return After::kMore;
  }
  out.append("END\r\n");
  return After::kNext;
}

void answer_put(const TextCommand &command, Operations &operations, Bytes &out) {
  PutRequest request;
  request.how = command.how;
  request.is_compared = command.is_compared;
  request.compared_cas = command.compared_cas;
  request.flags = command.flags;
  request.until = operations.end_of(command.time);
  request.value = command.value;
  const Status status = operations.put(make_key(command.key), request);
  switch (status) {
    case Status::kOk:
      return answer(command, out, "STORED");
    case Status::kTooLarge:
      return answer(command, out, "SERVER_ERROR object too large for cache");
    case Status::kOutOfMemory:
      return answer(command, out, "SERVER_ERROR out of memory storing object");
    default:
      break;
  }
  if (!command.is_compared) return answer(command, out, "NOT_STORED");
  answer(command, out, status == Status::kExists ? "EXISTS" : "NOT_FOUND");
}

void answer_count(const TextCommand &command, Operations &operations, Bytes &out) {
  CountRequest request;
  request.is_down = command.kind == TextKind::kDecr;
  request.delta = command.number;
  const Counted counted = operations.count(make_key(command.key), request);
  std::array<char, kDigitsMax> digits;
  switch (counted.status) {
    case Status::kOk: {
      const char *end = put_number(digits.data(), counted.value);
      return answer(command, out, {digits.data(), static_cast<std::size_t>(end - digits.data())});
    }
    case Status::kNoNumber:
      return answer(command, out, "CLIENT_ERROR cannot increment or decrement non-numeric value");
    case Status::kOutOfMemory:
      return answer(command, out, "SERVER_ERROR out of memory in incr");
    default:
      return answer(command, out, "NOT_FOUND");
  }
}

void answer_statistics(const TextCommand &command, Operations &operations, Bytes &out) {
  const bool is_known = tell_statistics(operations.shared(), command.keys,
                                        [&out](const std::string &name, const std::string &value) {
                                          out.append("STAT " + name + " " + value + "\r\n");
                                        });
  if (!is_known)
    out.append("ERROR\r\n");
  else
    out.append(command.keys == "reset" ? "RESET\r\n" : "END\r\n");
}

After do_fault(const TextCommand &command, Operations &operations, Bytes &out) {
  if (!operations.shared().allows_faults) {
    answer(command, out, "ERROR");
    return After::kNext;
  }
  Store &store = *operations.shared().store;
  const Key key = make_key(command.key);
  if (command.keys == "segv") fault_inside(store, key, Fault::kSegv);
  if (command.keys == "fpe") fault_inside(store, key, Fault::kFpe);
  if (command.keys == "abort") fault_inside(store, key, Fault::kAbort);
  if (command.keys == "thread") return After::kThreadEnds;
  answer(command, out, "CLIENT_ERROR a fault is segv, fpe, abort or thread");
  return After::kNext;
}

void do_clock(const TextCommand &command, Operations &operations, Bytes &out) {
  if (!operations.shared().allows_faults) return answer(command, out, "ERROR");
  operations.shared().clock.advance(static_cast<Seconds>(command.number));
  answer(command, out, "OK");
}

}  // namespace

After do_text(const TextCommand &command, Operations &operations, Bytes &out,
              std::size_t *keys_done) {
  switch (command.kind) {
    case TextKind::kRefused:
      if (command.skipped_bytes != 0 && command.how == Put::kSet && !command.is_compared)
        static_cast<void>(operations.remove(make_key(command.key), 0));
      answer(command, out, command.complaint);
      break;
    case TextKind::kGet:
    case TextKind::kGets:
    case TextKind::kGetAndTouch:
    case TextKind::kGetsAndTouch:
      return answer_gets(command, operations, out, keys_done);
    case TextKind::kPut:
      answer_put(command, operations, out);
      break;
    case TextKind::kDelete:
      answer(command, out,
             operations.remove(make_key(command.key), 0) == Status::kOk ? "DELETED" : "NOT_FOUND");
      break;
    case TextKind::kIncr:
    case TextKind::kDecr:
      answer_count(command, operations, out);
      break;
    case TextKind::kTouch: {
      const Touched touched =
          operations.touch(make_key(command.key), operations.end_of(command.time));
      answer(command, out, touched.status == Status::kOk ? "TOUCHED" : "NOT_FOUND");
      break;
    }
    case TextKind::kFlush:
      operations.flush(command.time);
      answer(command, out, "OK");
      break;
    case TextKind::kStats:
      answer_statistics(command, operations, out);
      break;
    case TextKind::kVersion:
      answer(command, out, std::string("VERSION ") + kServerVersion);
      break;
    case TextKind::kVerbosity:
      answer(command, out, "OK");
      break;
    case TextKind::kQuit:
      return After::kClose;
    case TextKind::kFault:
      return do_fault(command, operations, out);
    case TextKind::kClock:
      do_clock(command, operations, out);
      break;
  }
  return After::kNext;
}

}  // namespace cache
