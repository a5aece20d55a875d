// examples/map_index.cpp -- unmodified std::map, std::vector and std::basic_string in a segment: a
// persistent word index.
// Run:       map_index [folder [word...]]: adds the words to the index, then prints every word with
//            the positions it had.
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <scoped_allocator>
#include <string>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

namespace {

// scoped_allocator_adaptor hands the segment's allocator on to keys and values.
template <class T>
using Scoped = std::scoped_allocator_adaptor<tmh::allocator<T>>;
using Word = std::basic_string<char, std::char_traits<char>, tmh::allocator<char>>;
using Positions = std::vector<int, tmh::allocator<int>>;
using Index = std::map<Word, Positions, std::less<>, Scoped<std::pair<const Word, Positions>>>;

int run(const char *folder, const std::vector<std::string> &words) {
  const tmh::Domain domain = tmh::Domain::open(folder);
  const tmh::Segment segment = domain.map("index");
  Index *index = segment.root<Index>("words");
  int *count = segment.root<int>("count");

  for (const std::string &word : words) {
    tmh::atomically(domain, [&] {  // the map and the counter change together, or not at all
      (*index)[Word(word.c_str(), tmh::allocator<char>(segment))].push_back((*count)++);
    });
  }

  tmh::query(domain, [&] {
    for (const auto &[word, positions] : *index) {
      std::printf("%s:", word.c_str());
      for (const int position : positions) std::printf(" %d", position);
      std::printf("\n");
    }
  });
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    std::vector<std::string> words(argv + (argc > 1 ? 2 : 1), argv + argc);
    if (words.empty()) words = {"to", "be", "or", "not", "to", "be"};
    return run(argc > 1 ? argv[1] : "map_index.domain", words);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
