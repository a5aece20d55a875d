// levels/process/ground/die.h -- the end of a program whose memory is in no state to go on.
#pragma once

namespace tmh::itm::pages {

// Without the page, the task cannot go on. The reason, with errno's, and the process ends.
// Async-signal-safe, but for snprintf().
[[noreturn]] void die(const char *what) noexcept;
// The same of a program that the method cannot run, by the C library.
[[noreturn]] void refuse(const char *reason) noexcept;

}  // namespace tmh::itm::pages
