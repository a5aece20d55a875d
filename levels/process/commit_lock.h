// levels/process/commit_lock.h -- the lock of commits and of the log.
// Deaths:    the next holder inherits it from a dead one, and finishes what that one published.
#pragma once

namespace tmh::itm::pages {

// Held while it lives. NOT async-signal-safe; a task takes it once.
class CommitLock {
 public:
  CommitLock() noexcept;
  ~CommitLock();
  CommitLock(const CommitLock &) = delete;
  CommitLock &operator=(const CommitLock &) = delete;
};

}  // namespace tmh::itm::pages
