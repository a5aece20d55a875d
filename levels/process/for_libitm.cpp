// levels/process/for_libitm.cpp -- transactions, with what they may do beside.
#include "levels/process/for_libitm.h"

#include <cstdio>
#include <iterator>

#include "levels/process/alone.h"
#include "levels/process/control.h"
#include "levels/process/for_tasks.h"
#include "levels/process/ground/ground.h"
#include "levels/process/memory.h"
#include "levels/process/rights.h"

namespace tmh::itm::pages {

namespace {

std::uint32_t marks_open = 0;
bool was_guarded = false;  // the transaction around the marks

void close_mark() {
  TMH_ASSERT(marks_open != 0);
  if (--marks_open == 0) static_cast<void>(guard_transaction(was_guarded));
}

}  // namespace

bool must_be_alone() { return self().is_stack_shared.load(std::memory_order_seq_cst) != 0; }

bool is_on_own_stack(std::uintptr_t stack) {
  return Memory::stack_slot_of(Memory::page_of(stack)) == self_slot;
}

void begin(std::uintptr_t stack, std::uint32_t attempt, bool may_be_cancelled) {
  start_view();
  Transaction::begin(stack, attempt);
  marks_open = 0;
  static_cast<void>(guard_transaction(!may_be_cancelled));
}

void begin_alone() {
  TMH_ASSERT(!is_running_inside);
  start_view();
  be_alone();
  count(Count::kAlone);
}

void mark(std::uintptr_t stack) {
  if (marks_open++ == 0) was_guarded = guard_transaction(false);  // it may be cancelled
  Transaction::mark();
  Transaction::save_stack_of_mark(stack);
}

int open_own_work() {
  const Rights before = current_rights();
  set_rights(Rights::kBoth);
  return static_cast<int>(before);
}
void close_own_work(int before) {
  TMH_ASSERT(0 <= before && before <= static_cast<int>(Rights::kBoth));
  set_rights(static_cast<Rights>(before));
}

void drop_mark() {
  Transaction::drop_mark();
  close_mark();
}
void roll_back_to_mark() {
  Transaction::roll_back_to_mark();
  close_mark();
}

void count_cancel() { count(Count::kUser); }

int statistics(char *text, std::size_t bytes) {
  static constexpr const char *kNames[] = {
      "begins",    "commits", "read_only", "conflicts",    "too_old",       "plain",
      "cancelled", "alone",   "copies",    "first_stores", "plain_touches", "images",
      "recalls",   "dropped", "deaths",    "owned",        "turns"};
  static_assert(std::size(kNames) == kCounts);
  int length = 0;
  for (std::uint32_t i = 0; i < kCounts; ++i) {
    std::uint64_t sum = 0;
    for (const Slot &slot : control->slots) sum += slot.counts[i].load(std::memory_order_relaxed);
    length +=
        std::snprintf(text + length, bytes - static_cast<std::size_t>(length), "%s\"%s\": %llu",
                      i == 0 ? "" : ", ", kNames[i], static_cast<unsigned long long>(sum));
  }
  return length;
}

}  // namespace tmh::itm::pages
