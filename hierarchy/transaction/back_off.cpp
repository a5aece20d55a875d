// hierarchy/transaction/back_off.cpp -- spinning or sleeping between attempts.
#include "hierarchy/transaction/back_off.h"

#include <immintrin.h>
#include <time.h>

#include "hierarchy/transaction/policies.h"
#include "platform/assert.h"
#include "platform/process.h"
#include "platform/ticks.h"

namespace tmh::detail {

namespace {
// Sleeping for less takes 50 us more than asked for.
constexpr std::uint64_t kSleptNsMin = 50'000;

// Spreads processes and threads and needs no quality. Without a state, which forked processes would
// share.
std::uint64_t random_ns(std::uint64_t bound) noexcept {
  TMH_ASSERT(bound > 0);
  return ((platform::ticks() * 0x9e37'79b9'7f4a'7c15) >> 32) % bound;
}
}  // namespace

void back_off(const Policy &policy, std::uint32_t attempts, bool others_progressed) noexcept {
  const std::uint64_t bound =
      hierarchy::backoff_ns_max(policy.backoff, attempts, policy.backoff_us_max, others_progressed);
  if (bound == 0) return;
  const std::uint64_t wait_ns = random_ns(bound);
  if (wait_ns >= kSleptNsMin) {
    const timespec wait{0, static_cast<long>(wait_ns)};
    nanosleep(&wait, nullptr);
    return;
  }
  const std::uint64_t until = platform::monotonic_ns() + wait_ns;
  while (platform::monotonic_ns() < until) _mm_pause();
}

}  // namespace tmh::detail
