// bench/support/itm_programs.cpp -- reads --programs FILE, and refuses what it does not understand.
#include "bench/support/itm_programs.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/support/itm_contestants.h"
#include "platform/assert.h"
#include "programs/json.h"

namespace tmh::bench {

namespace {

namespace fs = std::filesystem;
using Value = programs::Json;

constexpr unsigned kThreadsMax = 1024;

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] Value read() const {
    std::ifstream file(path_);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) refuse("it cannot be read");
    try {
      return Value::parse(text);
    } catch (const programs::JsonParseError &error) {
      refuse(fmt::format("it is not JSON, see byte {}", error.byte));
    }
  }
  [[noreturn]] void refuse(const std::string &sentence) const {
    TMH_ASSERT(!sentence.empty());
    throw BadInput(
        fmt::format("--programs {}: {}{}", path_, where_.empty() ? "" : where_ + ": ", sentence));
  }
  void at(const std::string &where) { where_ = where; }
  void check_keys(const Value &object, const std::string &what,
                  const std::vector<std::string> &known) const {
    if (!object.is_object()) refuse(fmt::format("{} is no object", what));
    for (const auto &[key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        refuse(fmt::format("{} has a key \"{}\"; known ones are {}", what, key,
                           fmt::join(known, ", ")));
  }
  [[nodiscard]] std::string text(const Value &object, const char *key) const {
    TMH_ASSERT(key != nullptr && object.is_object());
    if (!object.contains(key)) refuse(fmt::format("\"{}\" is missing", key));
    const Value &value = object[key];
    if (!value.is_string() || value.get<std::string>().empty())
      refuse(fmt::format("\"{}\" is no text", key));
    return value.get<std::string>();
  }
  [[nodiscard]] std::regex expression(const std::string &text, const char *key) const {
    try {
      return std::regex(text);
    } catch (const std::regex_error &) {
      refuse(fmt::format("\"{}\": {} is no regular expression (ECMAScript)", key, text));
    }
  }
  [[nodiscard]] std::uint64_t whole(const Value &value, const char *key, std::uint64_t min,
                                    std::uint64_t max) const {
    TMH_ASSERT(key != nullptr && min <= max);
    const bool is_right = value.is_number_unsigned() && value.get<std::uint64_t>() >= min &&
                          value.get<std::uint64_t>() <= max;
    if (!is_right)
      refuse(fmt::format("\"{}\": {} is no whole number in {} to {}", key, value.dump(), min, max));
    return value.get<std::uint64_t>();
  }
  [[nodiscard]] fs::path beside(const std::string &path) const {
    return fs::absolute(fs::path(path_)).parent_path() / path;
  }

 private:
  std::string path_, where_;
};

void check_placeholders(const Reader &reader, const std::string &word) {
  static const std::regex kAny("\\{[a-z_]+\\}");
  for (std::sregex_iterator at(word.begin(), word.end(), kAny), end; at != end; ++at) {
    const std::string found = at->str();
    if (std::find(std::begin(kItmPlaceholders), std::end(kItmPlaceholders), found) ==
        std::end(kItmPlaceholders))
      reader.refuse(
          fmt::format("there is no {}; there are {}", found, fmt::join(kItmPlaceholders, ", ")));
  }
}

std::vector<std::string> command_of(const Reader &reader, const Value &value, const char *key) {
  TMH_ASSERT(key != nullptr);
  if (!value.is_array() || value.empty())
    reader.refuse(fmt::format("\"{}\" is no list of texts", key));
  std::vector<std::string> words;
  for (const Value &each : value) {
    if (!each.is_string()) reader.refuse(fmt::format("\"{}\" is no list of texts", key));
    words.push_back(each.get<std::string>());
    check_placeholders(reader, words.back());
  }
  // A name without a slash is looked for in PATH, as a shell does.
  if (words[0].find('/') != std::string::npos) {
    words[0] = reader.beside(words[0]).string();
    if (!fs::is_regular_file(words[0]) || ::access(words[0].c_str(), X_OK) != 0)
      reader.refuse(fmt::format("\"{}\": {} is no program", key, words[0]));
  } else if (words[0].empty()) {
    reader.refuse(fmt::format("\"{}\" names no program", key));
  }
  return words;
}

void read_rate(const Reader &reader, const Value &rate, ItmReading *reading) {
  TMH_ASSERT(reading != nullptr);
  reader.check_keys(rate, "\"rate\"", {"json", "regex", "is"});
  if (rate.contains("json") == rate.contains("regex"))
    reader.refuse("\"rate\" has one of \"json\" and \"regex\"");
  if (rate.contains("json")) reading->field = reader.text(rate, "json");
  if (rate.contains("regex")) {
    reading->pattern = reader.expression(reader.text(rate, "regex"), "regex");
    if (reading->pattern->mark_count() == 0)
      reader.refuse("\"regex\" of \"rate\" has no group (...) for the number");
  }
  if (!rate.contains("is")) return;
  const std::string is = reader.text(rate, "is");
  if (is != "rate" && is != "seconds")
    reader.refuse(fmt::format("\"is\" of \"rate\": {} is neither rate nor seconds", is));
  reading->is_seconds = is == "seconds";
}

ItmCase case_of(const Reader &reader, const Value &value) {
  reader.check_keys(
      value, "it",
      {"name", "command", "mutex", "plain", "folder", "threads", "rate", "check", "exit_code"});
  ItmCase one;
  one.name = reader.text(value, "name");
  if (!value.contains("command")) reader.refuse("\"command\" is missing");
  one.commands[kTransactions] = command_of(reader, value["command"], "command");
  for (const char *const build : {kMutex, kPlain})
    if (value.contains(build)) one.commands[build] = command_of(reader, value[build], build);
  if (value.contains("folder")) {
    one.folder = reader.beside(reader.text(value, "folder")).string();
    if (!fs::is_directory(one.folder)) reader.refuse(fmt::format("{} is no folder", one.folder));
  }
  if (value.contains("threads")) {
    if (!value["threads"].is_array() || value["threads"].empty())
      reader.refuse("\"threads\" is no list of numbers");
    for (const Value &each : value["threads"])
      one.threads.push_back(static_cast<unsigned>(reader.whole(each, "threads", 1, kThreadsMax)));
  }
  for (const char *const build : {kTransactions, kMutex}) {
    const auto at = one.commands.find(build);
    if (at == one.commands.end() || one.threads.size() == 1) continue;
    const bool has_threads = std::any_of(
        at->second.begin(), at->second.end(),
        [](const auto &word) { return word.find(kItmPlaceholders[0]) != std::string::npos; });
    if (!has_threads)
      reader.refuse(fmt::format(
          "its command has no {}, so \"threads\" must be a list of the one number that it starts",
          kItmPlaceholders[0]));
  }
  if (!value.contains("rate")) reader.refuse("\"rate\" is missing");
  read_rate(reader, value["rate"], &one.reading);
  if (value.contains("check"))
    one.reading.check = reader.expression(reader.text(value, "check"), "check");
  if (value.contains("exit_code"))
    one.reading.exit_code = static_cast<int>(reader.whole(value["exit_code"], "exit_code", 0, 255));
  return one;
}

}  // namespace

std::vector<ItmCase> outside_cases(const std::string &path, const std::vector<ItmCase> &others) {
  Reader reader(path);
  const Value all = reader.read();
  reader.check_keys(all, "it", {"programs"});
  if (!all.contains("programs") || !all["programs"].is_array() || all["programs"].empty())
    reader.refuse("\"programs\" is no list of programs");
  std::vector<ItmCase> cases;
  for (const Value &value : all["programs"]) {
    const std::size_t number = cases.size() + 1;
    reader.at(fmt::format("program {}", number));
    if (value.is_object() && value.contains("name") && value["name"].is_string())
      reader.at(fmt::format("program {}, {}", number, value["name"].get<std::string>()));
    ItmCase one = case_of(reader, value);
    for (const auto *const list : {&others, static_cast<const std::vector<ItmCase> *>(&cases)})
      for (const ItmCase &other : *list)
        if (other.name == one.name) reader.refuse("the name is taken");
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace tmh::bench
