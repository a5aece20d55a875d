// tests/support/schedule.h -- processes that run one at a time, from one named point to the next: a
// given interleaving of the library's steps.
// Shape:     each actor is a process. It is held before its body, at each mark() of its body, and
//            at the numbered step (observe/steps.h) that it was told to run to. run(actor, to)
//            lets it go on until it is there, or has ended; everybody else stays where they are.
// Waiting:   an actor may have to wait for one that is held (right code often does). run() then
//            returns Reached::kWaits after a while of the actor's own time, slept or with a
//            processor: one that has none waits for nobody. It goes on by itself once it can. Right
//            code is not judged wrong for that: it only makes an interleaving another legal one.
// Sharing:   words in shared memory. The hook runs in the fault handler as well: it takes no lock
//            and allocates nothing.
// Source:    folly, test/DeterministicSchedule.h (turns in a given order). Here between processes,
//            at the library's own steps.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"

namespace tmh::test {

inline constexpr std::size_t kActorsMax = 4;
// Where an actor runs to: a step's number, mark(n), or its end.
inline constexpr std::uint32_t kMark0 = 1000, kToEnd = 2000;
[[nodiscard]] constexpr std::uint32_t to_mark(std::uint32_t number) noexcept {
  return kMark0 + number;
}
[[nodiscard]] constexpr std::uint32_t to_step(observe::Step step) noexcept {
  return static_cast<std::uint32_t>(step);
}

enum class Reached : std::uint8_t { kThere, kEnded, kWaits };
// Of an actor's own time. Longer than anything that it does between two points when nobody is in
// its way, also under a sanitizer.
inline constexpr std::chrono::milliseconds kWaitsAfter{250};

class Schedule {
 public:
  Schedule() = default;

  // Forks the actor; it is held before its body. Returns its number.
  std::size_t add(const std::string &name, const std::function<void()> &body);
  // For how long an actor that waits for another is waited for.
  Reached run(std::size_t actor, std::uint32_t to);
  // SIGKILL where it is held.
  void kill(std::size_t actor);
  // Lets everybody run to their ends; each that was not killed must succeed.
  void finish();

  // In an actor's body: held here when it was told to run to this mark.
  static void mark(std::uint32_t number) noexcept;

 private:
  struct ActorState {
    std::atomic<std::uint32_t> target;  // where it is to stop; kToEnd: nowhere
    std::atomic<std::uint32_t> held;    // 1: it is held there
    std::atomic<std::uint32_t> go;      // counts the permits to go on
    std::atomic<std::uint32_t> ended;
  };
  struct State {
    std::array<ActorState, kActorsMax> actors;
  };
  static void on_step(observe::Step step) noexcept;
  static void stop_at(std::uint32_t point) noexcept;
  static ActorState *self_;  // in an actor's process

  Shared<State> state_;
  Children children_;
  std::array<bool, kActorsMax> killed_{};
};

}  // namespace tmh::test
