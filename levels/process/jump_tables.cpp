// levels/process/jump_tables.cpp -- copies jump tables, and lets the stubs of calls read the copy.
// Source:    docs/sources.md, ELF, "Procedure Linkage Table": a stub jumps by `jmp *disp(%rip)`.
#include "levels/process/jump_tables.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "levels/process/ground/ground.h"
#include "levels/process/memory.h"
#include "levels/process/modules.h"

namespace tmh::itm::pages {

namespace {

constexpr std::uint64_t kReach = 1ull << 30;  // a stub's displacement has 32 bits, with a sign

struct Table {
  std::uintptr_t first = ~0ull, last = 0;  // slots: the lowest, the highest
  std::uintptr_t copy = 0;
};

// A private page or more within reach of the module.
std::uintptr_t room_near(std::uintptr_t at, std::size_t bytes) noexcept {
  TMH_ASSERT(bytes != 0 && bytes % kPageBytes == 0);
  for (std::uint64_t distance = 1ull << 24; distance < kReach; distance += 1ull << 24)
    for (const std::uintptr_t place : {at + distance, at - distance}) {
      void *const wanted = reinterpret_cast<void *>(place & ~(kPageBytes - 1));
      void *const room = raw_mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (room == wanted) return reinterpret_cast<std::uintptr_t>(room);
      if (room != MAP_FAILED) raw_munmap(room, bytes);
    }
  return 0;
}

Table find_table(const dl_phdr_info &info, const ElfW(Rela) * *slots, std::size_t *count) noexcept {
  Table table;
  std::uintptr_t list = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto *each =
        reinterpret_cast<const ElfW(Dyn) *>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    for (; each->d_tag != DT_NULL; ++each) {
      if (each->d_tag == DT_JMPREL) list = each->d_un.d_ptr;
      if (each->d_tag == DT_PLTRELSZ) bytes = each->d_un.d_val;
    }
  }
  *slots = reinterpret_cast<const ElfW(Rela) *>(list);  // the loader has added the base
  *count = list == 0 ? 0 : bytes / sizeof(ElfW(Rela));
  for (std::size_t i = 0; i < *count; ++i) {
    const std::uintptr_t slot = info.dlpi_addr + (*slots)[i].r_offset;
    table.first = std::min(table.first, slot);
    table.last = std::max(table.last, slot);
  }
  return table;
}

bool is_in_text(const dl_phdr_info &info, std::uintptr_t at) noexcept {
  for (std::size_t i = 0; i < info.dlpi_phnum; ++i) {
    const auto &each = info.dlpi_phdr[i];
    if (each.p_type == PT_LOAD && (each.p_flags & PF_X) != 0 &&
        at - (info.dlpi_addr + each.p_vaddr) < each.p_memsz)
      return true;
  }
  return false;
}

// Stubs whose slot is filled read the copy.
void patch(const dl_phdr_info &info, const Table &table) noexcept {
  TMH_ASSERT(table.copy != 0);
  for (std::size_t i = 0; i < info.dlpi_phnum; ++i) {
    const auto &each = info.dlpi_phdr[i];
    if (each.p_type != PT_LOAD || (each.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info.dlpi_addr + each.p_vaddr, end = begin + each.p_memsz;
    const std::uintptr_t first_page = begin & ~(kPageBytes - 1);
    auto *const pages = reinterpret_cast<void *>(first_page);
    if (raw_pkey_mprotect(pages, end - first_page, PROT_READ | PROT_WRITE | PROT_EXEC, -1) != 0)
      return;
    for (std::uintptr_t at = begin; at + 6 <= end; ++at) {
      auto *const code = reinterpret_cast<std::uint8_t *>(at);
      if (code[0] != 0xff || code[1] != 0x25) continue;
      std::int32_t distance = 0;
      std::memcpy(&distance, code + 2, sizeof distance);
      const std::uintptr_t slot =
          at + 6 + static_cast<std::uintptr_t>(static_cast<std::int64_t>(distance));
      if (slot < table.first || slot > table.last || slot % 8 != 0) continue;
      if (is_in_text(info, *reinterpret_cast<const std::uintptr_t *>(slot)))
        continue;  // not filled
      distance =
          static_cast<std::int32_t>(static_cast<std::int64_t>(table.copy + (slot - table.first)) -
                                    static_cast<std::int64_t>(at + 6));
      std::memcpy(code + 2, &distance, sizeof distance);
    }
    raw_pkey_mprotect(pages, end - first_page, PROT_READ | PROT_EXEC, -1);
  }
}

int move_table(dl_phdr_info *info, std::size_t, void *) {
  if (is_runtime_module(info->dlpi_name)) return 0;
  const ElfW(Rela) *slots = nullptr;
  std::size_t count = 0;
  Table table = find_table(*info, &slots, &count);
  // Its data have been moved: its table was copied before.
  if (count == 0 || Memory::page_of(table.first) != kNoPage) return 0;
  TMH_ASSERT(table.first <= table.last);
  const std::size_t bytes = table.last + 8 - table.first;
  table.copy = room_near(table.first, (bytes + kPageBytes - 1) & ~(kPageBytes - 1));
  if (table.copy == 0) return 0;
  std::memcpy(reinterpret_cast<void *>(table.copy), reinterpret_cast<const void *>(table.first),
              bytes);
  patch(*info, table);
  return 0;
}

}  // namespace

void move_jump_tables() noexcept { dl_iterate_phdr(move_table, nullptr); }

}  // namespace tmh::itm::pages
