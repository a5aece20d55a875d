// tests/itm_cache/cache_parsers_test.cpp -- the cache server's parsers and sessions under random
// bytes: they stay inside what they were given, always get on, and answer the same however the
// bytes arrive.
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "examples/itm/cache/big_endian.h"
#include "examples/itm/cache/binary_parser.h"
#include "examples/itm/cache/session.h"
#include "examples/itm/cache/text_parser.h"
#include "examples/workloads/random.hpp"
#include "tests/support/seed.h"

namespace cache {

namespace {

using workloads::Random;

constexpr int kInputs = 20'000, kStreams = 60;

// A copy whose end is the end of its memory: a sanitizer sees each byte read too many.
class Exact {
 public:
  explicit Exact(std::string_view text) : bytes_(new char[text.size()]), count_(text.size()) {
    if (count_ != 0) std::memcpy(bytes_.get(), text.data(), count_);
  }
  [[nodiscard]] std::string_view view() const { return {bytes_.get(), count_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t count_;
};

bool is_inside(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

std::string random_bytes(Random &random, std::size_t bytes_max) {
  std::string text(random.below(bytes_max + 1), '\0');
  for (char &byte : text) byte = static_cast<char>(random.next());
  return text;
}
std::string random_word(Random &random) {
  static const std::vector<std::string> words = {"get",
                                                 "gets",
                                                 "gat",
                                                 "gats",
                                                 "set",
                                                 "add",
                                                 "replace",
                                                 "cas",
                                                 "append",
                                                 "prepend",
                                                 "delete",
                                                 "incr",
                                                 "decr",
                                                 "touch",
                                                 "stats",
                                                 "version",
                                                 "quit",
                                                 "verbosity",
                                                 "flush_all",
                                                 "noreply",
                                                 "0",
                                                 "1",
                                                 "5",
                                                 "-1",
                                                 "a",
                                                 "key",
                                                 "4294967296",
                                                 "18446744073709551616",
                                                 std::string(250, 'k'),
                                                 std::string(251, 'k')};
  return words[random.below(words.size())];
}
std::string random_key(Random &random) { return "k" + std::to_string(random.below(8)); }

// Words in any order, now and then a byte that no request has.
std::string random_line(Random &random) {
  std::string line;
  for (std::uint64_t words = random.below(9); words > 0; --words)
    line += random_word(random) + std::string(1 + random.below(2), ' ');
  if (random.below(8) == 0) line += random_bytes(random, 8);
  return line + (random.below(8) == 0 ? "\n" : "\r\n");
}
// Right commands, with wrong ones among them.
std::string text_command(Random &random) {
  const std::string key = random_key(random);
  const std::string value = std::string(random.below(300), 'v');
  const std::string number = std::to_string(random.below(100));
  switch (random.below(12)) {
    case 0:
      return "get " + key + " " + random_key(random) + " " + random_key(random) + "\r\n";
    case 1:
      return "gets " + key + "\r\n";
    case 2:
      return "incr " + key + " " + number + "\r\n";
    case 3:
      return "set " + key + " 7 0 " + std::to_string(number.size()) + "\r\n" + number + "\r\n";
    case 4:
      return "append " + key + " 0 0 " + std::to_string(number.size()) + "\r\n" + number + "\r\n";
    case 5:
      return "delete " + key + "\r\n";
    case 6:
      return "set " + key + " 1 0 3 noreply\r\nabc\r\n";
    case 7:
      return "set " + key + " 1 0 3\r\nabcdefg\r\n";
    case 8:
      return "gat 100 " + key + "\r\n";
    case 9:
      return random_line(random);
    case 10:
      return "set " + key + " 1 0 1100000\r\n" + std::string(1'100'002, '!');
    default:
      break;
  }
  return "set " + key + " 3 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

std::string binary_request(std::uint8_t opcode, std::string_view extras, std::string_view key,
                           std::string_view value, std::uint64_t cas) {
  std::string request(kBinaryHeaderBytes, '\0');
  request[0] = static_cast<char>(kRequestMagic);
  request[1] = static_cast<char>(opcode);
  write_big_endian(key.size(), 2, request.data() + 2);
  request[4] = static_cast<char>(extras.size());
  write_big_endian(extras.size() + key.size() + value.size(), 4, request.data() + 8);
  write_big_endian(cas, 8, request.data() + 16);
  return request.append(extras).append(key).append(value);
}
std::string binary_command(Random &random) {
  const std::string key = random_key(random), number = std::to_string(random.below(100));
  const std::string four(4, '\0'), eight(8, '\0');
  switch (random.below(9)) {
    case 0:
      return binary_request(0x0c, "", key, "", 0);
    case 1:
      return binary_request(0x09, "", key, "", 0);
    case 2:
      return binary_request(0x05, eight + std::string(12, '\1'), key, "", 0);
    case 3:
      return binary_request(0x0e, "", key, number, 0);
    case 4:
      return binary_request(0x14, "", key, "", random.below(3));
    case 5:
      return binary_request(0x1d, four, key, "", 0);
    case 6:
      return binary_request(static_cast<std::uint8_t>(random.below(256)), "", "", "", 0);
    case 7:
      return binary_request(0x01, eight, key, std::string(1'100'000, '!'), 0);
    default:
      break;
  }
  return binary_request(0x01, eight, key, number, 0);
}

// What holds of any parse. False: there is nothing more to parse.
template <class Parsed>
bool is_sound(const Parsed &parsed, std::string_view input) {
  if (parsed.result == Parse::kNeedsMore) {
    EXPECT_GT(parsed.bytes, input.size());
  }
  if (parsed.result != Parse::kCommand) return false;
  EXPECT_GT(parsed.bytes, 0U);
  EXPECT_LE(parsed.bytes, input.size());
  EXPECT_TRUE(is_inside(parsed.command.key, input));
  EXPECT_TRUE(is_inside(parsed.command.value, input));
  EXPECT_LE(parsed.command.key.size(), kKeyBytesMax);
  return true;
}
template <class Parser>
void parse_all(std::string_view text, Parser parse) {
  while (!text.empty()) {
    const Exact input(text);
    const auto parsed = parse(input.view());
    if (!is_sound(parsed, input.view())) return;
    text.remove_prefix(parsed.bytes);
  }
}

// A server without sockets.
struct Rig {
  Rig() {
    StoreOptions options;
    options.memory_bytes = std::size_t{8} << 20;
    options.buckets = 4;
    shared.statistics.resize(2);
    store = make_store(options);
    shared.store = store.get();
    operations = std::make_unique<Operations>(shared, 0);
  }

  // Everything that the session says, when it gets so many bytes at a time; 0: all at once.
  std::string talk(std::string_view input, Random *pieces) {
    Session session;
    Bytes in, out;
    std::string said;
    auto waits = Session::Waits::kForInput;
    while (waits != Session::Waits::kToClose) {
      if (waits == Session::Waits::kForInput) {
        if (input.empty()) break;
        const std::size_t some = pieces == nullptr ? input.size() : 1 + pieces->below(400);
        in.append(input.substr(0, some));
        input.remove_prefix(std::min(some, input.size()));
      }
      waits = session.run(in, *operations, out);
      said += out.view();
      out.drop_front(out.size());
    }
    return said;
  }

  OwnedStore store;
  Shared shared;
  std::unique_ptr<Operations> operations;
};

std::string stream_of(Random &random, bool is_binary) {
  std::string stream;
  for (int i = 0; i < 60; ++i) {
    stream += is_binary ? binary_command(random) : text_command(random);
    // Large values are rare: they take most of the time.
    if (stream.size() > 4'000'000) break;
  }
  return stream;
}

void expect_same_however_it_arrives(std::uint64_t seed, bool is_binary) {
  Random random(seed);
  const std::string stream = stream_of(random, is_binary);
  Rig whole, in_pieces;
  const std::string said = whole.talk(stream, nullptr);
  EXPECT_TRUE(said == in_pieces.talk(stream, &random)) << "seed " << seed;
}

}  // namespace

TEST(CacheParsers, RandomBytesAreParsedWithinTheirBounds) {
  Random random(tmh::test::seed());
  for (int i = 0; i < kInputs; ++i) {
    const std::string bytes = random_bytes(random, 64);
    parse_all(bytes, parse_text);
    parse_all(bytes, parse_binary);
    parse_all(static_cast<char>(kRequestMagic) + bytes, parse_binary);
  }
}

TEST(CacheParsers, RandomLinesAreParsedWithinTheirBounds) {
  Random random(tmh::test::seed());
  for (int i = 0; i < kInputs; ++i) parse_all(random_line(random), parse_text);
}

TEST(CacheParsers, EachPrefixOfACommandAsksForMore) {
  const std::string text = "set key 1 2 3\r\nabc\r\n";
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
    EXPECT_EQ(parse_text(Exact(text.substr(0, bytes)).view()).result, Parse::kNeedsMore);
  const std::string binary = binary_request(0x01, std::string(8, '\0'), "key", "abc", 0);
  for (std::size_t bytes = 0; bytes < binary.size(); ++bytes)
    EXPECT_EQ(parse_binary(Exact(binary.substr(0, bytes)).view()).result, Parse::kNeedsMore);
}

TEST(CacheParsers, ChangedCommandsAreParsedWithinTheirBounds) {
  Random random(tmh::test::seed());
  for (int i = 0; i < kInputs / 4; ++i) {
    std::string text = binary_request(0x01, std::string(8, '\0'), "key", "abc", 0);
    text += binary_request(0x05, std::string(20, '\0'), "key", "", 0);
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes)
      text[random.below(text.size())] = static_cast<char>(random.next());
    parse_all(text, parse_binary);
  }
}

TEST(CacheParsers, LinesThatAreTooLongEndTheConnection) {
  EXPECT_EQ(parse_text(std::string(kLineBytesMax, 'x')).result, Parse::kNeedsMore);
  EXPECT_EQ(parse_text(std::string(kLineBytesMax + 1, 'x')).result, Parse::kHopeless);
  EXPECT_EQ(parse_text("get " + std::string(kLineBytesMax, 'x')).result, Parse::kNeedsMore);
  EXPECT_EQ(parse_text("get " + std::string(kGetLineBytesMax, 'x')).result, Parse::kHopeless);
}

TEST(CacheSessions, TextIsAnsweredTheSameHoweverItArrives) {
  const std::uint64_t seed = tmh::test::seed();
  for (std::uint64_t i = 0; i < kStreams; ++i) expect_same_however_it_arrives(seed + i, false);
}

TEST(CacheSessions, BinaryIsAnsweredTheSameHoweverItArrives) {
  const std::uint64_t seed = tmh::test::seed();
  for (std::uint64_t i = 0; i < kStreams; ++i) expect_same_however_it_arrives(seed + i, true);
}

TEST(CacheSessions, RandomBytesAfterABinaryStartAreSurvived) {
  Random random(tmh::test::seed());
  Rig rig;
  for (int i = 0; i < kInputs / 10; ++i)
    static_cast<void>(
        rig.talk(static_cast<char>(kRequestMagic) + random_bytes(random, 200), &random));
}

TEST(CacheSessions, AnAnswerThatIsTooLongForTheBufferGoesOnLater) {
  Rig rig;
  const std::string value(500'000, 'v');
  std::string request = "set k 0 0 500000\r\n" + value + "\r\nget";
  for (int i = 0; i < 10; ++i) request += " k";
  const std::string said = rig.talk(request + "\r\nversion\r\n", nullptr);
  std::string expected = "STORED\r\n";
  for (int i = 0; i < 10; ++i) expected += "VALUE k 0 500000\r\n" + value + "\r\n";
  expected += "END\r\nVERSION " + std::string(kServerVersion) + "\r\n";
  EXPECT_TRUE(said == expected);
}

}  // namespace cache
