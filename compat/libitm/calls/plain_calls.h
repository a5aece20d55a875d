// compat/libitm/calls/plain_calls.h -- how a call of the C library's uses the program's memory: it
// is made plain first, and stays so until the call is over.
// Shape:     while the call runs, a request for pages leaves its memory alone (CallInProgress). One
//            that finds the call before the kernel has it, or about to be started again, ends it
//            with EINTR and takes all; here the call is made again. So the kernel never finds
//            memory gone that it was given: of what it delivers, much would be lost (a datagram, an
//            event's count, a connection).
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

// Several large buffers at once may push each other out.
inline constexpr int kTriesMax = 16;

inline void loads(const void *at, std::size_t bytes) noexcept {
  if (at != nullptr && is_started()) make_plain(at, bytes, false);
}
inline void stores(const void *at, std::size_t bytes) noexcept {
  if (at != nullptr && is_started()) make_plain(at, bytes, true);
}
inline void loads(const char *text) noexcept {
  if (text != nullptr && is_started()) make_plain(text, std::strlen(text) + 1, false);
}

// What a call does behind a handler of the program's with SA_RESTART (signal(7)). Without it, all
// end.
enum class AfterHandler { kGoesOn, kEnds };

// What has interrupted the thread since this was made.
class Interruption {
 public:
  explicit Interruption(AfterHandler after) noexcept : after_(after) {}
  [[nodiscard]] bool is_by_handler() const noexcept {
    const Interruptions now = interruptions();
    return after_ == AfterHandler::kGoesOn ? now.ending_handlers != before_.ending_handlers
                                           : now.handlers != before_.handlers;
  }
  // A call that says EINTR is made again.
  [[nodiscard]] bool is_by_request() const noexcept {
    return is_started() && interruptions().requests != before_.requests && !is_by_handler();
  }

 private:
  AfterHandler after_;
  Interruptions before_ = interruptions();
};

// wait(interruption): where the call would wait, waits without the program's memory. False: a
// handler ends the call. prepare(): makes plain what the call uses.
template <class Wait, class Prepare, class Call>
auto with_plain_memory(Wait wait, Prepare prepare, Call call) -> decltype(call()) {
  const Interruption interruption(AfterHandler::kGoesOn);
  for (int tries = 1;;) {
    if (!wait(interruption)) return errno = EINTR, -1;
    const CallInProgress progress(CallInProgress::Kind::kRepeated);
    prepare();
    const auto result = call();
    if (result != -1 || !is_started()) return result;
    if (errno == EINTR && interruption.is_by_request()) continue;
    TMH_ASSERT(tries <= kTriesMax);
    if (errno != EFAULT || tries++ == kTriesMax) return result;
  }
}
inline constexpr auto no_wait = [](const Interruption &) { return true; };
template <class Prepare, class Call>
auto with_plain_memory(Prepare prepare, Call call) -> decltype(call()) {
  return with_plain_memory(no_wait, prepare, call);
}

}  // namespace tmh::itm::pages
