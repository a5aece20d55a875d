// levels/lock/waits_for.cpp -- a depth-first search through the lock table.
#include "levels/lock/waits_for.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <unordered_set>

#include "levels/lock/held_bucket.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "platform/mapped_memory.h"

namespace tmh::lock {

namespace {
constexpr int kUnrealMax = 100;
}  // namespace

// The proof that no other look runs.
class WaitsFor::OneLook {
 public:
  explicit OneLook(LockFile &file) noexcept : file_(file) {
    // What a dead one has found is found again.
    (void)file.header().look_lock.lock(file.tag(), LockFile::holder_alive, &file);
    file.header().looks.fetch_add(1, std::memory_order_relaxed);
  }
  OneLook(const OneLook &) = delete;
  OneLook &operator=(const OneLook &) = delete;
  ~OneLook() { file_.header().look_lock.unlock(); }

 private:
  LockFile &file_;
};

bool WaitsFor::read(CellIndex locker, Wait *out, Lockers *blockers) const {
  const LockerCell &cell = file_.locker(locker);
  if (cell.kind.load(std::memory_order_acquire) != CellKind::kLocker) return false;
  const std::uint32_t begun = cell.waits_begun.load(std::memory_order_acquire);
  const CellIndex index = cell.waits_for.load(std::memory_order_acquire);
  if (index == CellIndex::kNone || file_.kind(index) != CellKind::kRequest) return false;
  const RequestCell &request = file_.request(index);
  const std::uint32_t number = request.bucket.load(std::memory_order_relaxed);
  if (number >= kBuckets) return false;
  const HeldBucket bucket(file_, cells_, CellIndex::kNone, number);
  // Still in this bucket: then it is under its lock, too.
  if (request.state.load(std::memory_order_acquire) != RequestState::kWaiting ||
      request.bucket.load(std::memory_order_relaxed) != number ||
      request.locker.load(std::memory_order_relaxed) != locker ||
      cell.waits_begun.load(std::memory_order_relaxed) != begun)
    return false;
  *out = {locker, index, begun};
  blockers->clear();
  bucket.for_each_blocker(index, [&](CellIndex blocker) { blockers->push_back(blocker); });
  return true;
}

bool WaitsFor::find_cycle(CellIndex from, std::pmr::memory_resource *memory, Cycle *out) const {
  std::pmr::vector<Step> way(memory);
  std::pmr::unordered_set<std::uint32_t> seen(memory);
  const auto enter = [&](CellIndex locker) {
    Step step{{}, Lockers(memory)};
    if (seen.insert(static_cast<std::uint32_t>(locker)).second &&
        read(locker, &step.wait, &step.blockers))
      way.push_back(std::move(step));
  };
  enter(from);
  while (!way.empty()) {
    Step &last = way.back();
    if (last.next == last.blockers.size()) {
      way.pop_back();
      continue;
    }
    const CellIndex next = last.blockers[last.next++];
    const auto on_way = std::find_if(way.begin(), way.end(),
                                     [&](const Step &step) { return step.wait.locker == next; });
    if (on_way == way.end()) {
      enter(next);
      continue;
    }
    out->clear();
    std::for_each(on_way, way.end(), [&](const Step &step) { out->push_back(step.wait); });
    return true;
  }
  return false;
}

bool WaitsFor::is_real(const Cycle &cycle) const {
  TMH_ASSERT(!cycle.empty());
  Lockers blockers(cycle.get_allocator().resource());
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    Wait again;
    const CellIndex next = cycle[(i + 1) % cycle.size()].locker;
    if (!read(cycle[i].locker, &again, &blockers) || again.begun != cycle[i].begun ||
        std::find(blockers.begin(), blockers.end(), next) == blockers.end())
      return false;
  }
  return std::all_of(cycle.begin(), cycle.end(), [&](const Wait &wait) {
    return file_.request(wait.request).state.load(std::memory_order_acquire) ==
               RequestState::kWaiting &&
           file_.locker(wait.locker).waits_begun.load(std::memory_order_acquire) == wait.begun;
  });
}

WaitsFor::Wait WaitsFor::choose(const Cycle &cycle, Victim policy) const noexcept {
  TMH_ASSERT(!cycle.empty());
  // The least is the victim.
  const auto rank = [&](const Wait &wait) {
    const LockerCell &locker = file_.locker(wait.locker);
    const auto age = static_cast<std::int64_t>(locker.age.load(std::memory_order_relaxed));
    const std::int64_t locks = locker.held.load(std::memory_order_relaxed);
    const std::int64_t writes = locker.held_writes.load(std::memory_order_relaxed);
    std::int64_t first = 0;
    switch (policy) {
      case Victim::kYoungest:
        break;
      case Victim::kOldest:
        first = age;
        break;
      case Victim::kFewestLocks:
        first = locks;
        break;
      case Victim::kMostLocks:
        first = -locks;
        break;
      case Victim::kFewestWriteLocks:
        first = writes;
        break;
      case Victim::kMostWriteLocks:
        first = -writes;
        break;
      case Victim::kLowestPriority:
        first = locker.priority.load(std::memory_order_relaxed);
        break;
    }
    const bool is_never = locker.priority.load(std::memory_order_relaxed) == kNeverVictim;
    return std::tuple(is_never, first, -age);
  };
  return *std::min_element(cycle.begin(), cycle.end(), [&](const Wait &one, const Wait &other) {
    return rank(one) < rank(other);
  });
}

bool WaitsFor::fail(const Wait &wait) noexcept {
  const RequestCell &request = file_.request(wait.request);
  const std::uint32_t number = request.bucket.load(std::memory_order_relaxed);
  if (number >= kBuckets) return false;
  HeldBucket bucket(file_, cells_, CellIndex::kNone, number);
  if (request.state.load(std::memory_order_acquire) != RequestState::kWaiting ||
      request.bucket.load(std::memory_order_relaxed) != number ||
      request.locker.load(std::memory_order_relaxed) != wait.locker ||
      file_.locker(wait.locker).waits_begun.load(std::memory_order_relaxed) != wait.begun)
    return false;
  bucket.fail(wait.request);
  return true;
}

std::uint32_t WaitsFor::look(CellIndex locker, Victim policy) {
  std::uint32_t failed = 0;
  platform::MappedMemory mapped;
  std::pmr::monotonic_buffer_resource memory(&mapped);
  Cycle cycle(&memory);
  // Cycles that were not real are looked at again later, too.
  for (int unreal = 0; unreal < kUnrealMax && find_cycle(locker, &memory, &cycle);) {
    if (!is_real(cycle)) {
      ++unreal;
      continue;
    }
    const Wait victim = choose(cycle, policy);
    // Before it fails: then it may end at once.
    const std::uint64_t name = file_.locker(victim.locker).name.load(std::memory_order_relaxed);
    if (fail(victim)) {
      ++failed;
      observe::probe::deadlock(name, cycle.size());
    }
    if (!observe::is_planted(observe::Planted::kTwoVictims)) continue;
    if (std::any_of(cycle.begin(), cycle.end(), [&](const Wait &wait) { return fail(wait); }))
      ++failed;
  }
  return failed;
}

std::uint32_t WaitsFor::look_from(CellIndex locker, Victim policy) noexcept try {
  const OneLook one(file_);
  return look(locker, policy);
} catch (const std::bad_alloc &) {
  return 0;
}

std::uint32_t WaitsFor::look_everywhere(Victim policy) noexcept try {
  const OneLook one(file_);
  std::uint32_t failed = 0;
  const std::uint32_t capacity = file_.capacity();
  for (std::uint32_t i = 1; i < capacity; ++i)
    if (file_.kind(CellIndex{i}) == CellKind::kLocker) failed += look(CellIndex{i}, policy);
  return failed;
} catch (const std::bad_alloc &) {
  return 0;
}

}  // namespace tmh::lock
