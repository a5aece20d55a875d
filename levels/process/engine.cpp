// levels/process/engine.cpp -- starts the engine; what the heap, the threads and libitm.so.1
// call of it.
#include "levels/process/engine.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include "compat/libitm/pages/calls.h"
#include "compat/libitm/tasks/task_life.h"
#include "levels/process/faults.h"
#include "levels/process/heap/allocator.h"
#include "levels/process/jump_tables.h"
#include "levels/process/own_pages.h"
#include "levels/process/rights.h"
#include "levels/process/transaction.h"
#include "levels/process/view.h"

extern "C" void *__libc_stack_end;  // of the loader: where the main thread's frames begin

namespace tmh::itm::pages {

namespace {

bool has_started = false, is_forked = false, has_view = false, has_guard = false;
// The task's; main has another thread, which has no view (undertaker.h).
void *own_thread = nullptr;

// In a child that the program makes by fork(): it has the memory for itself, and no transactions.
void enter_forked() noexcept {
  if (!has_started) return;
  has_started = false;
  is_forked = true;
  View::enter_forked();
  end_rights();
}

// Not 0: the program, or a library of its, was linked with a libitm.
int needs_libitm(dl_phdr_info *info, std::size_t, void *) {
  if (Memory::is_runtime_module(info->dlpi_name)) return 0;
  const ElfW(Dyn) *dynamic = nullptr;
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn) *>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  if (dynamic == nullptr) return 0;
  const char *names = nullptr;
  for (const ElfW(Dyn) *each = dynamic; each->d_tag != DT_NULL; ++each)
    if (each->d_tag == DT_STRTAB) names = reinterpret_cast<const char *>(each->d_un.d_ptr);
  for (const ElfW(Dyn) *each = dynamic; names != nullptr && each->d_tag != DT_NULL; ++each)
    if (each->d_tag == DT_NEEDED && std::strcmp(names + each->d_un.d_val, "libitm.so.1") == 0)
      return 1;
  return 0;
}

// A forked child that has its first transaction runs it on lines.
bool is_wanted() { return !is_forked && dl_iterate_phdr(needs_libitm, nullptr) != 0; }

[[noreturn]] void refuse(const char *reason) noexcept {
  std::fprintf(stderr, "libitm (tmh): method pages is not possible here: %s (%s)\n", reason,
               std::strerror(errno));
  std::_Exit(127);
}

// Its threads wait for each other by futexes of one process, in code of its own.
void refuse_openmp() noexcept {
  if (dlsym(RTLD_DEFAULT, "GOMP_parallel") == nullptr) return;
  static_cast<void>(
      std::fputs("libitm (tmh): method pages is not possible here: the program uses "
                 "OpenMP (libgomp); method lines runs it\n",
                 stderr));
  std::_Exit(127);
}

std::terminate_handler terminate_before = nullptr;

// What the C++ runtime says about the exception cannot be undone, and remembers that it was said.
[[noreturn]] void terminate_outside() {
  go_irrevocable();
  terminate_before();
  std::abort();
}

[[gnu::constructor(101)]] void start() noexcept {
  const char *const method = secure_getenv("ITM_DEFAULT_METHOD");
  if (method == nullptr) return;
  is_serializable = std::strcmp(method, "pages-serializable") == 0;
  if (!is_serializable && std::strcmp(method, "pages") != 0) return;
  // Programs that such a program starts are loaded with this library, too.
  if (!is_wanted()) return;
  refuse_openmp();
  move_jump_tables();
  if (!make_control() || !Memory::start() || !Log::start() || !OwnPages::start())
    refuse("no shared memory");
  control->slots[0].is_used.store(1, std::memory_order_relaxed);
  control->slots[0].incarnation.store(1, std::memory_order_relaxed);
  control->high.store(1, std::memory_order_relaxed);
  name_self(0);
  start_rights();
  if (!start_faults()) refuse("signals cannot be handled");
  if (!heap_start()) refuse("no memory for the heap");
  pthread_atfork(nullptr, nullptr, enter_forked);
  if (!tasks_start()) refuse("no memory for threads");
  terminate_before = std::set_terminate(terminate_outside);
  has_started = true;
}

}  // namespace

void start_view() noexcept {
  if (has_view) [[likely]]
    return;
  if (!tasks_prepare()) refuse("no memory for threads");
  std::uint64_t clock = 0;
  if (!View::start(&clock)) refuse("userfaultfd(2) or memory is missing");
  has_view = true;
  own_thread = __builtin_thread_pointer();
  has_guard = guard_effects();
  Transaction::enter(clock, reinterpret_cast<std::uintptr_t>(__libc_stack_end));
  set_rights(Rights::kPlain);
}

bool is_started() noexcept { return has_started; }
bool is_inside() noexcept { return is_running_inside; }
std::uint32_t own_slot() noexcept { return self_slot; }
Range heap_range() noexcept { return Memory::heap(); }
Range stacks_range() noexcept { return Memory::stacks(); }

bool is_own_file(int file) noexcept {
  if (file == Memory::home_file()) return true;
  const std::uint32_t high = control->high.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < high; ++i)
    if (control->slots[i].faults_file.load(std::memory_order_relaxed) == file + 1) return true;
  return false;
}

void cover_libraries() noexcept {
  if (!has_started) return;
  const Busy busy;
  move_jump_tables();
  if (has_view) {
    Memory::look_at_libraries(View::cover, View::forget_region);
  } else {
    Memory::look_at_libraries(Memory::map_home, [](const Region &) {});
  }
}

void *reserve_shared(std::size_t bytes) noexcept { return Memory::map_shared(bytes); }

void make_plain(const void *at, std::size_t bytes, bool is_store) noexcept {
  if (!has_view || is_running_inside || bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const Busy busy;
  View::note_call_use(begin, bytes);
  for (std::uintptr_t place = begin & ~(kPageBytes - 1); place < begin + bytes;
       place += kPageBytes) {
    const PageNumber page = Memory::page_of(place);
    if (page == kNoPage || Memory::stack_slot_of(page) == self_slot) continue;
    if (!View::is_open_for_plain(page, is_store)) View::open_for_plain(page, is_store);
  }
}

void note_allocated(void *block) noexcept { Transaction::note_allocated(block); }
void note_freed(void *block) noexcept { Transaction::note_freed(block); }

void go_irrevocable() {
  if (is_running_inside) Transaction::go_irrevocable();
}

namespace {

void give_up(bool touched_only) noexcept {
  if (!has_view || is_running_inside || Busy::is_any() || !View::holds_any() ||
      own_thread != __builtin_thread_pointer())
    return;
  const Busy busy;
  View::give_up(touched_only);
}

}  // namespace

void give_up_holds() noexcept { give_up(false); }
void give_up_touched() noexcept { give_up(true); }

void before_clone(int slot) noexcept {
  start_view();
  const Busy busy;
  View::drop_all_copies();
  View::open_stack(static_cast<std::uint32_t>(slot));
}
void after_clone(int slot) noexcept {
  const Busy busy;
  View::close_stack(static_cast<std::uint32_t>(slot));
}

void enter_task(int slot) noexcept {
  control->slots[slot].pid.store(0, std::memory_order_relaxed);
  name_self(static_cast<std::uint32_t>(slot));
  std::uint64_t clock = 0;
  if (!View::enter(&clock)) refuse("a thread cannot have page tables of its own");
  own_thread = __builtin_thread_pointer();
  has_guard = guard_effects();
  set_rights(Rights::kPlain);
  Transaction::enter(clock, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) + 16);
}

void leave_task() noexcept {
  Transaction::leave();
  const Busy busy;
  View::leave();
}

}  // namespace tmh::itm::pages

extern "C" {
[[gnu::visibility("default")]] extern const tmh::itm::pages::Calls tmh_itm_pages;
}

namespace tmh::itm::pages {

namespace {

std::uint32_t marks_open = 0;
bool was_guarded = false;  // the transaction around the marks

bool must_be_alone() { return self().is_stack_shared.load(std::memory_order_seq_cst) != 0; }

bool is_on_own_stack(std::uintptr_t stack) {
  return Memory::stack_slot_of(Memory::page_of(stack)) == self_slot;
}

void begin(std::uintptr_t stack, std::uint32_t attempt, bool may_be_cancelled) {
  Transaction::begin(stack, attempt);
  marks_open = 0;
  static_cast<void>(guard_transaction(!may_be_cancelled));
}

void call_be_alone() {
  start_view();
  be_alone();
  count(Count::kAlone);
}

void mark(std::uintptr_t stack) {
  if (marks_open++ == 0) was_guarded = guard_transaction(false);  // it may be cancelled
  Transaction::mark();
  Transaction::save_stack_of_mark(stack);
}

bool finds_effects() { return has_guard; }
int open_own_work() {
  const Rights before = current_rights();
  set_rights(Rights::kBoth);
  return static_cast<int>(before);
}
void close_own_work(int before) { set_rights(static_cast<Rights>(before)); }

void close_mark() {
  if (--marks_open == 0) static_cast<void>(guard_transaction(was_guarded));
}
void drop_mark() {
  Transaction::drop_mark();
  close_mark();
}
void roll_back_to_mark() {
  Transaction::roll_back_to_mark();
  close_mark();
}

int statistics(char *text, std::size_t bytes) {
  static constexpr const char *kNames[kCounts] = {
      "begins",    "commits", "read_only", "conflicts",    "too_old",       "plain",
      "cancelled", "alone",   "copies",    "first_stores", "plain_touches", "images",
      "recalls",   "dropped", "deaths",    "owned",        "turns"};
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

}  // namespace

}  // namespace tmh::itm::pages

const tmh::itm::pages::Calls tmh_itm_pages = {
    .version = tmh::itm::pages::kCallsVersion,
    .is_wanted = tmh::itm::pages::is_wanted,
    .set_functions = tmh::itm::pages::Transaction::set_functions,
    .must_be_alone = tmh::itm::pages::must_be_alone,
    .is_on_own_stack = tmh::itm::pages::is_on_own_stack,
    .begin = tmh::itm::pages::begin,
    .commit = tmh::itm::pages::Transaction::commit,
    .roll_back = tmh::itm::pages::Transaction::roll_back,
    .be_alone = tmh::itm::pages::call_be_alone,
    .end_alone = tmh::itm::pages::end_alone,
    .go_alone = tmh::itm::pages::Transaction::go_alone,
    .mark = tmh::itm::pages::mark,
    .drop_mark = tmh::itm::pages::drop_mark,
    .roll_back_to_mark = tmh::itm::pages::roll_back_to_mark,
    .count_cancel = [] { tmh::itm::pages::count(tmh::itm::pages::Count::kUser); },
    .finds_effects = tmh::itm::pages::finds_effects,
    .open_own_work = tmh::itm::pages::open_own_work,
    .close_own_work = tmh::itm::pages::close_own_work,
    .statistics = tmh::itm::pages::statistics,
};
