// levels/process/for_libitm.h -- transactions of the calling task, as libitm.so.1 has them: what
// compat/libitm/pages/calls.h says of each.
// Contexts:  the calling task's. NOT async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/transaction.h"

namespace tmh::itm::pages {

[[nodiscard]] bool must_be_alone();
[[nodiscard]] bool is_on_own_stack(std::uintptr_t stack);
void begin(std::uintptr_t stack, std::uint32_t attempt, bool may_be_cancelled);
void begin_alone();
void mark(std::uintptr_t stack);
void drop_mark();
void roll_back_to_mark();
void count_cancel();
[[nodiscard]] int open_own_work();
void close_own_work(int before);
[[nodiscard]] int statistics(char *text, std::size_t bytes);

}  // namespace tmh::itm::pages
