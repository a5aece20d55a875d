// levels/page/keep_policy.cpp -- when kept pages are dropped.
#include "levels/page/keep_policy.h"

#include <algorithm>

namespace tmh::page {

namespace {
// Beyond these, keeping pages costs more memory and comparisons than it saves faults.
constexpr std::size_t kKeptPagesMax = 16384;
constexpr std::size_t kPrivatePagesMax = 4096;
// Kept pages are a superset of what is read. The period after which they are dropped halves at each
// conflict (1: exact) and doubles after this many quiet commits; 65,536 bounds how long a page that
// is no longer used can cause false conflicts.
constexpr std::uint32_t kCalmCommits = 64;
constexpr std::uint64_t kKeepPeriodMax = 1u << 16;
}  // namespace

bool KeepPolicy::drops_at(End end, std::size_t kept, std::size_t written,
                          bool many_areas) noexcept {
  const bool conflicted = end == End::kConflict;
  ++quiet_ends_;
  if (steady_ends_ < kSteadyEnds) ++steady_ends_;
  if (conflicted) {
    keep_period_ = std::max<std::uint64_t>(1, keep_period_ / 2);
    calm_commits_ = 0;
  } else if (++calm_commits_ == kCalmCommits) {
    keep_period_ = std::min(kKeepPeriodMax, keep_period_ * 2);
    calm_commits_ = 0;
  }
  const bool too_many = kept > kKeptPagesMax || written > kPrivatePagesMax || many_areas;
  if (!conflicted && !too_many && quiet_ends_ < keep_period_) return false;
  quiet_ends_ = 0;
  return true;
}

}  // namespace tmh::page
