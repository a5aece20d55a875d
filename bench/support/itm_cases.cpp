// bench/support/itm_cases.cpp -- the programs of examples/itm, with arguments; their output.
#include "bench/support/itm_cases.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

#include "bench/support/itm_contestants.h"
#include "platform/assert.h"
#include "programs/json.h"

namespace tmh::bench {

namespace {

namespace fs = std::filesystem;
using programs::Json;

enum class Mix : std::uint8_t { kReads, kUpdates };  // kReads: mostly
struct BuiltIn {
  const char *name;  // PROGRAM/WHAT
  const char *arguments;
  const char *arguments_tiny;     // behind the others; the last of an option's values counts
  std::uint64_t operations_tiny;  // of each thread, or inputs
  Mix mix = Mix::kUpdates;
  const char *long_field = "", *alone = "";
  bool has_plain = true;
};
// Sizes: a measurement of half a second ends some transactions of the longest kind on the slowest
// library. Where a program has readers and writers, one row has few updates and one has many.
constexpr const char *kScans = "details.scans", *kAudits = "details.audits";
constexpr BuiltIn kBuiltIn[] = {
    {"sorted_list/short", "--size 256 --updates 20", "--size 32", 100},
    {"sorted_list/long", "--size 4000 --updates 5", "--size 100", 50, Mix::kReads},
    {"hash_set/lookups", "--size 16384 --updates 5", "--size 64", 200, Mix::kReads},
    {"hash_set/updates", "--size 16384 --updates 50", "--size 64", 200},
    {"red_black_tree/lookups", "--size 65536 --updates 5", "--size 64", 200, Mix::kReads},
    {"red_black_tree/updates", "--size 65536 --updates 50", "--size 64", 200},
    {"bank/transfers", "--accounts 16384 --read-all 0", "--accounts 64", 200},
    {"bank/read-all", "--accounts 1024 --read-all 10", "--accounts 64", 50, Mix::kReads},
    {"bank/turn", "--accounts 256 --read-all 0 --turn 5", "--accounts 64", 50},
    {"bank/audit", "--accounts 16384 --read-all 0 --audit", "--accounts 64 --audits 5", 50,
     Mix::kUpdates, kAudits, "bank/transfers", false},
    {"reservations/few", "--queries 2 --query-range 90 --reserve 98", "--rows 64", 50},
    {"reservations/many", "--queries 4 --query-range 60 --reserve 90", "--rows 64", 50},
    {"reservations/scan", "--queries 4 --query-range 60 --reserve 90 --olap", "--rows 64 --scans 5",
     50, Mix::kUpdates, kScans, "reservations/many", false},
    {"ycsb/A", "--workload A", "--records 200", 50},
    {"ycsb/B", "--workload B", "--records 200", 50, Mix::kReads},
    {"ycsb/C", "--workload C", "--records 200", 50, Mix::kReads},
    {"ycsb/D", "--workload D", "--records 200", 50, Mix::kReads},
    {"ycsb/E", "--workload E", "--records 200", 20, Mix::kReads},
    {"ycsb/F", "--workload F", "--records 200", 50},
    {"kmeans/few", "--clusters 40", "--points 200 --dimensions 4 --clusters 8", 1},
    {"kmeans/many", "--clusters 15", "--points 200 --dimensions 4 --clusters 4", 1},
    {"gene_assembly", "", "--gene 256 --segments 512", 1},
    {"maze", "--x 64 --y 64 --z 3 --routes 64", "--x 12 --y 12 --z 2 --routes 6", 1},
    {"graph", "--scale 13", "--scale 5", 1},
    {"packets", "", "--flows 50", 1},
    {"mesh", "", "--points 50", 1},
};

// Wrong under snapshot isolation (examples/itm/README.md).
constexpr std::string_view kSkewed[] = {"red_black_tree", "reservations", "packets", "mesh"};

void append(std::vector<std::string> *words, std::string_view text) {
  TMH_ASSERT(words != nullptr);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words->emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "--size 4000" in front of "--size 100": the later one replaces it.
std::vector<std::string> replaced(std::vector<std::string> words,
                                  const std::vector<std::string> &later) {
  TMH_ASSERT(later.size() % 2 == 0);  // options, each with its value
  for (std::size_t i = 0; i + 1 < later.size(); i += 2) {
    const auto at = std::find(words.begin(), words.end(), later[i]);
    if (at != words.end()) words.erase(at, at + 2);
  }
  words.insert(words.end(), later.begin(), later.end());
  return words;
}

// Of kSmall, behind the others; programs that are not here have small inputs anyway.
constexpr std::pair<std::string_view, const char *> kSmallArguments[] = {
    {"reservations", "--rows 4096"},
    {"ycsb", "--records 1000"},
    {"kmeans", "--points 512"},
    {"gene_assembly", "--gene 1024 --segments 4096"},
    {"maze", "--x 32 --y 32 --z 3 --routes 16"},
    {"graph", "--scale 7"},
    {"packets", "--flows 256"},
    {"mesh", "--points 400"},
};

ItmCase case_of(const BuiltIn &built_in, const std::string &folder, ItmInputs inputs) {
  TMH_ASSERT(built_in.name != nullptr && built_in.operations_tiny > 0);
  ItmCase one;
  one.name = built_in.name;
  const std::string program = one.name.substr(0, one.name.find('/'));
  std::vector<std::string> arguments;
  append(&arguments, built_in.arguments);
  std::vector<std::string> later;
  if (inputs == ItmInputs::kTiny) {
    append(&later, built_in.arguments_tiny);
    append(&later, fmt::format("--operations {}", built_in.operations_tiny));
  } else {
    append(&later, "--seconds {seconds}");
  }
  if (inputs == ItmInputs::kSmall)
    for (const auto &[name, small] : kSmallArguments)
      if (name == program) append(&later, small);
  arguments = replaced(std::move(arguments), later);
  append(&arguments, "--threads {threads} --seed {seed}");
  for (const char *const build : {kTransactions, kMutex, kPlain}) {
    if (build == kPlain && !built_in.has_plain) continue;
    const std::string suffix = build == kTransactions ? "" : fmt::format("_{}", build);
    auto &words = one.commands[build] = {fmt::format("{}/itm_{}{}", folder, program, suffix)};
    words.insert(words.end(), arguments.begin(), arguments.end());
  }
  one.reading.field = "operations_per_second";
  one.reading.is_own = true;
  one.reading.long_field = built_in.long_field;
  one.alone = built_in.alone;
  one.reads_mostly = built_in.mix == Mix::kReads;
  one.has_skew = std::find(std::begin(kSkewed), std::end(kSkewed), program) != std::end(kSkewed);
  return one;
}

// A server of examples/itm/cache and its client. 16 connections, as memcached's own load has.
struct Cache {
  const char *name, *arguments;
  Mix mix;
};
constexpr Cache kCaches[] = {
    {"cache/gets", "--get-ratio 0.95", Mix::kReads},
    {"cache/sets", "--get-ratio 0.5", Mix::kUpdates},
};
ItmCase case_of(const Cache &cache, const std::string &folder, ItmInputs inputs) {
  ItmCase one;
  one.name = cache.name;
  for (const auto &[build, server] :
       {std::pair(kTransactions, "cache_server"), std::pair(kMutex, "cache_server_mutex")})
    append(&one.commands[build],
           fmt::format("{}/{} --threads {{threads}} --port 0", folder, server));
  append(&one.client, fmt::format("{}/cache_client --connect {{place}} --threads {{threads}} "
                                  "--seed {{seed}} --protocol binary --verify {}",
                                  folder, cache.arguments));
  append(&one.client, inputs == ItmInputs::kTiny
                          ? "--connections 2 --keys 20 --seconds 0.005"
                          : "--connections 16 --keys 10000 --pipeline 8 --seconds {seconds}");
  one.reading.field = "operations_per_second";
  one.reading.is_own = true;
  one.reads_mostly = cache.mix == Mix::kReads;
  return one;
}

// The output itself, or its last line that is an object.
Json object_in(const std::string &text) {
  Json all = Json::parse(text, Json::IfBroken::kDiscard);
  if (all.is_object()) return all;
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t before = text.find_last_of('\n', end - 1);
    const std::size_t first = before == std::string::npos ? 0 : before + 1;
    Json line = Json::parse(text.substr(first, end - first), Json::IfBroken::kDiscard);
    if (line.is_object()) return line;
    end = before == std::string::npos ? 0 : before;
  }
  throw std::runtime_error("it printed no JSON object");
}

double number_at(const Json &object, const std::string &field) {
  TMH_ASSERT(!field.empty());
  const Json *at = &object;
  std::size_t first = 0;
  while (first <= field.size()) {
    const std::size_t end = std::min(field.find('.', first), field.size());
    const std::string key = field.substr(first, end - first);
    if (!at->is_object() || !at->contains(key))
      throw std::runtime_error(fmt::format("its JSON object has no field {}", field));
    at = &(*at)[key];
    first = end + 1;
  }
  if (!at->is_number()) throw std::runtime_error(fmt::format("its field {} is no number", field));
  return at->get<double>();
}

double number_in(const std::string &text, const std::regex &pattern) {
  TMH_ASSERT(pattern.mark_count() > 0);
  std::smatch match;
  if (!std::regex_search(text, match, pattern))
    throw std::runtime_error("what it printed does not match the expression of its rate");
  try {
    return std::stod(match[1].str());
  } catch (const std::logic_error &) {
    throw std::runtime_error(
        fmt::format("the expression of its rate finds \"{}\", which is no number", match[1].str()));
  }
}

}  // namespace

bool ItmCase::runs_with(unsigned threads_wanted) const {
  return threads.empty() ||
         std::find(threads.begin(), threads.end(), threads_wanted) != threads.end();
}

std::vector<ItmCase> itm_cases(const std::string &folder, ItmInputs inputs, std::string *why_not) {
  TMH_ASSERT(why_not != nullptr);
  std::vector<ItmCase> all;
  std::vector<std::string> missing;
  std::size_t found = 0;
  for (const BuiltIn &each : kBuiltIn) all.push_back(case_of(each, folder, inputs));
  for (const Cache &each : kCaches) all.push_back(case_of(each, folder, inputs));
  for (const ItmCase &each : all) {
    for (const auto &[build, words] : each.commands) {
      if (!fs::exists(words[0])) {
        missing.push_back(words[0]);
      } else if (build == kTransactions) {
        ++found;
      }
    }
    if (!each.client.empty() && !fs::exists(each.client[0])) missing.push_back(each.client[0]);
  }
  if (found == 0) {
    *why_not = fmt::format(
        "no program of examples/itm is in {}: they need TMH_BUILD_EXAMPLES and g++ with a working "
        "-fgnu-tm, without sanitizers",
        folder);
    return {};
  }
  if (!missing.empty())
    throw std::runtime_error(fmt::format("{} is not there; build it first", missing[0]));
  return all;
}

std::vector<std::string> filled_in(const std::vector<std::string> &words,
                                   const ItmPlaceholders &values) {
  const std::pair<std::string_view, std::string> texts[] = {
      {kItmPlaceholders[0], fmt::to_string(values.threads)},
      {kItmPlaceholders[1], fmt::to_string(values.seconds)},
      {kItmPlaceholders[2], fmt::to_string(values.seed)},
      {"{place}", values.place}};
  std::vector<std::string> all = words;
  for (std::string &word : all) {
    for (const auto &[placeholder, text] : texts) {
      if (text.empty()) continue;
      for (std::size_t at = word.find(placeholder); at != std::string::npos;
           at = word.find(placeholder, at + text.size()))
        word.replace(at, placeholder.size(), text);
    }
  }
  return all;
}

ChildOutcome run_case(const ItmCase &what, const ChildCommand &command,
                      const ItmPlaceholders &values) {
  TMH_ASSERT(!command.words.empty());
  if (what.client.empty()) return run_child(command);
  Child server(command);
  const auto place = server.wait_for_line("listening on ");
  const auto refuse = [&](const ChildOutcome &outcome, const char *sentence) {
    throw std::runtime_error(fmt::format("the server {}: {} {}", sentence,
                                         outcome.end(command.time_max), outcome.last_words()));
  };
  if (!place) refuse(server.wait(), "does not say where it listens");
  ItmPlaceholders with_place = values;
  with_place.place = *place;
  ChildCommand client;
  client.words = filled_in(what.client, with_place);
  client.time_max = command.time_max;
  ChildOutcome outcome = run_child(client);
  server.ask_to_end();
  const ChildOutcome end = server.wait();
  if (end.was_late || end.signal != 0 || end.exit_code != 0) refuse(end, "does not end well");
  return outcome;
}

ItmNumbers read_numbers(const ItmReading &reading, const ChildOutcome &outcome,
                        std::chrono::duration<double> time_max) {
  TMH_ASSERT(reading.pattern.has_value() || !reading.field.empty());
  ItmNumbers numbers;
  Json object;
  if (reading.is_own && !outcome.was_late && outcome.signal == 0 && !outcome.out.empty()) {
    object = object_in(outcome.out);
    if (object.value("check", "") != "ok")
      throw std::runtime_error("its check: " + object.value("check", "is not there"));
  }
  if (outcome.was_late || outcome.signal != 0 || outcome.exit_code != reading.exit_code) {
    const std::string words = outcome.last_words();
    throw std::runtime_error(outcome.end(time_max) + (words.empty() ? "" : ": " + words));
  }
  if (reading.check && !std::regex_search(outcome.out, *reading.check))
    throw std::runtime_error("what it printed does not match the expression of its check");
  if (!reading.field.empty() && !reading.is_own) object = object_in(outcome.out);
  numbers.rate =
      reading.pattern ? number_in(outcome.out, *reading.pattern) : number_at(object, reading.field);
  if (!std::isfinite(numbers.rate) || numbers.rate <= 0)
    throw std::runtime_error(fmt::format("its number is {}", numbers.rate));
  if (reading.is_seconds) numbers.rate = 1 / numbers.rate;
  if (!reading.is_own) return numbers;
  numbers.transactions = number_at(object, "transactions");
  numbers.attempts = number_at(object, "attempts");
  if (!reading.long_field.empty())
    numbers.long_rate = number_at(object, reading.long_field) / number_at(object, "seconds");
  return numbers;
}

}  // namespace tmh::bench
