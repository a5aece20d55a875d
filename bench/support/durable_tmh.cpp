// bench/support/durable_tmh.cpp -- this library as a contestant: an unmodified std::map in a segment.
// Set-up:  everything by default: one heap segment, tracking, policy and group commit automatic (the environment's TMH_TRACKING,
//          TMH_POLICY and TMH_GROUP_COMMIT are obeyed), the map is the segment's root.
//          tmh           strict: durable at return
//          tmh-buffered  acknowledged before it is durable; not comparable, shows what the wait costs
//          tmh-none      no log at all; shows what the transactions cost without durability
// Retries: attempts that the library undid because another process committed a page that they had read.
#include <functional>
#include <map>

#include <tmh/tmh.hpp>

#include "bench/support/durable_contestant.h"
#include "bench/support/modes.h"

namespace tmh::bench {

namespace {

using Map = std::map<std::uint64_t, Value, std::less<>, allocator<std::pair<const std::uint64_t, Value>>>;

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
      for (const Record &record : records) map_->emplace(record.key, record.value);
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

class Tmh final : public Contestant {
 public:
  explicit Tmh(const Mode &mode)
      : Contestant(mode.name, mode.durability == Durability::kNone ? CountsLog::kNo : CountsLog::kOfEverybody, true,
                   durability_note(mode.durability)),
        mode_(mode) {}
  void create(const std::string &folder, const Plan &) override { (void)TmhSession(mode_, folder); }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<TmhSession>(mode_, folder);
  }

 private:
  Mode mode_;
};

}  // namespace

void add_tmh(Contestants *all) {
  for (const auto &[name, durability] :
       {std::pair{"tmh", Durability::kStrict}, std::pair{"tmh-buffered", Durability::kBuffered},
        std::pair{"tmh-none", Durability::kNone}}) {
    Mode mode{name};
    mode.durability = durability;
    all->push_back(std::make_unique<Tmh>(mode));
  }
}

}  // namespace tmh::bench
