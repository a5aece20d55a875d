// compat/libtp/interruption.h -- a thread's waits for locks, ended by another thread: a server ends
// those of a client that is gone.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>

namespace tmh::tp {

// Once *is_over is set, what the calling thread waits for, and will wait for, is late
// (TP_ETIMEOUT). Null: its waits end as they always do. REQUIRES: it outlives the thread's waits.
void end_waits_when(const std::atomic<bool> *is_over) noexcept;
[[nodiscard]] const std::atomic<bool> *end_of_waits() noexcept;

}  // namespace tmh::tp
