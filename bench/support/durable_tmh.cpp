// bench/support/durable_tmh.cpp -- this library as a contestant: two ordered maps, plain serial
// code, in a segment.
// Set-up:  everything by default: one heap segment, tracking, policy and group commit automatic
//          (the environment's TMH_TRACKING, TMH_POLICY and TMH_GROUP_COMMIT are obeyed), the map is
//          the segment's root.
//          tmh           tmh/trees/bptree.hpp, a B+-tree with blocks of 4 KiB, for the
//                        opponents are B-trees; strict: durable at return
//          tmh-std-map   an unmodified std::map, strict: each insert touches some ten pages, and
//                        writes the map's header (its size), so that of two inserts that overlap
//                        one always runs again
//          tmh-buffered  the B+-tree, acknowledged before it is durable; not comparable, shows what
//                        the wait costs
//          tmh-none      the B+-tree, no log at all; shows what the transactions cost without
//                        durability
//          tmh-fields, tmh-fields-none
//                        the B+-tree made of tmh::field, in a hybrid domain, strict or without a
//                        log: inserts run at software level 1
//          tmh-lines, tmh-pages
//                        no map: a domain with both levels, strict; a record's 65 words are stored
//                        to a slot of an array (9 or 10 lines), all at level 1 or all at level 2.
//          group-..., early-release=off
//                        as tmh, with one policy that is not the default
//                        Beside each other they show what a level costs; nothing is scanned
//          of bench/trees, by itself in either durability:
//          tmh-bptree    the same B+-tree, blocks of the size asked for
//          tmh-cobtree   examples/trees/cobtree.hpp, the cache-oblivious B-tree
//          tmh-snapshot-bptree
//                        the B+-tree under snapshot isolation, where the other tree has write
//                        skew
//          tmh-hybrid-*  these in a hybrid domain: the inserts, plain code, run in RTM where the
//                        domain is not durable and the machine has it, and at level 2 elsewhere
//          tmh-fields-*  these made of tmh::field, as above
// Retries: attempts that the library undid, for whatever cause: another process committed a page
//          that they had read; RTM.
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>

#include <tmh/tmh.hpp>
#include <tmh/trees/bptree.hpp>

#include "bench/support/durable_contestant.h"
#include "bench/support/modes.h"
#include "examples/trees/cobtree.hpp"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

using StdMap =
    std::map<std::uint64_t, Value, std::less<>, allocator<std::pair<const std::uint64_t, Value>>>;

template <std::size_t kBlockBytes>
using BlockTree = trees::BPlusTree<std::uint64_t, Value, kBlockBytes, allocator<std::byte>>;
using CoTree = ::trees::CoBTree<std::uint64_t, Value, allocator<std::byte>>;

// A value whose words level 1 sees.
struct FieldValue {
  static constexpr std::size_t kWords = kValueBytes / sizeof(std::uint64_t);
  field<std::uint64_t> words[kWords];
  static_assert(sizeof words == kValueBytes);
  FieldValue &operator=(const Value &value) {
    for (std::size_t i = 0; i < kWords; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, value.data() + i * sizeof word, sizeof word);
      words[i] = word;
    }
    return *this;
  }
  // REQUIRES: level 2.
  [[nodiscard]] const char *data() const noexcept { return reinterpret_cast<const char *>(words); }
};
template <std::size_t kBlockBytes>
using FieldBlockTree =
    trees::BPlusTree<std::uint64_t, FieldValue, kBlockBytes, pool_allocator<std::byte>,
                     trees::ValuePlace::kBeside, field>;
using FieldCoTree = ::trees::CoBTree<std::uint64_t, FieldValue, pool_allocator<std::byte>,
                                     trees::ValuePlace::kBeside, field>;

template <class Map>
constexpr bool kIsOfFields = false;
template <>
constexpr bool kIsOfFields<FieldCoTree> = true;
template <std::size_t kBlockBytes>
constexpr bool kIsOfFields<FieldBlockTree<kBlockBytes>> = true;

void insert(StdMap *map, const Record &record) { map->emplace(record.key, record.value); }
template <class Tree>
void insert(Tree *tree, const Record &record) {
  tree->insert(record.key, record.value);
}

std::uint64_t aborts(const Site &site) {
  const SiteReport report = site.report();
  return report.line_aborts + report.page_aborts;
}

template <class Map>
class TmhSession final : public Session {
 public:
  TmhSession(const Mode &mode, const std::string &folder)
      : durability_(mode.durability),
        domain_(open_domain(mode, folder)),
        segment_(domain_.map("map.db")),
        map_(segment_.root<Map>("map")),
        site_(domain_, "inserts") {
    TMH_ASSERT(map_ != nullptr);
  }
  ~TmhSession() override {
    std::error_code ignored;  // what was committed is durable, or was never promised to be
    (void)domain_.close(ignored);
  }

  void commit(std::span<const Record> records) override {
    const auto insert_all = [&] {
      for (const Record &record : records) insert(map_, record);
    };
    if constexpr (kIsOfFields<Map>)
      atomically(site_, [&](Fields) { insert_all(); });
    else
      atomically(site_, insert_all);
  }
  std::uint64_t log_bytes() override { return logged(domain_, durability_).bytes; }
  std::uint64_t retries() const override { return aborts(site_); }
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
  Site site_;
};

template <class Map>
class Tmh final : public Contestant {
 public:
  explicit Tmh(const Mode &mode)
      : Contestant(mode.name,
                   mode.durability == Durability::kNone ? CountsLog::kNo : CountsLog::kOfEverybody,
                   true, durability_note(mode.durability)),
        mode_(mode) {}
  void create(const std::string &folder, const Plan &) override {
    (void)TmhSession<Map>(mode_, folder);
  }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<TmhSession<Map>>(mode_, folder);
  }

 private:
  Mode mode_;
};

// An array of records in a domain with both levels. Neighbouring slots share no line; a page has
// seven.
class ArraySession final : public Session {
 public:
  ArraySession(const std::string &folder, const char *escalation)
      : domain_(open(folder)),
        segment_(domain_.map("array.db", shape())),
        site_(domain_, "store", escalation) {}
  ~ArraySession() override {
    std::error_code ignored;
    (void)domain_.close(ignored);
  }

  void commit(std::span<const Record> records) override {
    atomically(site_, [&](Fields) {
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
  std::uint64_t retries() const override { return aborts(site_); }
  void scan(const std::function<void(std::uint64_t, const char *)> &) override {}

 private:
  static constexpr std::uint64_t kSlots = 4096, kSlotWords = 72;
  static_assert(kSlotWords > kValueBytes / 8 && kSlotWords * 8 % kLineBytes == 0,
                "a slot holds key and value, and shares no line");

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
  void create(const std::string &folder, const Plan &) override {
    (void)ArraySession(folder, escalation_);
  }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<ArraySession>(folder, escalation_);
  }

 private:
  const char *escalation_;
};

template <class Map>
void add(Contestants *all, const std::string &name, Durability durability,
         Levels levels = Levels::kPage, Isolation isolation = Isolation{}) {
  Mode mode{name};
  mode.durability = durability;
  mode.levels = levels;
  mode.isolation = isolation;
  all->push_back(std::make_unique<Tmh<Map>>(mode));
}

constexpr std::array<std::size_t, 4> kBlockSizes = {2048, 4096, 16384, 65536};

template <std::size_t kIndex = 0>
void add_block_tree(Contestants *all, const std::string &name, std::size_t block_bytes,
                    Durability durability, Levels levels, Isolation isolation = Isolation{}) {
  if constexpr (kIndex < kBlockSizes.size()) {
    if (block_bytes == kBlockSizes[kIndex])
      add<BlockTree<kBlockSizes[kIndex]>>(all, name, durability, levels, isolation);
    else
      add_block_tree<kIndex + 1>(all, name, block_bytes, durability, levels, isolation);
  } else {
    throw std::invalid_argument("no B+-tree was compiled with blocks of that size");
  }
}

}  // namespace

std::span<const std::size_t> tree_block_sizes() noexcept { return kBlockSizes; }

void add_tmh(Contestants *all) {
  TMH_ASSERT(all != nullptr);
  using Tree = BlockTree<kPageBytes>;
  add<Tree>(all, "tmh", Durability::kStrict);
  add<FieldBlockTree<kPageBytes>>(all, "tmh-fields", Durability::kStrict, Levels::kHybrid);
  add<StdMap>(all, "tmh-std-map", Durability::kStrict);
  add<Tree>(all, "tmh-buffered", Durability::kBuffered);
  add<Tree>(all, "tmh-none", Durability::kNone);
  add<FieldBlockTree<kPageBytes>>(all, "tmh-fields-none", Durability::kNone, Levels::kHybrid);
  all->push_back(std::make_unique<TmhArray>("tmh-lines", "never"));
  all->push_back(std::make_unique<TmhArray>("tmh-pages", "always"));
  // "tmh" is the row beside which these are read.
  for (const char *group : {"none", "active=4", "waiting=50", "bytes=1024", "wait=20us"}) {
    Mode mode{std::string("group-") + group};
    mode.durability = Durability::kStrict;
    mode.group_commit = group;
    all->push_back(std::make_unique<Tmh<Tree>>(mode));
  }
  Mode late{"early-release=off"};
  late.durability = Durability::kStrict;
  late.early_release = EarlyRelease::kOff;
  all->push_back(std::make_unique<Tmh<Tree>>(late));
}

void add_tmh_trees(Contestants *all, Durability durability, std::size_t block_bytes) {
  TMH_ASSERT(all != nullptr);
  add_block_tree(all, "tmh-bptree", block_bytes, durability, Levels::kPage);
  add<CoTree>(all, "tmh-cobtree", durability);
  add_block_tree(all, "tmh-snapshot-bptree", block_bytes, durability, Levels::kPage,
                 Isolation::kSnapshot);
  add_block_tree(all, "tmh-hybrid-bptree", block_bytes, durability, Levels::kHybrid);
  add<CoTree>(all, "tmh-hybrid-cobtree", durability, Levels::kHybrid);
  add<FieldBlockTree<kPageBytes>>(all, "tmh-fields-bptree", durability, Levels::kHybrid);
  add<FieldCoTree>(all, "tmh-fields-cobtree", durability, Levels::kHybrid);
}

}  // namespace tmh::bench
