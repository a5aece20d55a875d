// tests/support/line_rig.cpp -- opens it.
#include "tests/support/line_rig.h"

#include <stdexcept>

#include "levels/line/recovery.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"

namespace tmh::test {

namespace {

void expect_ok(Errc error, const char *what) {
  if (error != Errc::kOk) throw Error(error, std::string(what) + ": " + platform::failure_detail());
}

}  // namespace

bool RigShared::is_alive(std::uint32_t slot) const noexcept {
  return slot < kRigSlotsMax && platform::alive({pids[slot].load(), start_times[slot].load()});
}

void FairAbove::suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  shared_->suspected.fetch_add(1, std::memory_order_relaxed);
  if (shared_->is_alive(slot)) return;
  const auto is_holder_alive = [](void *context, platform::LockTag holder) noexcept {
    return static_cast<const RigShared *>(context)->is_alive(platform::slot_of(holder));
  };
  // Inherited or not: the recovery does whatever is left to do.
  static_cast<void>(shared_->domain_lock.lock(platform::lock_tag(slot_, LineRig::kIncarnation),
                                              is_holder_alive, shared_));
  static_cast<void>(line::recover_contexts(memory_, slot, incarnation));
  shared_->domain_lock.unlock();
}

LineRig::LineRig(const std::string &folder, std::uint64_t bytes, RigShared *shared,
                 std::uint32_t slot)
    : slot_(slot) {
  platform::FolderLock lock;
  expect_ok(lock.acquire(folder + "/lock"), "folder lock");
  expect_ok(home_.open(folder + "/line.data", 0, bytes, bytes, true), "home");
  bool found = false;
  expect_ok(memory_.open(folder, &found), "line memory");
  expect_ok(memory_.add_segment({0, home_.base(), bytes, bytes, &home_}), "segment");
  if (shared == nullptr) return;
  platform::ProcessId self;
  if (!platform::this_process(&self)) throw std::runtime_error("/proc/self/stat cannot be read");
  shared->start_times[slot].store(self.start_time);
  shared->pids[slot].store(self.pid);
  fair_.emplace(memory_, shared, slot);
  releaser_ = &*fair_;
}

line::LineWord &LineRig::word_of(const void *address) noexcept {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte *>(address) - view());
  return memory_.segment(0).words[offset / kLineBytes];
}

RigThread::RigThread(LineRig &rig) : RigThread(rig, rig.releaser()) {}

RigThread::RigThread(LineRig &rig, line::Releaser &releaser)
    : SoftwareThread(rig.memory(), releaser) {
  expect_ok(attach(rig.slot(), LineRig::kIncarnation), "context");
}

}  // namespace tmh::test
