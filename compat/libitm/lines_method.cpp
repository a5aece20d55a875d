// compat/libitm/lines_method.cpp -- the long ways of accesses: private memory, any size; what is
// kept of memory that only the transaction knows; begin, and becoming irrevocable.
#include "compat/libitm/lines_method.h"

#include <algorithm>
#include <cstring>

#include "compat/libitm/alone_method.h"

namespace tmh::itm {

namespace {

constexpr std::uint64_t kIncarnation = 1;  // of participants: the process is the only one

// How many of the bytes from `at` lie in its line.
std::size_t in_line(std::uintptr_t at, std::size_t bytes) noexcept {
  return std::min(bytes, kLineBytes - at % kLineBytes);
}

}  // namespace

void LinesMethod::attach(void *owner) noexcept {
  if (slot_ == nullptr) return;
  is_usable_ = level_1.attach(0, kIncarnation) == Errc::kOk;
  level_1.show_snapshot_at(&slot_->snapshot);
  slot_->owner = owner;
  slot_->window_bytes.store(&level_1.bytes, std::memory_order_release);  // pairs with wait_for()
}

bool LinesMethod::detach() noexcept {
  if (is_usable_) level_1.detach();
  if (slot_ == nullptr) return false;
  Gate::give_back(*slot_);
  return true;
}

void LinesMethod::begin(std::uint32_t attempt) noexcept {
  TMH_ASSERT(is_usable_);
  if (attempt != 0) [[unlikely]]
    level_1.wait_to_begin_again(attempt);
  level_1.let_go_first_briefly();
  // Before the first load: what runs in hardware without barriers aborts now.
  if (process_.method == Method::kRtm) [[unlikely]]
    process_.gate.enter_software();
  while (!process_.gate.try_enter(*slot_, process_.memory.state().clock)) [[unlikely]] {
      level_1.give_way();  // the lone thread waits for those that wait for this one
      process_.gate.wait_until_nobody_is_alone();
    }
  begin_inside(attempt);
}

void LinesMethod::abandon() noexcept {
  if (level_1.is_running()) level_1.abandon();
}

bool LinesMethod::go_alone(AloneMethod &alone) {
  TMH_ASSERT(level_1.is_running());
  level_1.give_way();  // those that it is going to wait for may wait for it
  if (!alone.try_begin(slot_)) return false;
  // A commit of what has only read does not look whether that is still so.
  if (!level_1.extend() || !level_1.try_commit()) {
    alone.leave();
    return false;
  }
  leave();
  level_1.shut();
  return true;
}

void LinesMethod::load_block(void *to, std::uintptr_t from, std::size_t bytes) {
  auto *out = static_cast<std::byte *>(to);
  for (std::size_t ahead = kLineBytes; ahead < bytes; ahead += kLineBytes)
    __builtin_prefetch(reinterpret_cast<const void *>(from + ahead));
  while (bytes != 0) {
    const std::size_t part = in_line(from, bytes);
    level_1.load_block(out, from, static_cast<std::uint32_t>(part));
    out += part;
    from += part;
    bytes -= part;
  }
}

void LinesMethod::store(PrivateMemory &memory, std::uintptr_t to, const void *from,
                        std::size_t bytes) {
  const auto *in = static_cast<const std::byte *>(from);
  while (bytes != 0) {
    bool is_private = false;
    std::size_t part = in_line(to, bytes);
    const bool may_be_private = memory.meets_line(to / kLineBytes * kLineBytes);
    if (may_be_private) [[unlikely]]
      part = memory.first_part(to, part, &is_private);
    TMH_ASSERT(part != 0 && part <= bytes);
    if (is_private) {
      if (memory.is_nested()) memory.save(to, part);
      std::memcpy(reinterpret_cast<void *>(to), in, part);
    } else {
      if (!level_1.store_block(to, in, static_cast<std::uint32_t>(part)))
        std::memcpy(reinterpret_cast<void *>(to), in, part);
      if (may_be_private) level_1.leave_newest();
    }
    in += part;
    to += part;
    bytes -= part;
  }
}

bool LinesMethod::copy(PrivateMemory &memory, std::uintptr_t to, std::uintptr_t from,
                       std::size_t bytes) {
  const std::uintptr_t distance = to > from ? to - from : from - to;
  if (distance < bytes + kLineBytes || bytes == 0 || std::max(to, from) >= line::kProcessBytes ||
      bytes > line::kProcessBytes - std::max(to, from) || memory.may_meet(to, bytes))
    return false;
  level_1.copy_lines(to, from, bytes);
  return true;
}

void LinesMethod::log_local(PrivateMemory &memory, std::uintptr_t at, std::size_t bytes) {
  while (bytes != 0) {
    std::size_t part = in_line(at, bytes);
    TMH_ASSERT(part != 0 && part <= bytes);
    if (const std::size_t in_frames = memory.first_part_of_frames(at, part); in_frames != 0) {
      part = in_frames;
      memory.save(at, part);
    } else if (level_1.has_locked(at)) {
      level_1.open_process_line(at);
      level_1.keep(at, static_cast<std::uint32_t>(part));
      if (memory.meets_line(at / kLineBytes * kLineBytes)) level_1.leave_newest();
    } else {
      memory.save(at, part);
      if (!memory.has_range(at, part)) note_private(memory, at, part);
    }
    at += part;
    bytes -= part;
  }
}

}  // namespace tmh::itm
