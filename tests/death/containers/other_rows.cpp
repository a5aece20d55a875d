// tests/death/containers/other_rows.cpp -- plays of Abseil's containers, where it is installed, and
// of nlohmann::basic_json.
#include <string>

#include <nlohmann/json.hpp>

#include "tests/death/containers/rows.h"

#ifdef TMH_HAVE_ABSL
#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>
#endif

namespace tmh::test {
namespace {

using String = std::basic_string<char, std::char_traits<char>, allocator<char>>;
using Json = nlohmann::basic_json<std::map, std::vector, String, bool, std::int64_t, std::uint64_t,
                                  double, allocator>;

// In each entry a string too long for its own buffer, and an array.
Play play_of_json() {
  return {
      [](const Segment &segment) -> void * { return segment.root<Json>(); },
      [](void *json, long key, long value) {
        Json &entry = (*static_cast<Json *>(json))[String(std::to_string(key))];
        entry["text"] = "the text that stands for the number " + std::to_string(value);
        entry["numbers"] = {value, value + 1};
      },
      [](void *json, long key) { static_cast<Json *>(json)->erase(String(std::to_string(key))); },
      [](const void *json) {
        std::map<long, long> content;
        const Json copy = *static_cast<const Json *>(json);  // of the process's heap
        for (const auto &[key, entry] : copy.items()) {
          const long value = entry.at("numbers").at(0).get<long>();
          const auto text = entry.at("text").get<String>();
          if (text.ends_with(" " + std::to_string(value)) && entry.at("numbers").at(1) == value + 1)
            content.emplace(std::atol(key.c_str()), value);
        }
        return content;
      }};
}

}  // namespace

void add_other_plays(Plays &plays) {
  plays["NlohmannJson"] = play_of_json();
#ifdef TMH_HAVE_ABSL
  using Pair = std::pair<const long, long>;
  using Tree = absl::btree_map<long, long, std::less<>, allocator<Pair>>;
  plays["AbslBtreeMap"] = play_of_map<Tree>();
  Play never_empty = play_of_map_made<Tree>([](Tree &tree) { tree[-1] = 0; });
  never_empty.content = [](const void *tree) {
    std::map<long, long> content(static_cast<const Tree *>(tree)->begin(),
                                 static_cast<const Tree *>(tree)->end());
    content.erase(-1);
    return content;
  };
  plays["AbslBtreeMapNeverEmpty"] = never_empty;
  plays["AbslFlatHashMap"] = play_of_map<
      absl::flat_hash_map<long, long, absl::Hash<long>, std::equal_to<long>, allocator<Pair>>>();
#endif
}

}  // namespace tmh::test
