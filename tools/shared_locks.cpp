// tools/shared_locks.cpp -- tmh.locks, read as bytes.
#include "tools/shared_locks.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <unordered_map>

#include "platform/assert.h"
#include "tools/domain_files.h"
#include "tools/lock_bytes.h"
#include "tools/shared_counters.h"
#include "tools/shared_file.h"

namespace tmh::tools {

using lock::CellKind;
using lock::LockerCell;
using lock::LockHeader;
using lock::ObjectCell;
using lock::RequestCell;
using lock::RequestState;

namespace {

// What is unclear in so many readings is.
constexpr int kTries = 3;

// Who owns which lockers.
class Owners {
 public:
  explicit Owners(const SharedCounters &shared) {
    for (const ParticipantCounters &one : shared.participants)
      by_owner_[lock::owner_of(one.slot, one.incarnation)] = &one;
  }
  void tell(lock::Owner owner, SharedLocker *out) const {
    TMH_ASSERT(out != nullptr);
    if (owner == lock::Owner::kNobody) {
      out->state = SharedLocker::State::kDetached;
      return;
    }
    const auto found = by_owner_.find(owner);
    if (found == by_owner_.end()) return;
    out->pid = found->second->pid;
    out->process = found->second->name;
    if (found->second->is_alive) out->state = SharedLocker::State::kAlive;
  }

 private:
  std::map<lock::Owner, const ParticipantCounters *> by_owner_;
};

class Reading {
 public:
  Reading(const LockBytes &bytes, const Owners &owners) : owners_(owners) {
    out_.is_there = true;
    out_.modes = bytes.header<lock::ModeSet>(offsetof(LockHeader, modes));
    out_.totals = LockTotals(bytes);
    bytes.for_each_cell([this](std::uint32_t index, const std::byte *cell, std::size_t left) {
      read_cell(index, cell, left);
    });
    gather_objects();
  }
  [[nodiscard]] SharedLocks take() { return std::move(out_); }

 private:
  struct Found {
    std::uint32_t object;
    bool waits;
    SharedRequest request;
  };

  void read_cell(std::uint32_t index, const std::byte *cell, std::size_t left) {
    TMH_ASSERT(cell != nullptr && left >= sizeof(RequestCell));
    switch (field<CellKind>(cell, 0)) {
      case CellKind::kObject:
        objects_[index] = field<lock::ObjectId>(cell, offsetof(ObjectCell, object));
        return;
      case CellKind::kRequest:
        return read_request(cell);
      case CellKind::kLocker:
        if (left >= sizeof(LockerCell)) read_locker(index, cell);
        return;
      case CellKind::kFree:
      case CellKind::kFreeLocker:
      case CellKind::kLockerRest:
        return;
    }
  }
  void read_request(const std::byte *cell) {
    const auto state = field<RequestState>(cell, offsetof(RequestCell, state));
    if (state != RequestState::kHeld && state != RequestState::kWaiting) return;
    Found found{field<std::uint32_t>(cell, offsetof(RequestCell, object)),
                state == RequestState::kWaiting,
                {}};
    found.request.locker = field<std::uint32_t>(cell, offsetof(RequestCell, locker));
    found.request.mode = field<lock::Mode>(cell, offsetof(RequestCell, mode));
    found.request.count = field<std::uint32_t>(cell, offsetof(RequestCell, count));
    found.request.holds_object =
        field<std::uint32_t>(cell, offsetof(RequestCell, holds_object)) != 0;
    found.request.ticket = field<std::uint64_t>(cell, offsetof(RequestCell, ticket));
    requests_.push_back(found);
  }
  void read_locker(std::uint32_t index, const std::byte *cell) {
    SharedLocker &locker = out_.lockers[index];
    locker.name = field<std::uint64_t>(cell, offsetof(LockerCell, name));
    locker.is_transaction =
        field<lock::Succession>(cell, offsetof(LockerCell, succession)) == lock::Succession::kHeir;
    locker.waits_begun = field<std::uint32_t>(cell, offsetof(LockerCell, waits_begun));
    owners_.tell(field<lock::Owner>(cell, offsetof(LockerCell, owner)), &locker);
    out_.totals.add_locker(cell);
  }

  void gather_objects() {
    std::unordered_map<std::uint32_t, LockedObject> gathered;
    for (const Found &found : requests_) {
      const auto object = objects_.find(found.object);
      if (object == objects_.end() || out_.lockers.count(found.request.locker) == 0) {
        ++out_.unclear_count;
        continue;
      }
      LockedObject &to = gathered[found.object];
      to.id = object->second;
      (found.waits ? to.waiters : to.holders).push_back(found.request);
    }
    for (auto &[cell, object] : gathered) {
      std::sort(object.holders.begin(), object.holders.end(),
                [](const SharedRequest &one, const SharedRequest &other) {
                  return std::tuple(one.locker, one.mode) < std::tuple(other.locker, other.mode);
                });
      std::sort(object.waiters.begin(), object.waiters.end(),
                [](const SharedRequest &one, const SharedRequest &other) {
                  return std::tuple(!one.holds_object, one.ticket) <
                         std::tuple(!other.holds_object, other.ticket);
                });
      out_.objects.push_back(std::move(object));
    }
    std::sort(out_.objects.begin(), out_.objects.end(),
              [](const LockedObject &one, const LockedObject &other) {
                return std::tuple(one.id.space, one.id.id) <
                       std::tuple(other.id.space, other.id.id);
              });
  }

  const Owners &owners_;
  std::unordered_map<std::uint32_t, lock::ObjectId> objects_;
  std::vector<Found> requests_;
  SharedLocks out_;
};

// Locker -> those for whom it waits, as HeldBucket::for_each_blocker() says it.
using WaitsFor = std::map<std::uint32_t, std::set<std::uint32_t>>;

WaitsFor waits_for(const SharedLocks &locks) {
  WaitsFor graph;
  for (const LockedObject &object : locks.objects) {
    for (std::size_t i = 0; i < object.waiters.size(); ++i) {
      const SharedRequest &waiter = object.waiters[i];
      const std::uint32_t excluders = locks.modes.excluders(waiter.mode);
      std::set<std::uint32_t> &blockers = graph[waiter.locker];
      for (const SharedRequest &holder : object.holders)
        if ((excluders & lock::ModeSet::bit(holder.mode)) != 0) blockers.insert(holder.locker);
      if (i > 0) blockers.insert(object.waiters[i - 1].locker);
      blockers.erase(waiter.locker);
    }
  }
  return graph;
}

class CycleSearch {
 public:
  explicit CycleSearch(const WaitsFor &graph) : graph_(graph) {
    for (const auto &[locker, blockers] : graph_) search(locker);
  }
  [[nodiscard]] std::vector<SharedLocks::Cycle> take() { return std::move(cycles_); }

 private:
  struct Step {
    std::uint32_t locker;
    std::set<std::uint32_t>::const_iterator next, end;
  };
  void enter(std::uint32_t locker) {
    const auto waits = graph_.find(locker);
    if (waits == graph_.end() || !seen_.insert(locker).second) return;
    way_.push_back({locker, waits->second.begin(), waits->second.end()});
    on_way_.insert(locker);
  }
  void search(std::uint32_t from) {
    TMH_ASSERT(way_.empty());
    enter(from);
    while (!way_.empty()) {
      if (way_.back().next == way_.back().end) {
        on_way_.erase(way_.back().locker);
        way_.pop_back();
        continue;
      }
      const std::uint32_t next = *way_.back().next++;
      if (on_way_.count(next) != 0)
        add_cycle(next);
      else
        enter(next);
    }
  }
  void add_cycle(std::uint32_t first) {
    const auto begin = std::find_if(way_.begin(), way_.end(),
                                    [&](const Step &step) { return step.locker == first; });
    TMH_ASSERT(begin != way_.end());
    const auto is_told = [&](const Step &step) { return told_.count(step.locker) != 0; };
    if (std::any_of(begin, way_.end(), is_told)) return;
    SharedLocks::Cycle &cycle = cycles_.emplace_back();
    for (auto step = begin; step != way_.end(); ++step) {
      cycle.push_back(step->locker);
      told_.insert(step->locker);
    }
  }

  const WaitsFor &graph_;
  std::vector<Step> way_;
  std::set<std::uint32_t> on_way_, seen_, told_;
  std::vector<SharedLocks::Cycle> cycles_;
};

// Does it stand in a later reading, too? Who waits gets no lock and gives none back, so all of it
// was there between the two.
bool is_real(const SharedLocks::Cycle &cycle, const SharedLocks &before, const SharedLocks &later,
             const WaitsFor &later_graph) {
  TMH_ASSERT(!cycle.empty());
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const auto waits = later_graph.find(cycle[i]);
    if (waits == later_graph.end() || waits->second.count(cycle[(i + 1) % cycle.size()]) == 0 ||
        later.lockers.at(cycle[i]).waits_begun != before.lockers.at(cycle[i]).waits_begun)
      return false;
  }
  return true;
}

SharedLocks read_once(const std::string &folder, std::uint64_t life, const Owners &owners) {
  const LockBytes bytes(folder);
  return bytes.is_of(life) ? Reading(bytes, owners).take() : SharedLocks();
}

}  // namespace

SharedLocks read_locks(const std::string &folder) {
  const SharedCounters shared = read_counters(folder);
  if (!shared.has_state) return {};  // what lies there is of an earlier life
  const std::uint64_t life = read_control(folder)->header.life;
  const Owners owners(shared);
  SharedLocks locks = read_once(folder, life, owners);
  for (int tries = 1; tries < kTries && locks.unclear_count != 0; ++tries)
    locks = read_once(folder, life, owners);
  std::vector<SharedLocks::Cycle> cycles = CycleSearch(waits_for(locks)).take();
  if (cycles.empty()) return locks;
  const SharedLocks later = read_once(folder, life, owners);
  const WaitsFor later_graph = waits_for(later);
  for (SharedLocks::Cycle &cycle : cycles)
    if (is_real(cycle, locks, later, later_graph)) locks.cycles.push_back(std::move(cycle));
  return locks;
}

std::optional<lock::ModeSet> read_lock_modes(const std::string &folder) {
  const LockBytes bytes(folder);
  if (!bytes.is_of(read_control(folder)->header.life)) return std::nullopt;
  return bytes.header<lock::ModeSet>(offsetof(LockHeader, modes));
}

}  // namespace tmh::tools
