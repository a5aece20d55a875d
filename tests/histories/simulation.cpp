// tests/histories/simulation.cpp -- the simulated engine and its scheduler.
#include "tests/histories/simulation.h"

#include <algorithm>
#include <random>

namespace tmh::history {

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class Simulation {
 public:
  Simulation(const SimulationOptions &options, std::uint64_t seed)
      : options_(options), random_(seed), versions_(options.cells), actors_(options.processes) {
    for (auto &versions : versions_) versions.push_back({0, 0});
    for (Actor &actor : actors_) actor.process = next_process_++;
  }

  History run() {
    while (true) {
      Actor &actor = actors_[pick(actors_.size())];
      ++now_;
      if (actor.phase == Phase::kIdle && history_.instances.size() >= options_.instances_max) {
        const bool all_idle = std::all_of(actors_.begin(), actors_.end(),
                                          [](const Actor &a) { return a.phase == Phase::kIdle; });
        if (all_idle) break;
        continue;
      }
      step(&actor);
    }
    read_everything();
    return std::move(history_);
  }

 private:
  enum class Phase : std::uint8_t { kIdle, kStamped, kRunning, kEnding, kDecided };

  struct Version {
    std::uint64_t clock;
    Value value;
  };

  struct Actor {
    std::uint32_t process = 0, next_number = 0;
    std::uint64_t next_value = 1;
    Phase phase = Phase::kIdle;
    std::size_t instance = kNone;  // in history_
    std::uint64_t snapshot = 0;
    std::uint32_t accesses_left = 0;
    std::uint32_t steps_to_kill = 0;  // 0: survives
    std::map<Cell, Value> first_reads, writes;
    bool committed = false;
  };

  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  bool chance(std::uint32_t percent) { return random_() % 100 < percent; }
  Instance &record(const Actor &actor) { return history_.instances[actor.instance]; }

  void step(Actor *actor) {
    if (actor->phase != Phase::kIdle && actor->steps_to_kill != 0 && --actor->steps_to_kill == 0)
      return die(actor);
    switch (actor->phase) {
      case Phase::kIdle:
        return stamp_begin(actor);
      case Phase::kStamped:
        return take_snapshot(actor);
      case Phase::kRunning:
        return actor->accesses_left-- > 0 ? access(actor) : void(actor->phase = Phase::kEnding);
      case Phase::kEnding:
        return decide(actor);
      case Phase::kDecided:
        return stamp_end(actor);
    }
  }

  void stamp_begin(Actor *actor) {
    Instance instance;
    instance.id = {actor->process, actor->next_number++};
    instance.begin_ns = now_ * 1000;
    instance.kind = chance(options_.query_percent) ? Kind::kQuery : Kind::kUpdate;
    instance.is_snapshot = instance.kind == Kind::kUpdate && options_.snapshot_percent != 0 &&
                           chance(options_.snapshot_percent);
    instance.outcome = Outcome::kUnknown;
    actor->instance = history_.instances.size();
    history_.instances.push_back(instance);
    actor->accesses_left = 1 + static_cast<std::uint32_t>(pick(options_.operations_max));
    actor->steps_to_kill = chance(options_.kill_percent)
                               ? 1 + static_cast<std::uint32_t>(pick(actor->accesses_left + 4))
                               : 0;
    actor->first_reads.clear();
    actor->writes.clear();
    actor->committed = false;
    actor->phase = Phase::kStamped;
  }

  void take_snapshot(Actor *actor) {
    actor->snapshot = clock_;
    if (options_.defect == Defect::kStaleSnapshot && record(*actor).kind == Kind::kQuery) {
      // Far enough that the missing commits ended before this begin.
      constexpr std::uint64_t kBehind = 20;
      actor->snapshot = clock_ - std::min(clock_, kBehind);
    }
    actor->phase = Phase::kRunning;
  }

  void access(Actor *actor) {
    const Cell cell = pick(options_.cells);
    const Value seen = load(*actor, cell);
    actor->first_reads.try_emplace(cell, seen);
    record(*actor).operations.push_back(read(cell, seen));
    if (record(*actor).kind == Kind::kQuery || !chance(options_.write_percent)) return;
    const Value fresh = unique_value(actor->process, actor->next_value++);
    actor->writes[cell] = fresh;
    record(*actor).operations.push_back(write(cell, fresh));
  }

  Value load(const Actor &actor, Cell cell) {
    if (const auto own = actor.writes.find(cell); own != actor.writes.end()) return own->second;
    if (options_.defect == Defect::kDirtyWrites) {
      for (const Actor &other : actors_) {
        if (&other == &actor || other.phase == Phase::kIdle || other.committed) continue;
        if (const auto dirty = other.writes.find(cell); dirty != other.writes.end())
          return dirty->second;
      }
    }
    const auto &versions = versions_[cell];
    if (options_.defect == Defect::kMovingSnapshot) return versions.back().value;
    const auto newer = std::partition_point(
        versions.begin(), versions.end(),
        [&](const Version &version) { return version.clock <= actor.snapshot; });
    return std::prev(newer)->value;
  }

  bool valid(const Actor &actor) {
    if (options_.defect == Defect::kNoValidation) return true;
    return std::all_of(actor.first_reads.begin(), actor.first_reads.end(), [&](const auto &entry) {
      const bool reads_stay = options_.defect != Defect::kNoReadValidation &&
                              !history_.instances[actor.instance].is_snapshot;
      if (!reads_stay && actor.writes.count(entry.first) == 0) return true;
      return versions_[entry.first].back().value == entry.second;
    });
  }

  void decide(Actor *actor) {
    if (record(*actor).kind == Kind::kUpdate && valid(*actor)) apply(actor, actor->writes.size());
    actor->phase = Phase::kDecided;
  }

  void apply(Actor *actor, std::size_t writes_max) {
    ++clock_;
    for (const auto &[cell, value] : actor->writes) {
      if (writes_max-- == 0) break;
      versions_[cell].push_back({clock_, value});
    }
    actor->committed = true;
  }

  void stamp_end(Actor *actor) {
    Instance &instance = record(*actor);
    instance.end_ns = now_ * 1000;
    instance.outcome =
        instance.kind == Kind::kQuery || actor->committed ? Outcome::kCommitted : Outcome::kAborted;
    actor->phase = Phase::kIdle;
  }

  // Its place is taken by a new process.
  void die(Actor *actor) {
    const bool at_end = actor->phase == Phase::kEnding && record(*actor).kind == Kind::kUpdate;
    if (at_end && options_.defect == Defect::kHalfCommitWhenKilled && valid(*actor))
      apply(actor, 1);
    *actor = Actor{};
    actor->process = next_process_++;
  }

  void read_everything() {
    Instance query;
    query.begin_ns = ++now_ * 1000;
    query.end_ns = ++now_ * 1000;
    query.kind = Kind::kQuery;
    for (Cell cell = 0; cell < options_.cells; ++cell)
      query.operations.push_back(read(cell, versions_[cell].back().value));
    history_.instances.push_back(query);
  }

  SimulationOptions options_;
  std::mt19937_64 random_;
  std::vector<std::vector<Version>> versions_;  // per cell, clock ascending
  std::vector<Actor> actors_;
  History history_;
  std::uint64_t clock_ = 0, now_ = 0;
  std::uint32_t next_process_ = 1;  // 0 is the final query's
};

}  // namespace

History simulate(const SimulationOptions &options, std::uint64_t seed) {
  return Simulation(options, seed).run();
}

}  // namespace tmh::history
