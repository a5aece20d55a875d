// bench/support/team.h -- several processes that start together.
// Shape:     each member prepares (opens the domain, maps, warms up), waits at the barrier, works,
//            and leaves one result in memory shared with the parent. The measured time runs from
//            the first member through the barrier to the last finish, as the parent of the thesis's
//            two-process tests would see it.
// Sharing:   a member that fails before the barrier would leave the others waiting; the parent then
//            kills its members.
// Source:    thesis, section 4.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

namespace tmh::bench {

inline constexpr unsigned kTeamMembersMax = 64;

// Anonymous memory shared with children; zeroed. Throws std::system_error.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory &) = delete;
  SharedMemory &operator=(const SharedMemory &) = delete;
  [[nodiscard]] void *data() const noexcept { return data_; }

 private:
  void *data_;
  std::size_t bytes_;
};

// One value of T, shared with children that are forked later.
template <class T>
class Shared {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Shared() : memory_(sizeof(T)), value_(::new (memory_.data()) T()) {}
  [[nodiscard]] T *operator->() const noexcept { return value_; }
  [[nodiscard]] T &operator*() const noexcept { return *value_; }

 private:
  SharedMemory memory_;
  T *value_;
};

// What a member calls between its preparation and its work, and after its work. Closing a domain is
// no part of either.
class TeamClock {
 public:
  virtual ~TeamClock() = default;
  virtual void start() const = 0;   // waits for the others
  virtual void finish() const = 0;  // takes the time only; without it, the member's return counts
  // Waits for the others and takes no time; all members call it equally often.
  virtual void meet() const = 0;
};

// Forks `count` processes that run member(index, clock); returns nanoseconds from the first start
// to the last finish. Throws std::runtime_error when a member throws (its message goes to standard
// error) or dies.
double run_team_ns(unsigned count,
                   const std::function<void(unsigned index, const TeamClock &clock)> &member);

// One process that only has to end well, e.g. to check a result without making the caller a
// participant.
inline void run_alone(const std::function<void()> &body) {
  (void)run_team_ns(1, [&](unsigned, const TeamClock &clock) {
    clock.start();
    body();
  });
}

}  // namespace tmh::bench
