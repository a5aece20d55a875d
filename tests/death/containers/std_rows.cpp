// tests/death/containers/std_rows.cpp -- plays of the standard containers.
#include <deque>
#include <list>
#include <map>
#include <scoped_allocator>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/death/containers/rows.h"

namespace tmh::test {
namespace {

using Pair = std::pair<const long, long>;
using String = std::basic_string<char, std::char_traits<char>, allocator<char>>;

struct ByKey {
  bool operator()(const Entry &a, const Entry &b) const noexcept { return a.key < b.key; }
};
using Set = std::set<Entry, ByKey, allocator<Entry>>;

Play play_of_set() {
  Play play = play_of_sequence<std::vector<Entry, allocator<Entry>>>();
  play.make = [](const Segment &segment) -> void * { return segment.root<Set>(); };
  play.erase = [](void *set, long key) { static_cast<Set *>(set)->erase({key, 0}); };
  play.set = [erase = play.erase](void *set, long key, long value) {
    erase(set, key);
    static_cast<Set *>(set)->insert({key, value});
  };
  play.content = [](const void *set) {
    std::map<long, long> content;
    for (const Entry &entry : *static_cast<const Set *>(set))
      content.emplace(entry.key, entry.value);
    return content;
  };
  return play;
}

using Words = std::map<String, String, std::less<>,
                       std::scoped_allocator_adaptor<allocator<std::pair<const String, String>>>>;

// Too long for a string's own buffer.
std::string word_of(long number) {
  return "the word that stands for the number " + std::to_string(number);
}
long number_of(std::string_view word) { return std::atol(word.data() + word.rfind(' ')); }

Play play_of_words() {
  return {[](const Segment &segment) -> void * { return segment.root<Words>(); },
          [](void *words, long key, long value) {
            static_cast<Words *>(words)->insert_or_assign(String(word_of(key)),
                                                          std::string_view(word_of(value)));
          },
          [](void *words, long key) {
            Words &all = *static_cast<Words *>(words);
            if (const auto at = all.find(std::string_view(word_of(key))); at != all.end())
              all.erase(at);
          },
          [](const void *words) {
            std::map<long, long> content;
            for (const auto &[key, value] : *static_cast<const Words *>(words))
              content.emplace(number_of(key), number_of(value));
            return content;
          }};
}

}  // namespace

void add_std_plays(Plays &plays) {
  plays["StdVector"] = play_of_sequence<std::vector<Entry, allocator<Entry>>>();
  plays["StdDeque"] = play_of_sequence<std::deque<Entry, allocator<Entry>>>();
  plays["StdList"] = play_of_sequence<std::list<Entry, allocator<Entry>>>();
  plays["StdMap"] = play_of_map<std::map<long, long, std::less<>, allocator<Pair>>>();
  plays["StdSet"] = play_of_set();
  plays["StdUnorderedMap"] = play_of_map<
      std::unordered_map<long, long, std::hash<long>, std::equal_to<>, allocator<Pair>>>();
  plays["StdString"] = play_of_text<String>();
  plays["StdMapOfStrings"] = play_of_words();
}

}  // namespace tmh::test
