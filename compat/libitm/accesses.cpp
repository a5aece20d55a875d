// compat/libitm/accesses.cpp -- accesses, marks and ends of a transaction, each by the method that
// runs.
#include "compat/libitm/accesses.h"

namespace tmh::itm {

std::uint64_t Accesses::load(std::uintptr_t from, std::uint32_t bytes) {
  TMH_ASSERT(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  return by_method([&](auto &method) { return method.load(from, bytes); });
}

void Accesses::load_block(void *to, std::uintptr_t from, std::size_t bytes) {
  by_method([&](auto &method) { method.load_block(to, from, bytes); });
}

void Accesses::store(std::uintptr_t to, const void *from, std::size_t bytes) {
  by_method([&](auto &method) { method.store(memory_, to, from, bytes); });
}

bool Accesses::copy(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  return by_method([&](auto &method) { return method.copy(memory_, to, from, bytes); });
}

void Accesses::log_local(const void *at, std::size_t bytes) {
  by_method([&](auto &method) {
    method.log_local(memory_, reinterpret_cast<std::uintptr_t>(at), bytes);
  });
}

void Accesses::note_private(const void *memory, std::size_t bytes) {
  by_method([&](auto &method) {
    method.note_private(memory_, reinterpret_cast<std::uintptr_t>(memory), bytes);
  });
}

void Accesses::begin_lines(std::uintptr_t stack, std::uint32_t attempt) noexcept {
  TMH_ASSERT(running_ == Running::kNone);
  memory_.begin(stack);
  lines_.begin(attempt);
  running_ = Running::kLines;
}

std::uint32_t Accesses::begin_hardware(std::uintptr_t stack, std::uint32_t properties) {
  TMH_ASSERT(running_ == Running::kNone);
  memory_.begin(stack);
  const std::uint32_t result = hardware_.begin(properties);
  if (result != 0) running_ = Running::kHardware;
  return result;
}

void Accesses::begin_pages(std::uintptr_t stack, std::uint32_t attempt, std::uint32_t properties,
                           bool wants_alone) noexcept {
  TMH_ASSERT(running_ == Running::kNone);
  memory_.begin(stack);
  pages_.prepare(wants_alone);
  running_ = Running::kPages;
  pages_.begin(stack, attempt, properties);
}

void Accesses::begin_alone(std::uintptr_t stack, bool is_for_good) noexcept {
  TMH_ASSERT(running_ == Running::kNone);
  memory_.begin(stack);
  alone_.begin();
  lines_.level_1.shut();
  alone_.set_keeps(!is_for_good);
  running_ = Running::kAlone;
  if (is_for_good) alone_.note_irrevocable();
}

void Accesses::open(std::uint32_t properties) noexcept {
  by_method([&](auto &method) { method.open(properties); });
}

Accesses::Mark Accesses::mark(std::uintptr_t stack) {
  TMH_ASSERT(stack != 0);
  const Mark mark{memory_.mark(), by_method([&](auto &method) { return method.mark(stack); })};
  memory_.set_inner(stack);
  return mark;
}

void Accesses::drop_mark(const Mark &mark, std::uintptr_t around) noexcept {
  TMH_ASSERT(memory_.is_nested());
  by_method([&](auto &method) { method.drop_mark(mark.method); });
  memory_.set_inner(around);
}

void Accesses::roll_back_to(const Mark &mark, std::uintptr_t stack,
                            std::uintptr_t around) noexcept {
  TMH_ASSERT(memory_.is_nested());
  by_method([&](auto &method) { method.roll_back_to(mark.method); });
  memory_.roll_back(mark.memory, stack);
  memory_.set_inner(around);
}

void Accesses::keep_no_more() noexcept {
  TMH_ASSERT(running_ == Running::kAlone && !memory_.is_nested());
  alone_.set_keeps(false);
  memory_.forget_saved();
}

void Accesses::roll_back(std::uintptr_t stack) noexcept {
  by_method([](auto &method) { method.abandon(); });
  memory_.roll_back({}, stack);
}

void Accesses::leave() noexcept {
  by_method([](auto &method) { method.leave(); });
  running_ = Running::kNone;
}

void Accesses::forget_pages() noexcept {
  running_ = Running::kNone;
  pages_.forget();
  memory_.forget();
}

void Accesses::abort_hardware(line::AbortCode code) noexcept {
  by_method([&](auto &method) { method.abort_hardware(code); });
}

bool Accesses::go_alone(bool is_nested) {
  TMH_ASSERT(running_ != Running::kNone);
  if (!by_method([&](auto &method) { return method.go_alone(alone_); })) return false;
  running_ = Running::kAlone;
  alone_.set_keeps(is_nested);
  memory_.forget_saved();
  alone_.note_irrevocable();
  return true;
}

bool Accesses::keeps_stores() const noexcept {
  return by_method([](const auto &method) { return method.keeps_stores(); });
}

bool Accesses::frees_at_once() const noexcept {
  return by_method([](const auto &method) { return method.frees_at_once(); });
}

bool Accesses::restores_runtime() const noexcept {
  return by_method([](const auto &method) { return method.restores_runtime(); });
}

bool Accesses::undoes_plain_code() const noexcept {
  return by_method([](const auto &method) { return method.undoes_plain_code(); });
}

bool Accesses::may_run_plain(std::uint32_t properties) const noexcept {
  return by_method([&](const auto &method) { return method.may_run_plain(properties); });
}

std::uint32_t Accesses::attempts_max() const noexcept {
  return by_method(
      [](const auto &method) { return std::remove_cvref_t<decltype(method)>::kAttemptsMax; });
}

}  // namespace tmh::itm
