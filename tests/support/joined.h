// tests/support/joined.h -- a participant of a domain's shared memory, without a Domain: for tests
// of single parts of level 2.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "levels/page/shared/reaper.h"
#include "levels/page/shared/shared_files.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/shared_lock.h"

namespace tmh::test {

inline void expect_ok(Errc error) {
  if (error != Errc::kOk) throw std::runtime_error(platform::failure_detail());
}

// Never leaves: a later one finds it dead when its process has ended.
struct Joined {
  page::SharedFiles memory;
  std::uint32_t slot = 0;

  explicit Joined(const std::string &folder) {
    platform::FolderLock lock;
    bool is_fresh = false;
    expect_ok(lock.acquire(folder + "/tmh.lock"));
    expect_ok(memory.open(lock.held(), folder, 0, 0, &is_fresh));
    expect_ok(memory.attach_slot(lock.held(), "joined", &slot));
  }
  [[nodiscard]] storage::Participant &self() const { return memory.participant(slot); }
  [[nodiscard]] platform::LockTag tag() const {
    return platform::lock_tag(slot, self().incarnation.load());
  }
};

// With the domain lock, whose heir is a reaper that knows no estate yet.
struct Heir : Joined {
  using Joined::Joined;
  page::Reaper reaper{memory, slot};
  page::DomainLock lock{memory, tag(), reaper};
};

}  // namespace tmh::test
