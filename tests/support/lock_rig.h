// tests/support/lock_rig.h -- a lock table without a domain: participants in shared memory, and who
// joins as one of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "levels/lock/lock.h"
#include "storage/participants.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

class LockRig {
 public:
  explicit LockRig(const lock::ModeSet &modes = lock::ModeSet::hierarchical()) : modes_(modes) {}

  // This process is a participant from now on, and has the table. In forked children, too.
  std::unique_ptr<lock::LockTable> join(lock::Heir *heir = nullptr);
  [[nodiscard]] std::string path() const { return folder_.path() + "/tmh.locks"; }

  // REQUIRES: no other participant uses the table. No locker, no request and no object is left; and
  // each cell is free, in exactly one list.
  static void expect_empty(lock::LockTable &table);

 private:
  // As in a domain, so that any slot can be looked at. All zeros at first, and not touched.
  struct Participants {
    std::atomic<std::uint32_t> count;
    storage::Participant of[storage::kParticipantsMax];
  };

  const lock::ModeSet modes_;
  MemoryFolder folder_;
  SharedBytes participants_{sizeof(Participants)};
};

}  // namespace tmh::test
