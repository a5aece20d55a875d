// tests/support/containers.h -- unmodified standard containers in a heap segment, and their twins
// in plain memory.
// Shape:     Library<Alloc>: one root object that holds a container of every kind, nested ones
//            included. The same code fills a segment's library and a plain one, so that what a test
//            expects is never written by the code under test.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <scoped_allocator>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

namespace tmh::test {

// A: tmh::allocator or std::allocator, wrapped so that containers hand it on to their elements.
template <template <class> class A>
struct Library {
  template <class T>
  using Nested = std::scoped_allocator_adaptor<A<T>>;
  using String = std::basic_string<char, std::char_traits<char>, A<char>>;
  template <class T>
  using Vector = std::vector<T, Nested<T>>;
  struct Hash {
    std::size_t operator()(const String &text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  using allocator_type = A<std::byte>;
  explicit Library(const allocator_type &allocator)
      : numbers(allocator),
        words(allocator),
        index(allocator),
        by_word(allocator),
        order(allocator),
        queue(allocator),
        unique(allocator) {}

  std::vector<std::uint64_t, A<std::uint64_t>> numbers;
  Vector<String> words;
  std::map<String, Vector<std::uint32_t>, std::less<>,
           Nested<std::pair<const String, Vector<std::uint32_t>>>>
      index;
  std::unordered_map<String, std::uint64_t, Hash, std::equal_to<>,
                     Nested<std::pair<const String, std::uint64_t>>>
      by_word;
  std::list<String, Nested<String>> order;
  std::deque<std::uint32_t, A<std::uint32_t>> queue;
  std::set<std::uint64_t, std::less<>, A<std::uint64_t>> unique;
};
using SharedLibrary = Library<allocator>;
using PlainLibrary = Library<std::allocator>;

// Adds, changes and erases a little everywhere; what, follows from `step` alone.
template <class AnyLibrary>
void change(AnyLibrary &library, std::uint32_t step) {
  // Some fit a string's own buffer, some do not.
  const std::string word = "word " + std::to_string(step % 97) + std::string(step % 5 * 9, 'x');
  const std::string_view text = word;
  library.numbers.push_back(step);
  library.words.emplace_back(text);
  library.index.try_emplace(typename AnyLibrary::String(text, library.words.get_allocator()))
      .first->second.push_back(step);
  library.by_word[typename AnyLibrary::String(text, library.words.get_allocator())] += step;
  library.order.emplace_back(text);
  library.queue.push_back(step);
  library.unique.insert(step * 31 % 1009);
  if (step % 3 == 0) library.order.pop_front();
  if (step % 4 == 0) library.queue.pop_front();
  if (step % 7 == 0) library.index.erase(library.index.begin());
  if (step % 11 == 0) library.unique.erase(library.unique.begin());
  if (step % 64 == 0) {
    library.words.clear();
    library.words.shrink_to_fit();
    library.by_word.clear();
  }
}

// All content as one text, so that libraries of different allocators compare.
template <class AnyLibrary>
std::string content(const AnyLibrary &library) {
  std::string text;
  const auto add = [&](const auto &value) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(value)>>) {
      text += std::to_string(value);
    } else {
      text += std::string_view(value);
    }
    text += ' ';
  };
  for (const auto number : library.numbers) add(number);
  for (const auto &word : library.words) add(word);
  for (const auto &[word, places] : library.index) {
    add(word);
    for (const auto place : places) add(place);
  }
  // Iteration order of a hash table is its own business.
  std::map<std::string, std::uint64_t> sorted;
  for (const auto &[word, sum] : library.by_word) sorted.emplace(std::string_view(word), sum);
  for (const auto &[word, sum] : sorted) {
    add(word);
    add(sum);
  }
  for (const auto &word : library.order) add(word);
  for (const auto place : library.queue) add(place);
  for (const auto number : library.unique) add(number);
  return text;
}

// What `steps` changes make of an empty library.
[[nodiscard]] inline std::string expected_content(std::uint32_t steps) {
  PlainLibrary library{std::allocator<std::byte>()};
  for (std::uint32_t step = 0; step < steps; ++step) change(library, step);
  return content(library);
}

}  // namespace tmh::test
