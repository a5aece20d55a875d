// levels/page/views/tracking_choice.cpp -- choosing the tracking, by trial; giving it up.
#include "levels/page/views/tracking_choice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "levels/page/views/claim_kind.h"
#include "levels/page/views/engine_thread.h"
#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/files.h"

namespace tmh::page {

using platform::fail;

Errc TrackingChoice::choose(Tracking wanted, Detection detection) noexcept {
  if (const Errc error = find(wanted, detection); error != Errc::kOk) return error;
  kind_ = first_.tracking;
  chose_freely_ = wanted == Tracking::kAuto;
  return Errc::kOk;
}

void TrackingChoice::give_up(std::string reason) noexcept {
  TMH_ASSERT(may_give_up());
  kind_ = Tracking::kSignalHot;
  later_ = {kind_, std::move(reason)};
  report_.store(&later_, std::memory_order_release);
}

Errc TrackingChoice::find(Tracking wanted, Detection detection) noexcept {
  if (registers_touches(claim_kind(detection))) {
    if (wanted != Tracking::kAuto && wanted != Tracking::kSignal)
      return fail(Errc::kBadTracking,
                  std::string(to_string(wanted))
                      .append(" finds touches too late for this detection; use signal"));
    first_ = {Tracking::kSignal,
              "this detection must run code at every first touch, so each raises SIGSEGV"};
    (void)page_map_.open();
    return Errc::kOk;
  }
  if (wanted == Tracking::kSignal || wanted == Tracking::kSignalHot) {
    first_ = {wanted, "asked for"};
    // without it (a process that is not dumpable) pages of blocks are compared one by one
    (void)page_map_.open();
    return Errc::kOk;
  }
  const Errc permitted = open_kernel();
  if (permitted == Errc::kOk) {
    first_ = {wanted == Tracking::kAuto ? Tracking::kKernelHot : wanted,
              wanted == Tracking::kAuto ? "kernel lists first touches (perf page faults, "
                                          "userfaultfd WP_ASYNC, guards): the cheapest way"
                                        : "asked for"};
    return Errc::kOk;
  }
  if (wanted != Tracking::kAuto) return permitted;
  (void)page_map_.open();
  first_ = {Tracking::kSignalHot,
            "kernel tracking does not work here: " + platform::failure_detail()};
  return Errc::kOk;
}

Errc TrackingChoice::open_kernel() noexcept {
  if (const Errc error = page_map_.open(); error != Errc::kOk) return error;
  if (const Errc error = open_ring(); error != Errc::kOk) return error;
  if (const Errc error = store_faults_.open(); error != Errc::kOk) return error;
  return try_guards();
}

// Kernel versions and configurations say less than a trial: one page read must be listed alone, and
// guards must hold on a file view.
Errc TrackingChoice::try_guards() noexcept {
  constexpr std::size_t kTrialPages = 16;  // one fault-around window
  platform::FileDescriptor file(memfd_create("tmh-trial", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), kTrialPages * kPageBytes) != 0)
    return platform::fail_errno(Errc::kTrackingUnavailable, "memfd_create of a trial's pages");
  void *shared = mmap(nullptr, kTrialPages * kPageBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, file.get(), 0);
  void *view = platform::map_when_touched(nullptr, kTrialPages * kPageBytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  Errc result = Errc::kOk;
  if (shared == MAP_FAILED || view == MAP_FAILED)
    result = platform::fail_errno(Errc::kTrackingUnavailable, "mapping a trial's pages");
  else
    result = store_faults_.add(view, kTrialPages * kPageBytes);
  if (result == Errc::kOk) {
    (void)thread_ring().drain([](std::uintptr_t) {});
    (void)std::atomic_ref<std::uint64_t>(*static_cast<std::uint64_t *>(view))
        .load(std::memory_order_relaxed);
    std::size_t listed = 0;
    const auto base = reinterpret_cast<std::uintptr_t>(view);
    (void)thread_ring().drain([&](std::uintptr_t address) {
      listed += address - base < kTrialPages * kPageBytes ? 1 : 0;
    });
    platform::PageKind kinds[kTrialPages];
    std::size_t present = 0;
    if (page_map_.read(base, kTrialPages, kinds))
      for (const auto kind : kinds) present += kind != platform::PageKind::kAbsent ? 1 : 0;
    const auto ignore = [](void *, const platform::PageMap::Run &) {};
    if (listed != 1 || present != 1)
      result = fail(Errc::kTrackingUnavailable,
                    "a trial read of one page was not listed exactly once and alone");
    else if (!page_map_.scan(base, kTrialPages * kPageBytes, ignore, nullptr))
      result = fail(Errc::kTrackingUnavailable, "PAGEMAP_SCAN (Linux 6.7) is missing");
    else if (!platform::guard_install(view, kPageBytes) ||
             !platform::guard_remove(view, kPageBytes))
      result = fail(Errc::kTrackingUnavailable,
                    "MADV_GUARD_INSTALL on file views (Linux 6.15) is missing");
  }
  if (shared != MAP_FAILED) munmap(shared, kTrialPages * kPageBytes);
  if (view != MAP_FAILED) munmap(view, kTrialPages * kPageBytes);
  return result;
}

Errc TrackingChoice::open_ring() noexcept try {
  platform::FaultRing &ring = thread_ring();
  return ring.is_open() ? Errc::kOk : ring.open();
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the list of a thread's page faults");
}

}  // namespace tmh::page
