// bench/support/durable_tmh.cpp -- this library as a contestant: two ordered maps, plain serial code, in a segment.
// Set-up:  everything by default: one heap segment, tracking, policy and group commit automatic (the environment's TMH_TRACKING,
//          TMH_POLICY and TMH_GROUP_COMMIT are obeyed), the map is the segment's root.
//          tmh           examples/trees/bptree.hpp, a B+-tree with blocks of 4 KiB, for the opponents are B-trees; strict: durable
//                        at return
//          tmh-std-map   an unmodified std::map, strict: each insert touches some ten pages, and writes the map's header (its size),
//                        so that of two inserts that overlap one always runs again
//          tmh-buffered  the B+-tree, acknowledged before it is durable; not comparable, shows what the wait costs
//          tmh-none      the B+-tree, no log at all; shows what the transactions cost without durability
// Retries: attempts that the library undid because another process committed a page that they had read.
#include <functional>
#include <map>

#include <tmh/tmh.hpp>

#include "bench/support/durable_contestant.h"
#include "bench/support/modes.h"
#include "examples/trees/bptree.hpp"

namespace tmh::bench {

namespace {

using StdMap = std::map<std::uint64_t, Value, std::less<>, allocator<std::pair<const std::uint64_t, Value>>>;
using Tree = trees::BPlusTree<std::uint64_t, Value, kPageBytes, allocator<std::byte>>;

void insert(StdMap *map, const Record &record) { map->emplace(record.key, record.value); }
void insert(Tree *tree, const Record &record) { tree->insert(record.key, record.value); }

template <class Map>
class TmhSession final : public Session {
 public:
  TmhSession(const Mode &mode, const std::string &folder)
      : durability_(mode.durability),
        domain_(open_domain(mode, folder)),
        segment_(domain_.map("map.db")),
        map_(segment_.root<Map>("map")) {}
  ~TmhSession() override {
    std::error_code ignored;  // what was committed is durable, or was never promised to be
    (void)domain_.close(ignored);
  }

  void commit(std::span<const Record> records) override {
    atomically(domain_, [&] {
      ++attempts_;  // a local keeps what aborted attempts left in it
      for (const Record &record : records) insert(map_, record);
    });
    ++commits_;
  }
  std::uint64_t log_bytes() override { return logged(domain_, durability_).bytes; }
  std::uint64_t retries() const override { return attempts_ - commits_; }
  void scan(const std::function<void(std::uint64_t, const char *)> &visit) override {
    query(domain_, [&] {
      for (const auto &[key, value] : *map_) visit(key, value.data());
    });
  }

 private:
  Durability durability_;
  Domain domain_;
  Segment segment_;
  Map *map_;
  std::uint64_t attempts_ = 0, commits_ = 0;
};

template <class Map>
class Tmh final : public Contestant {
 public:
  explicit Tmh(const Mode &mode)
      : Contestant(mode.name, mode.durability == Durability::kNone ? CountsLog::kNo : CountsLog::kOfEverybody, true,
                   durability_note(mode.durability)),
        mode_(mode) {}
  void create(const std::string &folder, const Plan &) override { (void)TmhSession<Map>(mode_, folder); }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<TmhSession<Map>>(mode_, folder);
  }

 private:
  Mode mode_;
};

}  // namespace

void add_tmh(Contestants *all) {
  const auto add = [all]<class Map>(const Map *, const char *name, Durability durability) {
    Mode mode{name};
    mode.durability = durability;
    all->push_back(std::make_unique<Tmh<Map>>(mode));
  };
  constexpr const Tree *kTree = nullptr;
  constexpr const StdMap *kStdMap = nullptr;
  add(kTree, "tmh", Durability::kStrict);
  add(kStdMap, "tmh-std-map", Durability::kStrict);
  add(kTree, "tmh-buffered", Durability::kBuffered);
  add(kTree, "tmh-none", Durability::kNone);
}

}  // namespace tmh::bench
