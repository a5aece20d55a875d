// tests/power/faults.cpp -- the hook that makes operations fail.
#include "tests/power/faults.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace tmh::test::power {

void FaultPlan::arm(platform::DiskOp which, int with, const char *file,
                    std::uint32_t after) noexcept {
  error = with;
  skip = after;
  failed = passed = 0;
  std::size_t i = 0;
  for (; file[i] != '\0' && i + 1 < sizeof file_contains; ++i) file_contains[i] = file[i];
  file_contains[i] = '\0';
  op = static_cast<std::uint32_t>(which);  // last: the hook of another process may be looking
}

namespace {

FaultPlan *g_plan = nullptr;

int fail(const platform::DiskEvent &event) {
  FaultPlan &plan = *g_plan;
  if (plan.op.load() != static_cast<std::uint32_t>(event.op)) return 0;
  char part[sizeof plan.file_contains];
  for (std::size_t i = 0; i < sizeof part; ++i) part[i] = plan.file_contains[i].load();
  if (std::strstr(event.path, part) == nullptr &&
      (event.path2 == nullptr || std::strstr(event.path2, part) == nullptr))
    return 0;
  if (plan.skip.load() != 0) {
    plan.skip.fetch_sub(1);
    plan.passed.fetch_add(1);
    return 0;
  }
  plan.failed.fetch_add(1);
  return plan.error.load();
}

}  // namespace

void fail_as_planned(FaultPlan *plan) noexcept {
  g_plan = plan;
  platform::set_disk_hook(plan == nullptr ? nullptr : &fail);
}

}  // namespace tmh::test::power
