// tests/death/containers/rows.h -- the table of containers in docs/what_may_lie_in_a_segment.md,
// and what each row's test does.
// Shape:     a row has a play: how a key gets a value, loses it, and what the container holds. The
//            plays are in the worker, a program of its own; the rows are the test's, too.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <tmh/tmh.hpp>

namespace tmh::test {

enum class Verdict : unsigned char {
  kWorks,
  kDies,         // of SIGSEGV, in the next process
  kFindsNothing  // that an earlier process has put there
};

struct Row {
  std::string_view id;  // of the test
  std::string_view container;
  Verdict verdict;
  std::string_view remark;
};

inline constexpr Row kRows[] = {
    {"StdVector", "`std::vector`", Verdict::kWorks, ""},
    {"StdDeque", "`std::deque`", Verdict::kWorks, ""},
    {"StdList", "`std::list`", Verdict::kWorks, ""},
    {"StdMap", "`std::map`", Verdict::kWorks, ""},
    {"StdSet", "`std::set`", Verdict::kWorks, ""},
    {"StdUnorderedMap", "`std::unordered_map`", Verdict::kWorks, ""},
    {"StdString", "`std::basic_string`", Verdict::kWorks,
     "not `std::string`, whose allocator is `std::allocator`"},
    {"StdMapOfStrings", "`std::map` of strings", Verdict::kWorks,
     "`std::scoped_allocator_adaptor` hands the segment on to keys and values"},
    {"BoostVector", "`boost::container::vector`", Verdict::kWorks, ""},
    {"BoostDeque", "`boost::container::deque`", Verdict::kWorks, ""},
    {"BoostMap", "`boost::container::map`", Verdict::kWorks, ""},
    {"BoostFlatMap", "`boost::container::flat_map`", Verdict::kWorks, ""},
    {"BoostString", "`boost::container::basic_string`", Verdict::kWorks, ""},
    {"BoostStableVector", "`boost::container::stable_vector`", Verdict::kWorks, ""},
    {"BoostSmallVector", "`boost::container::small_vector`", Verdict::kWorks, ""},
    {"BoostMultiIndex", "`boost::multi_index_container`", Verdict::kWorks,
     "tested with an ordered, a hashed and a sequenced index"},
    {"BoostIntrusiveSet", "`boost::intrusive::set`", Verdict::kWorks,
     "nodes are allocated by `tmh::allocator`; it has none itself"},
    {"BoostUnorderedMap", "`boost::unordered_map`", Verdict::kWorks, ""},
    {"BoostUnorderedFlatMap", "`boost::unordered_flat_map`, empty", Verdict::kDies,
     "an empty one points to a static of the program; use `boost::unordered_map`, or the next row"},
    {"BoostUnorderedFlatMapReserved", "`boost::unordered_flat_map`, reserved", Verdict::kWorks,
     "`reserve()` in the instance that makes it, and again after whatever gives its memory back: "
     "moving from it, "
     "`swap()`, `rehash(0)`"},
    {"AbslBtreeMap", "`absl::btree_map`, empty", Verdict::kDies,
     "an empty one points to a static of the program; use `std::map` or `boost::container::map`, "
     "or the next row"},
    {"AbslBtreeMapNeverEmpty", "`absl::btree_map`, never empty", Verdict::kWorks,
     "one key is put there in the instance that makes it, and stays"},
    {"AbslFlatHashMap", "`absl::flat_hash_map`", Verdict::kFindsNothing,
     "`absl::Hash` is seeded by the address of a static, so that the next process looks elsewhere; "
     "an empty one points "
     "to a static, too; use `std::unordered_map` or `boost::unordered_map`"},
    {"NlohmannJson", "`nlohmann::basic_json`", Verdict::kWorks,
     "with strings of `tmh::allocator`; it makes allocators by default, so one heap segment of the "
     "domain is mapped; "
     "a copy made in a query goes back into a segment by copying, not by `std::move`"},
};

// REQUIRES for all: a running instance.
struct Play {
  std::function<void *(const Segment &)> make;  // or finds it
  std::function<void(void *, long key, long value)> set;
  std::function<void(void *, long key)> erase;
  std::function<std::map<long, long>(const void *)> content;
};
using Plays = std::map<std::string_view, Play>;
// By Row::id.
void add_std_plays(Plays &plays);
void add_boost_plays(Plays &plays);
void add_other_plays(Plays &plays);

// Of anything that maps a long to a long.
template <class Map>
Play play_of_map() {
  return {[](const Segment &segment) -> void * { return segment.root<Map>(); },
          [](void *map, long key, long value) { (*static_cast<Map *>(map))[key] = value; },
          [](void *map, long key) { static_cast<Map *>(map)->erase(key); },
          [](const void *map) {
            std::map<long, long> content;
            for (const auto &[key, value] : *static_cast<const Map *>(map))
              content.emplace(key, value);
            return content;
          }};
}

struct Entry {
  long key = 0, value = 0;
};

template <class Entries>
Play play_of_sequence() {
  const auto find = [](void *entries, long key) {
    auto at = static_cast<Entries *>(entries)->begin();
    while (at != static_cast<Entries *>(entries)->end() && at->key != key) ++at;
    return at;
  };
  return {[](const Segment &segment) -> void * { return segment.root<Entries>(); },
          [find](void *entries, long key, long value) {
            if (const auto at = find(entries, key); at != static_cast<Entries *>(entries)->end())
              at->value = value;
            else
              static_cast<Entries *>(entries)->push_back({key, value});
          },
          [find](void *entries, long key) {
            if (const auto at = find(entries, key); at != static_cast<Entries *>(entries)->end())
              static_cast<Entries *>(entries)->erase(at);
          },
          [](const void *entries) {
            std::map<long, long> content;
            for (const Entry &entry : *static_cast<const Entries *>(entries))
              content.emplace(entry.key, entry.value);
            return content;
          }};
}

// Of text: "key=value;" for each key.
template <class Text>
Play play_of_text() {
  const auto erase = [](void *text, long key) {
    Text &all = *static_cast<Text *>(text);
    const std::string piece = ";" + std::to_string(key) + "=";
    const auto from = all.find(piece.c_str());
    if (from == Text::npos) return;
    all.erase(from + 1, all.find(';', from + 1) - from);
  };
  return {[](const Segment &segment) -> void * { return segment.root<Text>(); },
          [erase](void *text, long key, long value) {
            erase(text, key);
            Text &all = *static_cast<Text *>(text);
            if (all.empty()) all = ";";
            all += (std::to_string(key) + "=" + std::to_string(value) + ";").c_str();
          },
          erase,
          [](const void *text) {
            std::map<long, long> content;
            const Text &all = *static_cast<const Text *>(text);
            for (std::size_t at = 1; at < all.size(); at = all.find(';', at) + 1) {
              const char *piece = all.c_str() + at;
              content.emplace(std::atol(piece), std::atol(all.c_str() + all.find('=', at) + 1));
            }
            return content;
          }};
}

template <class Map>
Play play_of_map_made(void (*prepare)(Map &)) {
  Play play = play_of_map<Map>();
  play.make = [prepare](const Segment &segment) -> void * {
    Map *map = segment.root<Map>();
    if (map->empty()) prepare(*map);
    return map;
  };
  return play;
}

}  // namespace tmh::test
