// compat/libitm/thread_pages.cpp -- a thread's transactions in method pages: the engine, a library
// of its own, does what concerns memory; being alone, of either.
#include "compat/libitm/process.h"
#include "compat/libitm/thread.h"

namespace tmh::itm {

std::uint32_t Thread::begin_pages(bool is_restart) {
  const auto &pages = *process_.pages;
  if (!pages.is_on_own_stack(outer_.registers.stack))
    die("methods pages: a transaction begins on a stack that the program has made (makecontext)");
  wants_irrevocable_ |= (properties_ & kGoesIrrevocable) != 0;
  if (wants_irrevocable_) return begin_alone() | (is_restart ? kRestoreLive : 0);
  if (wants_alone_ || pages.must_be_alone()) {
    is_alone_on_pages_ = true;
    pages.be_alone();
  }
  mode_ = Mode::kPages;
  pages.begin(outer_.registers.stack, attempt_, (properties_ & kHasNoAbort) == 0);
  return path(properties_) | kSaveLive | (is_restart ? kRestoreLive : 0);
}

void Thread::commit_pages() {
  if (!process_.pages->commit()) restart();
  if (is_alone_on_pages_) end_alone();
}

void Thread::be_alone() {
  process_.pages != nullptr ? process_.pages->be_alone() : process_.gate.be_alone(this);
}

void Thread::note_irrevocable() noexcept {
  if (process_.pages == nullptr) process_.gate.note_irrevocable(this);
}

void Thread::end_alone() {
  if (process_.pages == nullptr) return process_.gate.end_alone(this);
  if (mode_ == Mode::kPages && !is_alone_on_pages_) return;
  is_alone_on_pages_ = false;
  process_.pages->end_alone();
}

}  // namespace tmh::itm
