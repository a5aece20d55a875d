// levels/page/views/tracking_choice.h -- how an engine learns of first touches: what was asked for,
// what works here, and the kernel's interfaces for it.
// Sharing:   report(): any thread. Everything else: the engine's.
// Contexts:  NOT async-signal-safe, but what is inline.
// Source:    docs/mechanisms.md, "Ways to find first touches".
#pragma once

#include <atomic>
#include <string>

#include <tmh/error.hpp>
#include <tmh/options.hpp>

#include "platform/fault_ring.h"
#include "platform/page_tables.h"

namespace tmh::page {

class TrackingChoice {
 public:
  // kTrackingUnavailable when `wanted` is not permitted, kIo without descriptors, kBadTracking when
  // it does not fit the detection.
  [[nodiscard]] Errc choose(Tracking wanted, Detection detection) noexcept;
  // A thread's first instance: the list of its page faults. kTrackingUnavailable: the process has
  // dropped its privileges since the open, or entered a sandbox.
  [[nodiscard]] Errc open_ring() noexcept;
  // Was kernel tracking chosen here, not asked for, so that signals may take its place?
  [[nodiscard]] bool may_give_up() const noexcept {
    return kind_ == Tracking::kKernelHot && chose_freely_;
  }
  // From here on every touch raises SIGSEGV. Once. REQUIRES may_give_up().
  void give_up(std::string reason) noexcept;

  // acquire: pairs with the release in give_up()
  [[nodiscard]] const TrackingReport &report() const noexcept {
    return *report_.load(std::memory_order_acquire);
  }
  // Does the kernel list first touches?
  [[nodiscard]] bool is_silent() const noexcept {
    return kind_ == Tracking::kKernel || kind_ == Tracking::kKernelHot;
  }
  // Do pages stay mapped after their instance?
  [[nodiscard]] bool keeps() const noexcept {
    return kind_ == Tracking::kSignalHot || kind_ == Tracking::kKernelHot;
  }
  [[nodiscard]] platform::StoreFaults &store_faults() noexcept { return store_faults_; }
  [[nodiscard]] platform::PageMap &page_map() noexcept { return page_map_; }

 private:
  [[nodiscard]] Errc find(Tracking wanted, Detection detection) noexcept;
  [[nodiscard]] Errc open_kernel() noexcept;
  [[nodiscard]] Errc try_guards() noexcept;

  TrackingReport first_, later_;
  std::atomic<const TrackingReport *> report_{&first_};
  // *report_'s; of the thread that runs the instance.
  Tracking kind_ = Tracking::kAuto;
  // kind_ was chosen here, not asked for.
  bool chose_freely_ = false;
  platform::StoreFaults store_faults_;
  platform::PageMap page_map_;
};

}  // namespace tmh::page
