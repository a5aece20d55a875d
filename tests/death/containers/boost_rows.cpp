// tests/death/containers/boost_rows.cpp -- plays of Boost's containers.
#include <boost/container/deque.hpp>
#include <boost/container/flat_map.hpp>
#include <boost/container/map.hpp>
#include <boost/container/small_vector.hpp>
#include <boost/container/stable_vector.hpp>
#include <boost/container/string.hpp>
#include <boost/container/vector.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/multi_index/hashed_index.hpp>
#include <boost/multi_index/member.hpp>
#include <boost/multi_index/ordered_index.hpp>
#include <boost/multi_index/sequenced_index.hpp>
#include <boost/multi_index_container.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered_map.hpp>

#include "tests/death/containers/rows.h"

namespace tmh::test {
namespace {

using Pair = std::pair<const long, long>;
namespace index = boost::multi_index;
using Indexed = boost::multi_index_container<
    Entry,
    index::indexed_by<index::ordered_unique<index::member<Entry, long, &Entry::key>>,
                      index::hashed_non_unique<index::member<Entry, long, &Entry::value>>,
                      index::sequenced<>>,
    allocator<Entry>>;

Play play_of_indexed() {
  return {[](const Segment &segment) -> void * { return segment.root<Indexed>(); },
          [](void *indexed, long key, long value) {
            Indexed &all = *static_cast<Indexed *>(indexed);
            if (const auto at = all.find(key); at != all.end())
              all.modify(at, [value](Entry &entry) { entry.value = value; });
            else
              all.insert({key, value});
          },
          [](void *indexed, long key) { static_cast<Indexed *>(indexed)->erase(key); },
          [](const void *indexed) {
            const Indexed &all = *static_cast<const Indexed *>(indexed);
            std::map<long, long> content;
            for (const Entry &entry : all.get<2>()) {
              const auto [from, to] = all.get<1>().equal_range(entry.value);
              bool is_hashed = false;
              for (auto at = from; at != to; ++at) is_hashed = is_hashed || at->key == entry.key;
              if (is_hashed && all.count(entry.key) == 1) content.emplace(entry.key, entry.value);
            }
            return content;
          }};
}

struct Node : boost::intrusive::set_base_hook<> {
  Node(long key_now, long value_now) : key(key_now), value(value_now) {}
  long key, value;
  friend bool operator<(const Node &a, const Node &b) noexcept { return a.key < b.key; }
};
using Intrusive = boost::intrusive::set<Node>;

void erase_node(void *set, long key) {
  Intrusive &all = *static_cast<Intrusive *>(set);
  const auto at = all.find(Node(key, 0));
  if (at == all.end()) return;
  all.erase_and_dispose(at, [](Node *node) {
    node->~Node();
    allocator<Node>().deallocate(node, 1);
  });
}

Play play_of_intrusive() {
  return {[](const Segment &segment) -> void * { return segment.root<Intrusive>(); },
          [](void *set, long key, long value) {
            erase_node(set, key);
            static_cast<Intrusive *>(set)->insert(*::new (allocator<Node>().allocate(1))
                                                      Node(key, value));
          },
          erase_node,
          [](const void *set) {
            std::map<long, long> content;
            for (const Node &node : *static_cast<const Intrusive *>(set))
              content.emplace(node.key, node.value);
            return content;
          }};
}

}  // namespace

void add_boost_plays(Plays &plays) {
  namespace container = boost::container;
  using FlatMap =
      boost::unordered_flat_map<long, long, boost::hash<long>, std::equal_to<>, allocator<Pair>>;
  plays["BoostVector"] = play_of_sequence<container::vector<Entry, allocator<Entry>>>();
  plays["BoostDeque"] = play_of_sequence<container::deque<Entry, allocator<Entry>>>();
  plays["BoostMap"] = play_of_map<container::map<long, long, std::less<>, allocator<Pair>>>();
  plays["BoostFlatMap"] =
      play_of_map<container::flat_map<long, long, std::less<>, allocator<std::pair<long, long>>>>();
  plays["BoostString"] =
      play_of_text<container::basic_string<char, std::char_traits<char>, allocator<char>>>();
  plays["BoostStableVector"] =
      play_of_sequence<container::stable_vector<Entry, allocator<Entry>>>();
  plays["BoostSmallVector"] =
      play_of_sequence<container::small_vector<Entry, 4, allocator<Entry>>>();
  plays["BoostMultiIndex"] = play_of_indexed();
  plays["BoostIntrusiveSet"] = play_of_intrusive();
  plays["BoostUnorderedMap"] = play_of_map<
      boost::unordered_map<long, long, boost::hash<long>, std::equal_to<>, allocator<Pair>>>();
  plays["BoostUnorderedFlatMap"] = play_of_map<FlatMap>();
  plays["BoostUnorderedFlatMapReserved"] = play_of_map_made<FlatMap>([](FlatMap &map) {
    if (map.bucket_count() == 0) map.reserve(16);
  });
}

}  // namespace tmh::test
