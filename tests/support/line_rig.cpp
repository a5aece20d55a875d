// tests/support/line_rig.cpp -- opens it.
#include "tests/support/line_rig.h"

#include <signal.h>
#include <unistd.h>

#include <stdexcept>

#include "levels/line/recovery.h"
#include "platform/failure.h"
#include "platform/process.h"

namespace tmh::test {

namespace {

void expect_ok(Errc error, const char *what) {
  if (error != Errc::kOk) throw Error(error, std::string(what) + ": " + platform::failure_detail());
}

}  // namespace

void FairAbove::suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  shared_->suspected.fetch_add(1, std::memory_order_relaxed);
  if (slot >= kRigSlotsMax || kill(shared_->pids[slot].load(std::memory_order_relaxed), 0) == 0) return;
  const auto alive = [](void *context, platform::LockTag holder) noexcept {
    const auto *rig = static_cast<const RigShared *>(context);
    const std::uint32_t who = platform::slot_of(holder);
    return who < kRigSlotsMax && kill(rig->pids[who].load(std::memory_order_relaxed), 0) == 0;
  };
  static_cast<void>(shared_->domain_lock.lock(platform::lock_tag(slot_, LineRig::kIncarnation), alive, shared_));
  static_cast<void>(line::recover_contexts(memory_, slot, incarnation));
  shared_->domain_lock.unlock();
}

LineRig::LineRig(const std::string &folder, std::uint64_t bytes, RigShared *shared, std::uint32_t slot) : slot_(slot) {
  expect_ok(home_.open(folder + "/line.data", 0, bytes, bytes, true), "home");
  bool found = false;
  expect_ok(memory_.open(folder, &found), "line memory");
  expect_ok(memory_.add_segment({0, home_.base(), bytes, bytes, &home_}), "segment");
  if (shared == nullptr) return;
  shared->pids[slot].store(getpid(), std::memory_order_relaxed);
  fair_.emplace(memory_, shared, slot);
  upper_ = &*fair_;
}

line::LineWord &LineRig::word_of(const void *address) noexcept {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte *>(address) - view());
  return memory_.segment(0).words[offset / kLineBytes];
}

RigThread::RigThread(LineRig &rig) : RigThread(rig, rig.upper()) {}

RigThread::RigThread(LineRig &rig, line::Upper &upper) : SoftwareThread(rig.memory(), upper) {
  expect_ok(attach(rig.slot(), LineRig::kIncarnation), "context");
}

}  // namespace tmh::test
