// bench/support/durable_tmh.cpp -- this library as a contestant: two ordered maps, plain serial code, in a segment.
// Set-up:  everything by default: one heap segment, tracking, policy and group commit automatic (the environment's TMH_TRACKING,
//          TMH_POLICY and TMH_GROUP_COMMIT are obeyed), the map is the segment's root.
//          tmh           examples/trees/bptree.hpp, a B+-tree with blocks of 4 KiB, for the opponents are B-trees; strict: durable
//                        at return
//          tmh-std-map   an unmodified std::map, strict: each insert touches some ten pages, and writes the map's header (its size),
//                        so that of two inserts that overlap one always runs again
//          tmh-buffered  the B+-tree, acknowledged before it is durable; not comparable, shows what the wait costs
//          tmh-none      the B+-tree, no log at all; shows what the transactions cost without durability
//          tmh-lines, tmh-pages
//                        no map: a domain with both levels, strict; a record's 65 words are stored to a slot of an array (9 or 10
//                        lines), all at level 1 or all at level 2. Beside each other they show what a level costs; nothing is scanned
// Retries: attempts that the library undid because another process committed a page that they had read.
#include <cstring>
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

// An array of records in a domain with both levels. Neighbouring slots share no line; a page has seven.
class ArraySession final : public Session {
 public:
  ArraySession(const std::string &folder, const char *escalation)
      : domain_(open(folder)), segment_(domain_.map("array.db", shape())), site_(domain_, "store", escalation) {}
  ~ArraySession() override {
    std::error_code ignored;
    (void)domain_.close(ignored);
  }

  void commit(std::span<const Record> records) override {
    atomically(site_, [&] {
      for (const Record &record : records) {
        field<std::uint64_t> *const slot = words() + record.key % kSlots * kSlotWords;
        slot[0].store(record.key);
        for (std::size_t at = 0; at < kValueBytes; at += 8) {
          std::uint64_t word = 0;
          std::memcpy(&word, record.value.data() + at, sizeof word);
          slot[1 + at / 8].store(word);
        }
      }
    });
  }
  std::uint64_t log_bytes() override { return logged(domain_, Durability::kStrict).bytes; }
  std::uint64_t retries() const override {
    const SiteReport report = site_.report();
    return report.line_aborts + report.page_aborts;
  }
  void scan(const std::function<void(std::uint64_t, const char *)> &) override {}

 private:
  static constexpr std::uint64_t kSlots = 4096, kSlotWords = 72;

  static Domain open(const std::string &folder) {
    DomainOptions options;
    options.durability = Durability::kStrict;
    options.levels = Levels::kHybrid;
    return Domain::open(folder, options);
  }
  static SegmentOptions shape() {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = (kSlots * kSlotWords * 8 + kPageBytes - 1) / kPageBytes * kPageBytes;
    return raw;
  }
  [[nodiscard]] field<std::uint64_t> *words() const {
    return reinterpret_cast<field<std::uint64_t> *>(segment_.data());
  }

  Domain domain_;
  Segment segment_;
  Site site_;
};

class TmhArray final : public Contestant {
 public:
  TmhArray(const char *name, const char *escalation)
      : Contestant(name, CountsLog::kOfEverybody, false), escalation_(escalation) {}
  void create(const std::string &folder, const Plan &) override { (void)ArraySession(folder, escalation_); }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<ArraySession>(folder, escalation_);
  }

 private:
  const char *escalation_;
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
  all->push_back(std::make_unique<TmhArray>("tmh-lines", "never"));
  all->push_back(std::make_unique<TmhArray>("tmh-pages", "always"));
}

}  // namespace tmh::bench
