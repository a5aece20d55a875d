// platform/stray_access.h -- the one message about an access to a segment that no instance covers.
// Shape:     hierarchy knows the thread's state and says it through a function; an engine, or the
//            table of ranges that have gone, knows the place and names it. The process then dies
//            at the instruction, or its own handler decides.
// Contexts:  report(): async-signal-safe: write(2), gettid(2), atomics. The others: not in a
//            handler.
#pragma once

#include <cstdint>

namespace tmh::platform {

// Why the access is wrong; the message ends with what to do.
enum class StrayCause : std::uint8_t {
  kOutside,  // this thread runs no instance, or none that uses these views
  kStoreInQuery,
  kSignalHandler,  // a handler that interrupts an instance
  kForkedChild,
  kBehindEnd,  // of the segment, where its file ends
  kGone,       // the segment is unmapped, or its domain closed
};

struct StrayAccess {
  StrayCause cause = StrayCause::kOutside;
  bool is_write = false;
  std::uintptr_t address = 0;
  const char *segment = "";  // its name
  std::uint64_t offset = 0;  // in the segment
};

// What this thread does, for the message. `where` and `remedy`: null: nothing special. `site`: the
// name of the one that began last; null: none.
struct ThreadState {
  const char *where = nullptr;
  const char *remedy = nullptr;
  const char *site = nullptr;
};
void tell_thread_state_by(ThreadState (*function)() noexcept) noexcept;

void report(const StrayAccess &access) noexcept;

// A view has gone: a thread that touches its addresses later is told so. A new range at such an
// address makes it forget.
inline constexpr std::uint32_t kGoneViewsMax = 64;
void remember_gone_view(std::uintptr_t begin, std::uint64_t bytes, const char *name) noexcept;
void forget_gone_views(std::uintptr_t begin, std::uint64_t bytes) noexcept;
// Reports, if a view that has gone lay there. Async-signal-safe.
void report_if_gone(std::uintptr_t address, bool is_write) noexcept;

}  // namespace tmh::platform
