// compat/libtp/interruption.cpp -- a word of the thread's.
#include "compat/libtp/interruption.h"

namespace tmh::tp {

namespace {
thread_local const std::atomic<bool> *ends_waits = nullptr;
}  // namespace

void end_waits_when(const std::atomic<bool> *is_over) noexcept { ends_waits = is_over; }
const std::atomic<bool> *end_of_waits() noexcept { return ends_waits; }

}  // namespace tmh::tp
