// tools/watched_work.h -- work that joins a domain and may have to wait for others: in a child
// process, whose parent says who is waited for, and gives up after a while.
// Why a child: what waits for a lock inside the library cannot be called back. A participant's
// death at any moment harms no participant.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/exit_code.h"

namespace tmh::tools {

// 'T' and 't': stopped by a signal, or by a debugger.
[[nodiscard]] bool is_stopped(std::int32_t pid);

struct LockHolder {
  std::int32_t pid = 0;
  std::string name;  // empty: of no participant
  // "the redo log's lock"; empty: it is stopped, and holds none of the locks that are looked at
  std::string lock;
  bool is_stopped = false;
  bool operator==(const LockHolder &) const = default;
};
// Holders of the locks that joining, checkpoints and copies take, and stopped participants. Reads
// only; empty when the files cannot be read.
[[nodiscard]] std::vector<LockHolder> lock_holders(const std::string &folder);

struct WatchPlan {
  std::string folder;              // of the domain
  double timeout_s = 0;            // 0: none
  std::function<void()> clean_up;  // after the timeout, when the child is dead
};
// In the child: returns what `work` returns, or throws it, so that the caller goes on there as if
// nothing had been forked. In the parent: returns the child's exit status, dies of the signal that
// killed it, or gives up, says so on standard error and returns kTimedOut.
// REQUIRES one thread, and no domain open here.
[[nodiscard]] Exit run_watched(const WatchPlan &plan, const std::function<Exit()> &work);

}  // namespace tmh::tools
