// compat/libtp/managers.cpp -- numbers that no later life draws again.
#include "compat/libtp/managers.h"

#include "compat/libtp/waits.h"
#include "platform/assert.h"
#include "platform/failure.h"

namespace tmh::tp {

namespace {
// Numbers are promised to a next life in portions: an instance now and then.
constexpr std::uint64_t kNumbersAhead = std::uint64_t{1} << 24;
}  // namespace

void throw_unless_ok(Errc error) {
  if (error == Errc::kOk) return;
  // Locks that are not free are no failures, and leave no detail.
  const bool has_detail =
      error != Errc::kLockBusy && error != Errc::kLockTimeout && error != Errc::kDeadlock;
  throw Error(error, has_detail ? platform::failure_detail() : "other lockers are before this one");
}

void Managers::await_log() const {
  if (!is_durable()) return;
  Waits(locks().file()).count(lock::WaitCause::kLog, [&] { domain_.flush(); });
}

std::uint64_t Managers::draw_id() {
  const std::uint64_t id = locks().file().next_number();
  if (id + kNumbersAhead / 2 < numbers_kept_.load(std::memory_order_relaxed)) return id;
  const std::uint64_t kept = chains_.run([&](Fields) {
    ChainHeader &header = chains_.header();
    if (id + kNumbersAhead / 2 >= header.numbers) header.numbers = id + kNumbersAhead;
    return header.numbers.load();
  });
  TMH_ASSERT(kept > id);
  numbers_kept_.store(kept, std::memory_order_relaxed);
  return id;
}

std::uint64_t Managers::draw_lsn() {
  const std::uint64_t lsn = locks().file().next_number();
  // A transaction that has logged more than draw_id() has promised for it: in the instance that
  // uses the number.
  if (lsn > numbers_kept_.load(std::memory_order_relaxed) && lsn > chains_.header().numbers)
    chains_.header().numbers = lsn;
  return lsn;
}

}  // namespace tmh::tp
