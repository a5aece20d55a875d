// compat/libitm/pages/calls.cpp -- the table, and the engine's start in programs that use it.
#include "compat/libitm/pages/calls.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "compat/libitm/tasks/tasks.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

bool is_forked = false;

void enter_forked_child() noexcept {
  if (!is_started()) return;
  TMH_ASSERT(!is_forked);
  is_forked = true;
  enter_forked();
}

// Not 0: the program, or a library of its, was linked with a libitm.
int needs_libitm(dl_phdr_info *info, std::size_t, void *) {
  if (is_runtime_module(info->dlpi_name)) return 0;
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
  TMH_ASSERT(!is_inside() && terminate_before != nullptr);
  terminate_before();
  std::abort();
}

[[gnu::constructor(101)]] void start_with_program() noexcept {
  const char *const method = secure_getenv("ITM_DEFAULT_METHOD");
  if (method == nullptr) return;
  const bool is_serializable = std::strcmp(method, "pages-serializable") == 0;
  if (!is_serializable && std::strcmp(method, "pages") != 0) return;
  // Programs that such a program starts are loaded with this library, too.
  if (!is_wanted()) return;
  TMH_ASSERT(!is_started());
  refuse_openmp();
  prepare_engine({.prepare = tasks_prepare, .die = tasks_die}, is_serializable);
  pthread_atfork(nullptr, nullptr, enter_forked_child);
  if (!tasks_start()) refuse("no memory for threads");
  terminate_before = std::set_terminate(terminate_outside);
  start_engine();
}

}  // namespace

}  // namespace tmh::itm::pages

extern "C" {
[[gnu::visibility("default")]] extern const tmh::itm::pages::Calls tmh_itm_pages;
}

const tmh::itm::pages::Calls tmh_itm_pages = {
    .version = tmh::itm::pages::kCallsVersion,
    .is_wanted = tmh::itm::pages::is_wanted,
    .set_functions = tmh::itm::pages::Transaction::set_functions,
    .must_be_alone = tmh::itm::pages::must_be_alone,
    .is_on_own_stack = tmh::itm::pages::is_on_own_stack,
    .begin = tmh::itm::pages::begin,
    .commit = tmh::itm::pages::Transaction::commit,
    .roll_back = tmh::itm::pages::Transaction::roll_back,
    .be_alone = tmh::itm::pages::begin_alone,
    .end_alone = tmh::itm::pages::end_alone,
    .go_alone = tmh::itm::pages::Transaction::go_alone,
    .mark = tmh::itm::pages::mark,
    .drop_mark = tmh::itm::pages::drop_mark,
    .roll_back_to_mark = tmh::itm::pages::roll_back_to_mark,
    .count_cancel = tmh::itm::pages::count_cancel,
    .finds_effects = tmh::itm::pages::finds_effects,
    .open_own_work = tmh::itm::pages::open_own_work,
    .close_own_work = tmh::itm::pages::close_own_work,
    .statistics = tmh::itm::pages::statistics,
};
