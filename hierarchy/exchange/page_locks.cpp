// hierarchy/exchange/page_locks.cpp -- locking pages, and giving them back.
#include "hierarchy/exchange/page_locks.h"

#include <utility>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::detail {

namespace {
// Segments' numbers are small: tp.h's users lock {segment, page}.
constexpr std::uint64_t kPageSpace = std::uint64_t{1} << 32;
// Then the instance is asked whether it still wants it; one that cannot fail asks others to end.
constexpr lock::Patience kPatience{50'000'000}, kPatienceOfWinner{1'000'000};
}  // namespace

// A locker's name is its participant's slot, and one.
Errc PageLocks::prepare(bool cannot_fail) noexcept {
  if (locker_ == lock::LockerId{}) {
    TMH_TRY(table_.begin(std::uint64_t{slot_} + 1, &locker_));
  } else if (std::exchange(is_renewed_, false)) {
    TMH_ASSERT(!has_locks_);
    table_.renew(locker_, std::uint64_t{slot_} + 1);
  }
  if (!cannot_fail || cannot_fail_) return Errc::kOk;
  cannot_fail_ = true;
  return table_.set_priority(locker_, lock::kNeverVictim);
}

Errc PageLocks::lock(const Wanted &wanted, std::uint32_t *blocker) noexcept {
  TMH_ASSERT(blocker != nullptr);
  TMH_TRY(prepare(wanted.cannot_fail));
  has_locks_ = true;
  lock::Order order{lock::Order::What::kLock,
                    {kPageSpace + storage::segment_number(wanted.page),
                     static_cast<std::uint64_t>(storage::page_index(wanted.page))},
                    wanted.is_write ? lock::Mode::kExclusive : lock::Mode::kShared};
  std::size_t failed = 0;
  std::uint64_t holder = 0;
  const Errc error = table_.lock_vector(
      locker_, {&order, 1}, wanted.cannot_fail ? kPatienceOfWinner : kPatience, &failed, &holder);
  *blocker = holder == 0 ? kNoParticipant : static_cast<std::uint32_t>(holder - 1);
  return error;
}

void PageLocks::give_back(bool has_committed) noexcept {
  if (has_committed) is_renewed_ = true;
  if (std::exchange(cannot_fail_, false)) (void)table_.set_priority(locker_, 0);
  if (std::exchange(has_locks_, false)) (void)table_.unlock_all(locker_);
}

void PageLocks::end() noexcept {
  TMH_ASSERT(!has_locks_);
  if (locker_ != lock::LockerId{}) table_.end(std::exchange(locker_, {}));
}

}  // namespace tmh::detail
