// compat/libtp/client/wire.h -- messages between a client and the server of transactions.
// Shape:     a message is a head of 12 bytes (payload's bytes, number, kind, zero) and its payload;
//            numbers are little-endian. A reply has its request's number, and the kind's high bit;
//            replies come in the order of requests. Strings are a length and bytes; the length
//            kNone is null.
//            hello    "TPSV", version, session's two words  ->  "TPSV", version, limits, features
//            op       an operation                          ->  a result
//            batch    flags, count, operations              ->  result, error, done, results
//            script   its text                              ->  a result
// Invariant: no length or number of a message is believed: a Reader refuses what is not there.
// Contexts:  both sides, any thread.
#pragma once

#include <tp/server.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "platform/assert.h"

namespace tmh::tp::wire {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

inline constexpr std::uint32_t kMagic = 0x56535054, kVersion = 1, kNone = 0xffff'ffff;
inline constexpr std::size_t kHeadBytes = 12;
inline constexpr std::uint32_t kHasScripts = 1;  // a feature

enum class Kind : std::uint16_t { kHello = 1, kOp, kBatch, kScript };
inline constexpr std::uint16_t kReply = 0x8000;

struct Head {
  std::uint32_t bytes = 0, number = 0;
  std::uint16_t kind = 0, zero = 0;
};

static_assert(sizeof(Head) == kHeadBytes);
static_assert(kNone > TP_SERVER_MESSAGE_MAX, "no length is null");
// Never another operation's.
static_assert(TP_SERVER_GET == 1 && TP_SERVER_ADD == 7 && TP_SERVER_BEGIN == 8);
static_assert(TP_SERVER_LOCK == 11 && TP_SERVER_BUF_OPEN == 16 && TP_SERVER_DBOPEN == 20);

// Appends to a message.
class Writer {
 public:
  explicit Writer(std::string *to) noexcept : to_(*to) {}
  template <class Number>
  requires std::is_integral_v<Number>
  void number(Number value) { to_.append(reinterpret_cast<const char *>(&value), sizeof value); }
  void bytes(const void *data, std::size_t size) {
    TMH_ASSERT(data != nullptr || size == 0);
    number(static_cast<std::uint32_t>(size));
    if (size != 0) to_.append(static_cast<const char *>(data), size);
  }
  void bytes(std::string_view text) { bytes(text.data(), text.size()); }
  void none() { number(kNone); }

 private:
  std::string &to_;
};

// A message's head; its payload's bytes are said when they are there.
inline std::size_t begin_message(std::string *to, std::uint32_t number, std::uint16_t kind) {
  TMH_ASSERT(to != nullptr);
  const std::size_t at = to->size();
  Writer out(to);
  out.number(std::uint32_t{0});
  out.number(number);
  out.number(kind);
  out.number(std::uint16_t{0});
  return at;
}
// False: it has more bytes than a message may have.
[[nodiscard]] inline bool end_message(std::string *to, std::size_t at) {
  TMH_ASSERT(at + kHeadBytes <= to->size());
  const std::size_t bytes = to->size() - at - kHeadBytes;
  if (bytes > TP_SERVER_MESSAGE_MAX) return false;
  const auto said = static_cast<std::uint32_t>(bytes);
  std::memcpy(to->data() + at, &said, sizeof said);
  return true;
}

// Takes from a message. Once something was not there, nothing is, and is_right() is false.
class Reader {
 public:
  explicit Reader(std::string_view from) noexcept : from_(from) {}
  template <class Number>
  [[nodiscard]] Number number() noexcept {
    Number value{};
    if (from_.size() < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, from_.data(), sizeof value);
    from_.remove_prefix(sizeof value);
    return value;
  }
  // None: null.
  [[nodiscard]] std::optional<std::string_view> bytes() noexcept {
    const auto size = number<std::uint32_t>();
    if (!is_right_ || size == kNone) return std::nullopt;
    if (size > from_.size()) {
      fail();
      return std::nullopt;
    }
    const std::string_view found = from_.substr(0, size);
    from_.remove_prefix(size);
    return found;
  }
  [[nodiscard]] std::size_t left() const noexcept { return from_.size(); }
  [[nodiscard]] bool is_right() const noexcept { return is_right_; }
  // All was there, and nothing more.
  [[nodiscard]] bool is_at_end() const noexcept { return is_right_ && from_.empty(); }

 private:
  void fail() noexcept {
    is_right_ = false;
    from_ = {};
  }

  std::string_view from_;
  bool is_right_ = true;
};

[[nodiscard]] inline Head head_of(std::string_view from) noexcept {
  Reader in(from);
  Head head;
  head.bytes = in.number<std::uint32_t>();
  head.number = in.number<std::uint32_t>();
  head.kind = in.number<std::uint16_t>();
  head.zero = in.number<std::uint16_t>();
  return head;
}

// ---- Operations --------------------------------------------------------------------------------

// A DBT without data is null, as its pointer is.
struct Op {
  std::uint16_t kind = 0;
  std::int32_t db = -1;
  std::uint32_t flags = 0;
  std::uint64_t number = 0;
  std::optional<std::string_view> key, data;
};
inline constexpr std::size_t kOpBytesMin = 28;

inline void put(Writer *out, const Op &op) {
  out->number(op.kind);
  out->number(std::uint16_t{0});
  out->number(op.db);
  out->number(op.flags);
  out->number(op.number);
  op.key ? out->bytes(*op.key) : out->none();
  op.data ? out->bytes(*op.data) : out->none();
}
[[nodiscard]] inline Op take_op(Reader *in) noexcept {
  Op op;
  op.kind = in->number<std::uint16_t>();
  (void)in->number<std::uint16_t>();
  op.db = in->number<std::int32_t>();
  op.flags = in->number<std::uint32_t>();
  op.number = in->number<std::uint64_t>();
  op.key = in->bytes();
  op.data = in->bytes();
  return op;
}

struct Result {
  std::int32_t result = 0, error = 0, db = -1;
  std::uint64_t number = 0;
  std::optional<std::string_view> key, data;
};

inline void put(Writer *out, const Result &result) {
  out->number(result.result);
  out->number(result.error);
  out->number(result.db);
  out->number(result.number);
  result.key ? out->bytes(*result.key) : out->none();
  result.data ? out->bytes(*result.data) : out->none();
}
[[nodiscard]] inline Result take_result(Reader *in) noexcept {
  Result result;
  result.result = in->number<std::int32_t>();
  result.error = in->number<std::int32_t>();
  result.db = in->number<std::int32_t>();
  result.number = in->number<std::uint64_t>();
  result.key = in->bytes();
  result.data = in->bytes();
  return result;
}

// What dbopen() is given besides the file, in an operation's data.
struct Opening {
  std::int32_t flags = 0, mode = 0, type = 0, dbflags = 0;
  std::uint8_t has_info = 0;
  // BTREEINFO: flags, cachesize, maxkeypage, minkeypage, psize, lorder. HASHINFO: bsize, ffactor,
  // nelem, cachesize, lorder. RECNOINFO: flags, cachesize, psize, lorder, reclen, bval.
  std::uint64_t numbers[6] = {};
  std::optional<std::string_view> tree_file;  // RECNOINFO's bfname
};

inline void put(Writer *out, const Opening &opening) {
  for (const std::int32_t number : {opening.flags, opening.mode, opening.type, opening.dbflags})
    out->number(number);
  out->number(opening.has_info);
  for (const std::uint64_t number : opening.numbers) out->number(number);
  opening.tree_file ? out->bytes(*opening.tree_file) : out->none();
}
[[nodiscard]] inline Opening take_opening(Reader *in) noexcept {
  Opening opening;
  for (std::int32_t *const number :
       {&opening.flags, &opening.mode, &opening.type, &opening.dbflags})
    *number = in->number<std::int32_t>();
  opening.has_info = in->number<std::uint8_t>();
  for (std::uint64_t &number : opening.numbers) number = in->number<std::uint64_t>();
  opening.tree_file = in->bytes();
  return opening;
}

// ---- Hello -------------------------------------------------------------------------------------

struct Hello {
  std::uint32_t magic = kMagic, version = kVersion;
  // Of the client's process: what its connections share is found by it.
  std::uint64_t session[2] = {};
};
struct Welcome {
  std::uint32_t magic = kMagic, version = kVersion, error = 0, features = 0;
  // Of the session: another one where databases that were opened before are gone.
  std::uint64_t life = 0;
};

inline void put(Writer *out, const Hello &hello) {
  out->number(hello.magic);
  out->number(hello.version);
  for (const std::uint64_t word : hello.session) out->number(word);
}
[[nodiscard]] inline Hello take_hello(Reader *in) noexcept {
  Hello hello;
  hello.magic = in->number<std::uint32_t>();
  hello.version = in->number<std::uint32_t>();
  for (std::uint64_t &word : hello.session) word = in->number<std::uint64_t>();
  return hello;
}
inline void put(Writer *out, const Welcome &welcome) {
  for (const std::uint32_t number :
       {welcome.magic, welcome.version, welcome.error, welcome.features})
    out->number(number);
  out->number(welcome.life);
}
[[nodiscard]] inline Welcome take_welcome(Reader *in) noexcept {
  Welcome welcome;
  for (std::uint32_t *const number :
       {&welcome.magic, &welcome.version, &welcome.error, &welcome.features})
    *number = in->number<std::uint32_t>();
  welcome.life = in->number<std::uint64_t>();
  return welcome;
}

}  // namespace tmh::tp::wire
