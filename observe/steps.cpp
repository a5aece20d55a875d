// observe/steps.cpp -- arming and passing numbered steps.
#include "observe/steps.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "platform/assert.h"

namespace tmh::observe {

namespace {
constinit std::atomic<std::uint32_t> armed_step{kStepCount};
constinit std::atomic<std::uint32_t> armed_count{0};
constinit std::atomic<StepHook> hook{nullptr};

void update_watch() noexcept {
  const bool watched = armed_step.load(std::memory_order_relaxed) != kStepCount ||
                       hook.load(std::memory_order_relaxed) != nullptr;
  detail::steps_watched.store(watched, std::memory_order_relaxed);
}
}  // namespace

namespace detail {
constinit std::atomic<bool> steps_watched{false};

void passed(Step s) noexcept {
  TMH_ASSERT(static_cast<std::uint32_t>(s) < kStepAndGapCount);
  if (StepHook call = hook.load(std::memory_order_acquire)) call(s);
  if (static_cast<std::uint32_t>(s) != armed_step.load(std::memory_order_relaxed)) return;
  if (armed_count.fetch_sub(1, std::memory_order_relaxed) == 1) kill(getpid(), SIGKILL);
}
}  // namespace detail

const char *step_name(Step s) noexcept {
  static constexpr const char *kNames[] = {
#define TMH_STEP_NAME(id, name) name,
      TMH_STEPS(TMH_STEP_NAME) TMH_GAPS(TMH_STEP_NAME)
#undef TMH_STEP_NAME
  };
  static_assert(std::size(kNames) == kStepAndGapCount);
  return static_cast<std::uint32_t>(s) < kStepAndGapCount ? kNames[static_cast<std::uint32_t>(s)]
                                                          : "none";
}

void crash_at(std::uint32_t s, std::uint32_t count) noexcept {
  armed_count.store(count, std::memory_order_relaxed);
  armed_step.store(s, std::memory_order_relaxed);
  update_watch();
}

bool crash_at_environment() noexcept {
  const char *text = std::getenv("TMH_CRASH_AT");
  if (text == nullptr || *text == '\0') return true;
  std::string_view spec(text);
  std::uint32_t count = 1;
  if (const auto colon = spec.find(':'); colon != std::string_view::npos) {
    count = static_cast<std::uint32_t>(std::strtoul(text + colon + 1, nullptr, 10));
    spec = spec.substr(0, colon);
  }
  for (std::uint32_t s = 0; s < kStepAndGapCount; ++s) {
    if (spec == step_name(static_cast<Step>(s))) {
      crash_at(s, count == 0 ? 1 : count);
      return true;
    }
  }
  return false;
}

void set_step_hook(StepHook call) noexcept {
  hook.store(call, std::memory_order_release);
  update_watch();
}

}  // namespace tmh::observe
