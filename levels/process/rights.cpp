// levels/process/rights.cpp -- by protection keys, or by mprotect(2).
#include "levels/process/rights.h"

#include <link.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "levels/process/control.h"
#include "levels/process/ground/ground.h"
#include "levels/process/keys.h"
#include "levels/process/turns.h"
#include "platform/protection_keys.h"

namespace tmh::itm::pages {

namespace {

bool is_on = false;

// Read by the kernel at each system call of this task (guard_effects()).
volatile char blocks_calls = SYSCALL_DISPATCH_FILTER_ALLOW;
bool can_guard = false, is_guarded = false;  // the task; the running transaction
volatile Rights current = Rights::kPlain;
std::uintptr_t runtime_begin = 0, runtime_end = 0;  // the C library's data
volatile bool is_runtime_shut = false;              // or may be; without keys

std::uint32_t with(std::uint32_t rights, Rights wanted) noexcept {
  if (!is_on) return rights & ~(3u << 2 * runtime_key);
  const std::uint32_t copies = 3u << 2 * copy_key, shared = 3u << 2 * shared_key;
  rights &= ~(copies | shared | 3u << 2 * runtime_key);
  if (wanted == Rights::kPlain) return rights | copies;
  if (wanted == Rights::kTransaction)
    return rights | shared |
           (is_guarded
                ? static_cast<std::uint32_t>(platform::KeyAccess::kReadOnly) << 2 * runtime_key
                : 0);
  return rights;
}

// Without keys.
void change_mappings(Rights wanted) noexcept {
  const bool shuts = is_guarded && wanted == Rights::kTransaction;
  if (shuts != is_runtime_shut) {
    // A handler may come between any two of these: it opens what may be shut.
    if (shuts) is_runtime_shut = true;
    static_cast<void>(raw_mprotect(reinterpret_cast<void *>(runtime_begin),
                                   runtime_end - runtime_begin,
                                   PROT_READ | (shuts ? 0 : PROT_WRITE)));
    is_runtime_shut = shuts;
  }
  if (wanted != Rights::kBoth) Turns::turn(wanted == Rights::kTransaction);
}

int find_runtime(dl_phdr_info *info, std::size_t, void *) {
  const std::string_view path = info->dlpi_name;
  if (path.substr(path.rfind('/') + 1).substr(0, 7) != "libc.so") return 0;
  std::uintptr_t read_only_end = 0;
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto &each = info->dlpi_phdr[i];
    const std::uintptr_t end = info->dlpi_addr + each.p_vaddr + each.p_memsz;
    if (each.p_type == PT_GNU_RELRO) read_only_end = end & ~(kPageBytes - 1);
    if (each.p_type != PT_LOAD || (each.p_flags & PF_W) == 0) continue;
    runtime_begin = (info->dlpi_addr + each.p_vaddr) & ~(kPageBytes - 1);
    runtime_end = (end + kPageBytes - 1) & ~(kPageBytes - 1);
  }
  runtime_begin = std::max(runtime_begin, read_only_end);
  return 1;
}

std::uintptr_t own_text_begin = 0, own_text_end = 0;

int find_own_text(dl_phdr_info *info, std::size_t, void *) {
  const auto here = reinterpret_cast<std::uintptr_t>(&find_own_text);
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto &each = info->dlpi_phdr[i];
    if (each.p_type != PT_LOAD || (each.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info->dlpi_addr + each.p_vaddr;
    if (here - begin >= each.p_memsz) continue;
    own_text_begin = begin;
    own_text_end = begin + each.p_memsz;
    return 1;
  }
  return 0;
}

}  // namespace

void start_rights() noexcept {
  TMH_ASSERT(!is_on);
  is_on = true;
  take_keys();
}
bool are_rights_on() noexcept { return is_on; }
void end_rights() noexcept { is_on = false; }

void set_rights(Rights rights) noexcept {
  if (!is_on) return;
  if (rights != Rights::kTransaction) blocks_calls = SYSCALL_DISPATCH_FILTER_ALLOW;
  current = rights;  // first: a handler that comes now goes back to these
  if (has_keys()) {
    const std::uint32_t before = platform::read_key_rights();
    const std::uint32_t after = with(before, rights);
    if (after != before) platform::write_key_rights(after);
  } else {
    change_mappings(rights);
  }
  if (is_guarded && rights == Rights::kTransaction) blocks_calls = SYSCALL_DISPATCH_FILTER_BLOCK;
}

void set_rights_of(ucontext_t *context, Rights wanted) noexcept {
  if (!has_keys()) return set_rights(wanted);
  TMH_ASSERT(context != nullptr && key_rights_offset > 512);
  constexpr std::size_t kHeader = 512;  // of the extended state; bit 9 of its first word: PKRU
  auto *const state = reinterpret_cast<std::byte *>(context->uc_mcontext.fpregs);
  std::uint64_t present = 0;
  std::uint32_t rights = 0;
  std::memcpy(&present, state + kHeader, sizeof present);
  if ((present & 1u << 9) != 0) std::memcpy(&rights, state + key_rights_offset, sizeof rights);
  rights = with(rights, wanted);
  current = wanted;
  if (is_guarded && wanted == Rights::kTransaction) blocks_calls = SYSCALL_DISPATCH_FILTER_BLOCK;
  present |= 1u << 9;
  std::memcpy(state + kHeader, &present, sizeof present);
  std::memcpy(state + key_rights_offset, &rights, sizeof rights);
}

Rights current_rights() noexcept { return current; }

OwnRights::OwnRights() noexcept : before_(current) { set_rights(Rights::kBoth); }
OwnRights::~OwnRights() { set_rights(before_); }

void guard_effects() noexcept {
  if (runtime_begin == 0) {
    dl_iterate_phdr(find_runtime, nullptr);
    dl_iterate_phdr(find_own_text, nullptr);
  }
  TMH_ASSERT(runtime_begin % kPageBytes == 0 && runtime_begin <= runtime_end);
  can_guard = runtime_begin != 0 && own_text_begin != 0 &&
              (!has_keys() || raw_pkey_mprotect(reinterpret_cast<void *>(runtime_begin),
                                                runtime_end - runtime_begin, PROT_READ | PROT_WRITE,
                                                runtime_key) == 0) &&
              prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, own_text_begin,
                    own_text_end - own_text_begin, &blocks_calls) == 0;
}

bool guard_transaction(bool is_wanted) noexcept {
  TMH_ASSERT(is_running_inside);
  const bool before = is_guarded;
  is_guarded = can_guard && is_wanted;
  set_rights(Rights::kTransaction);
  return before;
}

bool finds_effects() noexcept { return can_guard; }

bool is_runtime_data(std::uintptr_t address) noexcept {
  return address - runtime_begin < runtime_end - runtime_begin;
}

}  // namespace tmh::itm::pages
