// compat/libtp/interruption.h -- the end of a server's thread: when its client is gone another
// thread ends its waits for locks; a transaction that it cannot end is given up.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>

namespace tmh::tp {

// Once *is_over is set, what the calling thread waits for, and will wait for, is late
// (TP_ETIMEOUT). Null: its waits end as they always do. REQUIRES: it outlives the thread's waits.
void end_waits_when(const std::atomic<bool> *is_over) noexcept;
[[nodiscard]] const std::atomic<bool> *end_of_waits() noexcept;
// The thread has no transaction then (tp_paper_txn()). What its abort has not undone others undo.
void give_transaction_up() noexcept;

}  // namespace tmh::tp
