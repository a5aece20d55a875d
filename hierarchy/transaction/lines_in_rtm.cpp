// hierarchy/transaction/lines_in_rtm.cpp -- begin, commit, and what follows an abort.
#include "hierarchy/transaction/lines_in_rtm.h"

#include <immintrin.h>

#include "hierarchy/transaction/line_attempts.h"
#include "hierarchy/transaction/rtm_aborts.h"
#include "levels/line/rtm_update.h"
#include "observe/probes.h"
#include "platform/assert.h"

namespace tmh::detail {

using line::AbortCode;
using line::AbortStatus;

namespace {

// Others were in the way so often: software asks who, and waits for it.
constexpr std::uint32_t kTriesMax = 4;
// A commit in software that has locked a line takes 0.1 to 1 us.
constexpr int kPauses = 16;

}  // namespace

bool LinesInRtm::begin(SiteInstance &instance) {
  LineDomain &lines = *instance.domain().lines();
  TMH_ASSERT(!current().at_level_1() && current().hardware.on_lines == nullptr);
  Errc error = Errc::kOk;
  line::SoftwareThread *const thread = lines.thread(&error);
  std::uint32_t tries = 0, zeros = 0;
  while (thread != nullptr) {
    instance.start_timing();
    observe::probe::begin(observe::probe::kLines, 0, observe::probe::kUpdateInRtm);
    AbortStatus status{};
    if (line::RtmUpdate(*thread).begin(&status)) {
      current().hardware.domain = &lines;
      current().hardware.on_lines = thread;
      current().hardware.depth = 1;
      return true;
    }
    count(instance, status);
    const Then then = after(status, &tries, &zeros);
    if (then == Then::kInSoftwareFromNowOn) instance.site().learn_rtm(false);
    if (then != Then::kAgain) break;
    for (int i = 0; i < kPauses; ++i) _mm_pause();
  }
  instance.failed(hierarchy::Failed::kInRtm);
  return false;
}

void LinesInRtm::end(SiteInstance &instance) {
  HardwareRun &run = current().hardware;
  TMH_ASSERT(run.depth == 1 && run.on_lines != nullptr);
  line::SoftwareThread &thread = *run.on_lines;
  run.depth = 0;
  run.on_lines = nullptr;
  line::RtmUpdate(thread).commit();  // an abort comes back in begin()
  observe::probe::commit(observe::probe::kLines, thread.rv, 0);
  instance.site().learn_rtm(true);
  LineAttempts::end_committed(instance, thread, SiteCount::kHardwareCommits,
                              LatencyLevel::kHardware);
}

LinesInRtm::Then LinesInRtm::after(AbortStatus status, std::uint32_t *tries,
                                   std::uint32_t *zeros) noexcept {
  switch (line::code_of(status)) {
    case AbortCode::kUpperHolds:     // software asks for the page
    case AbortCode::kExclusiveHeld:  // ... waits for its turn
      return Then::kInSoftware;
    case AbortCode::kLineLocked:
      break;
    case AbortCode::kNeedsPages:  // once in many, software has a pool filled
      if (line::need_of(status) == Need::kPoolAllocate) return Then::kInSoftware;
      return Then::kInSoftwareFromNowOn;
    case AbortCode::kNone:
      if (line::has(status, line::kStatusCapacity)) return Then::kInSoftwareFromNowOn;
      if (!line::has(status, line::kStatusConflict) && !line::has(status, line::kStatusRetry))
        return ++*zeros < kZeroAbortsMax ? Then::kAgain : Then::kInSoftwareFromNowOn;
      break;
    default:  // the body does what RTM cannot; or a snapshot, or the disk, leaves a ring no room
      return Then::kInSoftwareFromNowOn;
  }
  return ++*tries < kTriesMax ? Then::kAgain : Then::kInSoftware;
}

void LinesInRtm::count(SiteInstance &instance, AbortStatus status) noexcept {
  const Counted counted = counted_as(status);
  const auto status_bits = static_cast<std::uint32_t>(status);
  observe::probe::hardware_abort(status_bits, status_bits >> 24);
  SiteImpl &site = instance.site();
  site.add(counted.of_site, 1);
  site.add(SiteCount::kLineAborts, 1);
  instance.domain().lines()->directory().hardware().add(counted.of_domain);
  instance.count_time_of_failed();
  site.record(instance.timed(), LatencyLevel::kHardware, line::cause_of(status));
}

}  // namespace tmh::detail
