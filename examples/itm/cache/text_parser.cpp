#include "examples/itm/cache/text_parser.h"

#include <array>
#include <charconv>
#include <optional>

namespace cache {

namespace {

constexpr std::string_view kError = "ERROR";
constexpr std::string_view kBadFormat = "CLIENT_ERROR bad command line format";
constexpr std::string_view kBadChunk = "CLIENT_ERROR bad data chunk";
constexpr std::string_view kBadDelta = "CLIENT_ERROR invalid numeric delta argument";
constexpr std::string_view kBadTime = "CLIENT_ERROR invalid exptime argument";
constexpr std::string_view kBadDelete =
    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
constexpr std::string_view kTooLarge = "SERVER_ERROR object too large for cache";
constexpr std::string_view kQuietWord = "noreply";
constexpr std::string_view kLineEnd = "\r\n";

constexpr std::size_t kWordsMax = 8;

// Of a line, the first kWordsMax ones; `count` has all of them.
struct Words {
  std::array<std::string_view, kWordsMax> word;
  std::size_t count = 0;
};
Words words_of(std::string_view line) {
  Words words;
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
    if (words.count < kWordsMax) words.word[words.count] = word;
    ++words.count;
  }
  return words;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  const char *end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return {};
  return number;
}

TextCommand refused(std::string_view complaint, bool is_quiet = false) {
  TextCommand command;
  command.complaint = complaint;
  command.is_quiet = is_quiet;
  return command;
}
bool is_key(std::string_view word) { return word.size() <= kKeyBytesMax; }
bool is_quiet(const Words &words) {
  return words.count >= 2 && words.count <= kWordsMax && words.word[words.count - 1] == kQuietWord;
}

// 1. Commands of one line each. The line has its words already; the first one is the verb.
TextCommand get_command(TextKind kind, std::string_view keys) {
  TextCommand command;
  command.kind = kind;
  if (kind == TextKind::kGetAndTouch || kind == TextKind::kGetsAndTouch) {
    const std::string_view time = take_word(keys);
    if (time.empty()) return refused(kError);
    const auto number = number_of<std::int64_t>(time);
    if (!number) return refused(kBadTime);
    command.time = *number;
    command.keys = keys;
  } else {
    command.keys = keys;
    std::string_view rest = keys;
    if (take_word(rest).empty()) return refused(kError);
  }
  std::string_view rest = command.keys;
  for (std::string_view key = take_word(rest); !key.empty(); key = take_word(rest))
    if (!is_key(key)) return refused(kBadFormat);
  return command;
}

TextCommand delete_command(const Words &words) {
  if (words.count < 2 || words.count > 4) return refused(kError);
  TextCommand command;
  command.kind = TextKind::kDelete;
  command.key = words.word[1];
  command.is_quiet = is_quiet(words);
  if (!is_key(command.key)) return refused(kBadFormat, command.is_quiet);
  // Old clients send a time, which has to be 0.
  const bool is_plain =
      words.count == 2 || (words.count == 3 && command.is_quiet) || words.word[2] == "0";
  return is_plain ? command : refused(kBadDelete, command.is_quiet);
}

TextCommand count_command(TextKind kind, const Words &words) {
  if (words.count != 3 && words.count != 4) return refused(kError);
  TextCommand command;
  command.kind = kind;
  command.key = words.word[1];
  command.is_quiet = is_quiet(words);
  if (!is_key(command.key)) return refused(kBadFormat, command.is_quiet);
  const auto delta = number_of<std::uint64_t>(words.word[2]);
  if (!delta) return refused(kBadDelta, command.is_quiet);
  command.number = *delta;
  return command;
}

TextCommand touch_command(const Words &words) {
  if (words.count != 3 && words.count != 4) return refused(kError);
  TextCommand command;
  command.kind = TextKind::kTouch;
  command.key = words.word[1];
  command.is_quiet = is_quiet(words);
  if (!is_key(command.key)) return refused(kBadFormat, command.is_quiet);
  const auto time = number_of<std::int64_t>(words.word[2]);
  if (!time) return refused(kBadTime, command.is_quiet);
  command.time = *time;
  return command;
}

TextCommand flush_command(const Words &words) {
  if (words.count > 3) return refused(kError);
  TextCommand command;
  command.kind = TextKind::kFlush;
  command.is_quiet = is_quiet(words);
  if (words.count == 1 || words.word[1] == kQuietWord) return command;
  const auto time = number_of<std::int64_t>(words.word[1]);
  if (!time) return refused(kBadTime, command.is_quiet);
  command.time = *time;
  return command;
}

TextCommand verbosity_command(const Words &words) {
  if (words.count < 2 || words.count > 4) return refused(kError);
  TextCommand command;
  command.kind = TextKind::kVerbosity;
  command.is_quiet = is_quiet(words);
  if (words.count == 2 && command.is_quiet) return command;
  return number_of<std::uint64_t>(words.word[1]) ? command : refused(kBadFormat, command.is_quiet);
}

TextCommand fault_command(const Words &words) {
  if (words.count != 3 || !is_key(words.word[2])) return refused(kError);
  TextCommand command;
  command.kind = TextKind::kFault;
  command.keys = words.word[1];
  command.key = words.word[2];
  return command;
}

TextCommand clock_command(const Words &words) {
  const auto seconds = words.count == 2 ? number_of<std::uint32_t>(words.word[1]) : std::nullopt;
  if (!seconds) return refused(kError);
  TextCommand command;
  command.kind = TextKind::kClock;
  command.number = *seconds;
  return command;
}

TextCommand plain_command(TextKind kind, std::string_view rest) {
  TextCommand command;
  command.kind = kind;
  command.keys = take_word(rest);
  return command;
}

TextCommand line_command(const Words &words, std::string_view rest) {
  const std::string_view verb = words.word[0];
  if (verb == "get") return get_command(TextKind::kGet, rest);
  if (verb == "gets") return get_command(TextKind::kGets, rest);
  if (verb == "gat") return get_command(TextKind::kGetAndTouch, rest);
  if (verb == "gats") return get_command(TextKind::kGetsAndTouch, rest);
  if (verb == "delete") return delete_command(words);
  if (verb == "incr") return count_command(TextKind::kIncr, words);
  if (verb == "decr") return count_command(TextKind::kDecr, words);
  if (verb == "touch") return touch_command(words);
  if (verb == "flush_all") return flush_command(words);
  if (verb == "stats") return plain_command(TextKind::kStats, rest);
  if (verb == "version") return plain_command(TextKind::kVersion, rest);
  if (verb == "quit") return plain_command(TextKind::kQuit, rest);
  if (verb == "verbosity") return verbosity_command(words);
  if (verb == "fault") return fault_command(words);
  if (verb == "clock") return clock_command(words);
  return refused(kError);
}

// 2. Commands with a value behind the line.
struct PutVerb {
  std::string_view verb;
  Put how;
  bool is_compared;
};
constexpr std::array<PutVerb, 6> kPutVerbs = {{{"set", Put::kSet, false},
                                               {"add", Put::kAdd, false},
                                               {"replace", Put::kReplace, false},
                                               {"append", Put::kAppend, false},
                                               {"prepend", Put::kPrepend, false},
                                               {"cas", Put::kSet, true}}};
const PutVerb *put_verb(std::string_view verb) {
  for (const PutVerb &each : kPutVerbs)
    if (each.verb == verb) return &each;
  return nullptr;
}

// Everything but the value; its bytes, or none when the command is refused.
struct PutLine {
  TextCommand command;
  std::optional<std::size_t> value_bytes;
};
PutLine put_line(const PutVerb &verb, const Words &words) {
  const std::size_t arguments = verb.is_compared ? 6 : 5;
  if (words.count != arguments && words.count != arguments + 1) return {refused(kError), {}};
  TextCommand command;
  command.kind = TextKind::kPut;
  command.how = verb.how;
  command.is_compared = verb.is_compared;
  command.is_quiet = words.count == arguments + 1 && is_quiet(words);
  command.key = words.word[1];
  const auto flags = number_of<std::uint32_t>(words.word[2]);
  const auto time = number_of<std::int64_t>(words.word[3]);
  const auto bytes = number_of<std::uint32_t>(words.word[4]);
  const auto cas =
      verb.is_compared ? number_of<std::uint64_t>(words.word[5]) : std::optional<std::uint64_t>(0);
  if (!is_key(command.key) || !flags || !time || !bytes || !cas ||
      *bytes > UINT32_MAX - kLineEnd.size())
    return {refused(kBadFormat, command.is_quiet), {}};
  command.flags = *flags;
  command.time = *time;
  command.compared_cas = *cas;
  return {command, *bytes};
}

TextParse parse_put(const PutVerb &verb, const Words &words, std::string_view input,
                    std::size_t line_bytes) {
  PutLine line = put_line(verb, words);
  if (!line.value_bytes) return {Parse::kCommand, line_bytes, line.command};
  const std::size_t value_bytes = *line.value_bytes;
  const std::size_t bytes = line_bytes + value_bytes + kLineEnd.size();
  if (!value_fits(make_key(line.command.key), value_bytes)) {
    // An outdated value must not stay where a new one was meant to be.
    line.command.complaint = kTooLarge;
    line.command.skipped_bytes = value_bytes + kLineEnd.size();
    line.command.kind = TextKind::kRefused;
    return {Parse::kCommand, line_bytes, line.command};
  }
  if (input.size() < bytes) return {Parse::kNeedsMore, bytes, {}};
  line.command.value = input.substr(line_bytes, value_bytes);
  if (input.substr(line_bytes + value_bytes, kLineEnd.size()) != kLineEnd)
    line.command = refused(kBadChunk, line.command.is_quiet);
  return {Parse::kCommand, bytes, line.command};
}

bool asks_for_many(std::string_view input) {
  return input.starts_with("get ") || input.starts_with("gets ") || input.starts_with("gat ") ||
         input.starts_with("gats ");
}

}  // namespace

std::string_view take_word(std::string_view &line) {
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    line = {};
    return {};
  }
  const std::size_t end = std::min(line.find(' ', first), line.size());
  const std::string_view word = line.substr(first, end - first);
  line.remove_prefix(end);
  return word;
}

TextParse parse_text(std::string_view input) {
  const std::size_t end = input.find('\n');
  const std::size_t bytes_max = asks_for_many(input) ? kGetLineBytesMax : kLineBytesMax;
  if (std::min(end, input.size()) > bytes_max) return {Parse::kHopeless, 0, {}};
  if (end == std::string_view::npos) return {Parse::kNeedsMore, input.size() + 1, {}};
  std::string_view line = input.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const Words words = words_of(line);
  if (words.count == 0) return {Parse::kCommand, end + 1, refused(kError)};
  if (const PutVerb *verb = put_verb(words.word[0])) return parse_put(*verb, words, input, end + 1);
  std::string_view rest = line;
  static_cast<void>(take_word(rest));
  return {Parse::kCommand, end + 1, line_command(words, rest)};
}

}  // namespace cache
