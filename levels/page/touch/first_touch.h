// levels/page/touch/first_touch.h -- first touches of pages that an engine learns of before they
// happen: by SIGSEGV (signal tracking, guarded pages), or by the program's advice.
// Contexts:  on_fault(): the handler. It reaches SharedLock (atomics, futex),
//            ConsistencyTree::has_version/read/repair, AccessTable, /proc reads of platform::alive
//            (open, read, close, kill), fallocate and lseek where blocks are asked for, StandIns',
//            mprotect, madvise, mmap-free lists and twins. None takes a user-space lock that this
//            thread could hold: the engine never touches an inaccessible page itself.
// Source:    thesis, sections 3.1 (figure 3-1) and 3.3.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/page_opener.h"
#include "levels/page/touch/run_ahead.h"
#include "levels/page/touch/stand_ins.h"
#include "levels/page/views/views.h"
#include "platform/fault_handler.h"
#include "platform/process.h"
#include "platform/stray_access.h"

namespace tmh::page {

class FirstTouch {
 public:
  // All outlive it.
  FirstTouch(const Ours &ours, Mine &mine, StandIns &stand_ins, PageOpener &opener,
             RunAhead &ahead) noexcept
      : ours_(ours), mine_(mine), stand_ins_(stand_ins), opener_(opener), ahead_(ahead) {}

  // Answers the faults of the engine's views.
  [[nodiscard]] Views::Faults faults() noexcept { return {this, on_fault}; }
  // The program will touch these bytes. False: the address belongs to no view.
  [[nodiscard]] bool advise(std::uintptr_t begin, std::uint64_t bytes, bool is_write) noexcept;
  // The views are as if never used, whatever stands at their addresses from now on.
  void vacate() noexcept;
  // A thread's faults may not be listed any more: the process has dropped its privileges since the
  // open, or entered a sandbox. Where `auto` has chosen, every touch raises SIGSEGV from here on,
  // in all threads. kTrackingUnavailable: it has not. REQUIRES: no instance is running.
  [[nodiscard]] Errc give_up_kernel_tracking() noexcept;

 private:
  static platform::FaultAnswer on_fault(void *context, const platform::Fault &fault) noexcept;
  // The file of the view lacks something where the program may touch it, and a sentence says what.
  // Else false.
  [[nodiscard]] bool report_missing(const View &view, const platform::Fault &fault) const noexcept;
  static void report_stray(const View &view, const platform::Fault &fault,
                           platform::StrayCause cause) noexcept;
  [[nodiscard]] bool answer(View &view, const platform::Fault &fault) noexcept;
  [[nodiscard]] bool touch(View &view, PageId page, bool is_write) noexcept;
  [[nodiscard]] static bool advice_helps(PageState state, bool is_write) noexcept;

  const Ours &ours_;
  Mine &mine_;
  StandIns &stand_ins_;
  PageOpener &opener_;
  RunAhead &ahead_;
  std::uint32_t fork_generation_ = platform::fork_generation();
};

}  // namespace tmh::page
