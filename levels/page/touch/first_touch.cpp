// levels/page/touch/first_touch.cpp -- answering faults, and taking advice.
#include "levels/page/touch/first_touch.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "levels/page/views/views.h"
#include "observe/steps.h"
#include "platform/failure.h"
#include "platform/file_mappings.h"
#include "platform/protection_keys.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using platform::StrayCause;
using storage::Count;
using storage::page_id;
using storage::PageIndex;

constinit thread_local EngineThread engine_thread __attribute__((tls_model("initial-exec")));

platform::FaultAnswer FirstTouch::on_fault(void *context, const platform::Fault &fault) noexcept {
  View &view = *static_cast<View *>(context);
  FirstTouch &self = *view.touches;
  const Instance &instance = self.mine_.instance;
  if (platform::fork_generation() != self.fork_generation_) {
    report_stray(view, fault, StrayCause::kForkedChild);
    return platform::FaultAnswer::kForeign;
  }
  if (engine_thread.running != &instance) {
    if (fault.has_no_block && self.report_missing(view, fault))
      return platform::FaultAnswer::kForeign;
    report_stray(view, fault, StrayCause::kOutside);
    return platform::FaultAnswer::kForeign;
  }
  if (fault.has_no_right) {
    report_stray(view, fault,
                 instance.is_query && fault.is_write ? StrayCause::kStoreInQuery
                                                     : StrayCause::kSignalHandler);
    return platform::FaultAnswer::kForeign;
  }
  return self.answer(view, fault) ? platform::FaultAnswer::kRetry : platform::FaultAnswer::kForeign;
}

// Of the running instance.
bool FirstTouch::answer(View &view, const platform::Fault &fault) noexcept {
  const platform::OpenKey open(mine_.views.key());  // a handler begins without access
  const std::uint64_t index =
      (fault.address - reinterpret_cast<std::uintptr_t>(view.base)) / kPageBytes;
  if (mine_.instance.is_query && fault.is_write && mine_.instance.query_wrote == 0)
    mine_.instance.query_wrote = fault.address;
  mine_.instance.own.add(Count::kFaultsSignal, 1);
  const PageId page = page_id(view.segment, PageIndex{index});
  const bool is_open =
      fault.has_no_block ? stand_ins_.touch_hole(view, page) : touch(view, page, fault.is_write);
  if (!is_open && fault.has_no_block && !report_missing(view, fault))
    report_stray(view, fault, StrayCause::kBehindEnd);
  return is_open;
}

// False: behind the segment's end, which is no fault of its file.
bool FirstTouch::report_missing(const View &view, const platform::Fault &fault) const noexcept {
  const std::uint64_t offset = fault.address - reinterpret_cast<std::uintptr_t>(view.base);
  return offset < ours_.memory.segment_size(view.segment).load(std::memory_order_acquire) &&
         platform::report_missing(fault.address, fault.is_write);
}

void FirstTouch::report_stray(const View &view, const platform::Fault &fault,
                              StrayCause cause) noexcept {
  const std::uint64_t offset = fault.address - reinterpret_cast<std::uintptr_t>(view.base);
  platform::report({cause, fault.is_write, fault.address, view.name.c_str(), offset});
}

// False: the page is open already as far as this engine knows, so the fault has another cause.
bool FirstTouch::touch(View &view, PageId page, bool is_write) noexcept {
  step(Step::kTouchStart);
  LocalPage &l = mine_.views.local(page);
  if ((l.lists & kStandsIn) != 0)  // a query's, which stores: the end tells
    return is_write && mine_.instance.is_query &&
           mprotect(mine_.views.address_of(page), kPageBytes, PROT_READ | PROT_WRITE) == 0;
  bool is_open = true;
  if (mine_.tracking.is_silent()) {
    if (l.state != PageState::kGuarded && !mine_.views.is_closed(l)) return false;
    opener_.open_guarded(view, page);
  } else {
    if (l.state == PageState::kPrivate || (l.state != PageState::kAbsent && !is_write))
      return false;
    is_open = opener_.open(view, page, is_write);
  }
  step(Step::kTouchDone);
  return is_open;
}

bool FirstTouch::advice_helps(PageState state, bool is_write) noexcept {
  switch (state) {
    case PageState::kAbsent:
    case PageState::kGuarded:
      return true;
    case PageState::kFile:
    case PageState::kReadOnly:
      return is_write;
    case PageState::kPrivate:
    case PageState::kClean:
      break;
  }
  return false;
}

bool FirstTouch::advise(std::uintptr_t begin, std::uint64_t bytes, bool is_write) noexcept {
  const View *found = mine_.views.find(begin);
  if (found == nullptr) return false;
  View &view = mine_.views.of(found->segment);
  const std::uint64_t offset = begin - reinterpret_cast<std::uintptr_t>(view.base);
  std::uint64_t index = offset / kPageBytes;
  // The common case first: one page that is open already.
  if (offset % kPageBytes + bytes <= kPageBytes && !advice_helps(view.pages[index].state, is_write))
    return true;
  if (bytes == 0 || (mine_.instance.is_query && is_write)) return true;
  // a query's view is read-only to the program, not to the engine
  const platform::OpenKey open(mine_.views.key());
  const std::uint64_t usable =
      ours_.memory.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t end = std::min(usable, (offset + bytes - 1) / kPageBytes + 1);
  while (index < end) {
    const PageState state = view.pages[index].state;
    const PageId page = page_id(view.segment, PageIndex{index});
    if (!advice_helps(state, is_write)) {
      ++index;
    } else if (!mine_.tracking.is_silent() || state == PageState::kGuarded ||
               mine_.views.is_closed(view.pages[index])) {
      (void)touch(view, page, is_write);
      ++index;
    } else {
      std::uint64_t count = 1;
      while (index + count < end && view.pages[index + count].state != PageState::kGuarded &&
             !mine_.views.is_closed(view.pages[index + count]) &&
             advice_helps(view.pages[index + count].state, is_write))
        ++count;
      mine_.touches.populate(page, count, is_write);
      index += count;
    }
  }
  return true;
}

void FirstTouch::vacate() noexcept {
  mine_.views.vacate();
  ahead_.forget();
}

Errc FirstTouch::give_up_kernel_tracking() noexcept {
  if (!mine_.tracking.may_give_up()) return Errc::kTrackingUnavailable;
  std::string reason = "kernel tracking does not work here any more: " + platform::failure_detail();
  vacate();
  mine_.views.forget_guards();
  mine_.tracking.give_up(std::move(reason));
  if (const Errc error = mine_.views.remap(); error != Errc::kOk) {
    platform::write_sentence(
        "tmh: a segment cannot be mapped again, for want of areas or memory; the first of them at",
        reinterpret_cast<std::uintptr_t>(mine_.views.of(mine_.views.mapped().front()).base));
    std::abort();
  }
  return Errc::kOk;
}

}  // namespace tmh::page
