// levels/process/memory.cpp -- moves a program's memory into home.
#include "levels/process/memory.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "levels/process/ground/ground.h"
#include "levels/process/modules.h"

extern "C" void *__libc_stack_end;  // of the loader: where the main thread's stack begins

namespace tmh::itm::pages {

namespace {

constexpr std::uint64_t kHeapBytes = 64ull << 30;
constexpr std::uintptr_t kHeapAt = 0x2000'0000'0000;
constexpr std::uint64_t kDataMax = 4ull << 30;
constexpr std::uint64_t kMainStackMax = 64ull << 20;
constexpr PageNumber kMainStackFirst = kDataMax / kPageBytes,
                     kStacksFirst = kMainStackFirst + kMainStackMax / kPageBytes,
                     kHeapFirst = kStacksFirst + kTasksMax * (kStackSlot / kPageBytes);
constexpr std::uint64_t kHomeBytes = kDataMax + kMainStackMax + kTasksMax * kStackSlot + kHeapBytes;
constexpr PageNumber kBlockPages = 512;  // of the record of holders
static_assert(kHomeBytes % (kBlockPages * kPageBytes) == 0 && kHomeBytes / kPageBytes < kNoPage);
static_assert(kHeapFirst + kHeapBytes / kPageBytes == kHomeBytes / kPageBytes);

std::uintptr_t up(std::uintptr_t at) { return (at + kPageBytes - 1) & ~(kPageBytes - 1); }
std::uintptr_t down(std::uintptr_t at) { return at & ~(kPageBytes - 1); }

bool report(const char *what) noexcept {
  std::fprintf(stderr, "libitm (tmh): method pages: %s: %s\n", what, std::strerror(errno));
  return false;
}

// For each block of pages: the slots that hold, or have held, a page of it.
Slots *held_blocks;

}  // namespace

Range heap_range() noexcept {
  return {Memory::heap_.begin, Memory::heap_.end - Memory::heap_.begin};
}
Range stacks_range() noexcept {
  return {Memory::stacks_.begin, Memory::stacks_.end - Memory::stacks_.begin};
}

PageNumber Memory::pages() noexcept { return kHomeBytes / kPageBytes; }

bool Memory::add(std::uintptr_t begin, std::uintptr_t end, PageNumber first, Region *out) noexcept {
  TMH_ASSERT(begin < end && begin % kPageBytes == 0 && end % kPageBytes == 0);
  if (count_ == kRegionsMax || first == kNoPage) return errno = ENOMEM, false;
  *out = {begin, end, first};
  all_[count_++] = *out;
  return true;
}

// A library that comes again to its place gets its pages again: programs may load one often.
PageNumber Memory::data_again(std::uintptr_t begin, std::uintptr_t end) noexcept {
  for (std::uint32_t i = 0; i < gone_count_; ++i) {
    const Region gone = gone_[i];
    if (gone.begin != begin || gone.end != end) continue;
    gone_[i] = gone_[--gone_count_];
    return gone.first;
  }
  return take_data((end - begin) / kPageBytes);
}

// Of the first part of home.
PageNumber Memory::take_data(std::size_t pages) noexcept {
  const PageNumber first = control->data_pages.fetch_add(static_cast<PageNumber>(pages));
  return first + pages <= kMainStackFirst ? first : kNoPage;
}

namespace {

struct Found {
  std::uintptr_t begin[128], end[128];
  std::size_t count;
};

// The writable part of each module, without what the loader has made read-only.
int find_data(dl_phdr_info *info, std::size_t, void *found) {
  auto &out = *static_cast<Found *>(found);
  if (is_runtime_module(info->dlpi_name)) return 0;
  std::uintptr_t read_only_end = 0;
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
      read_only_end =
          down(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto &each = info->dlpi_phdr[i];
    if (each.p_type != PT_LOAD || (each.p_flags & PF_W) == 0) continue;
    const std::uintptr_t begin = std::max(down(info->dlpi_addr + each.p_vaddr), read_only_end);
    const std::uintptr_t end = up(info->dlpi_addr + each.p_vaddr + each.p_memsz);
    if (begin >= end) continue;
    if (out.count == std::size(out.begin)) return 1;
    out.begin[out.count] = begin;
    out.end[out.count++] = end;
  }
  return 0;
}

}  // namespace

bool Memory::map_home(const Region &region) noexcept {
  return raw_mmap(reinterpret_cast<void *>(region.begin), region.end - region.begin,
                  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_,
                  static_cast<off_t>(region.first * kPageBytes)) != MAP_FAILED;
}

void Memory::look_at_libraries(bool (*map)(const Region &),
                               void (*forget)(const Region &)) noexcept {
  Found found{};
  dl_iterate_phdr(find_data, &found);
  const auto is_found = [&found](const Region &region) {
    for (std::size_t i = 0; i < found.count; ++i)
      if (found.begin[i] == region.begin && found.end[i] == region.end) return true;
    return false;
  };
  for (std::uint32_t i = 0; i < count_;) {
    if (all_[i].first >= kMainStackFirst || is_found(all_[i])) {
      ++i;
      continue;
    }
    forget(all_[i]);
    if (gone_count_ < kRegionsMax) gone_[gone_count_++] = all_[i];
    all_[i] = all_[--count_];
  }
  for (std::size_t i = 0; i < found.count; ++i) {
    if (page_of(found.begin[i]) != kNoPage) continue;
    const std::size_t bytes = found.end[i] - found.begin[i];
    Region region;
    if (!add(found.begin[i], found.end[i], data_again(found.begin[i], found.end[i]), &region))
      return;
    std::memcpy(home(region.first), reinterpret_cast<const void *>(region.begin), bytes);
    if (!map(region)) --count_;
  }
}

bool Memory::add_data() noexcept {
  look_at_libraries(map_home, [](const Region &) {});
  return count_ != 0;
}

bool Memory::add_main_stack() noexcept {
  std::FILE *const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  std::uintptr_t begin = 0, end = 0, before = 0, last = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
    if (std::strstr(line, "[stack]") != nullptr) begin = from, end = to, before = last;
    last = to;
  }
  std::fclose(maps);
  if (begin == 0) return errno = ENOENT, false;
  rlimit limit{};
  getrlimit(RLIMIT_STACK, &limit);
  std::uint64_t bytes = std::min<std::uint64_t>(limit.rlim_cur, kMainStackMax);
  bytes = std::max<std::uint64_t>(down(std::min(bytes, end - before - (1u << 20))), end - begin);
  if (!add(end - bytes, end, kMainStackFirst, &main_stack_)) return false;
  // This function runs on what it moves: nothing may be stored there between the copy and the new
  // mapping, so both are in registers.
  auto *const target = home(main_stack_.first) + (begin - main_stack_.begin);
  register long flags asm("r10") = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  register long file asm("r8") = file_;
  register std::uint64_t offset asm("r9") = main_stack_.first * kPageBytes;
  register std::uintptr_t at asm("r12") = main_stack_.begin;
  register std::uint64_t size asm("r13") = bytes;
  long result = SYS_mmap;
  std::uintptr_t destination = reinterpret_cast<std::uintptr_t>(target), source = begin,
                 left = end - begin;
  asm volatile(
      "rep movsb\n\t"
      "mov %%r12, %%rdi\n\t"
      "mov %%r13, %%rsi\n\t"
      "mov %[protection], %%edx\n\t"
      "syscall"
      : "+a"(result), "+D"(destination), "+S"(source), "+c"(left)
      : "r"(flags), "r"(file), "r"(offset), "r"(at),
        "r"(size), [protection] "i"(PROT_READ | PROT_WRITE)
      : "rdx", "r11", "memory", "cc");
  return static_cast<std::uintptr_t>(result) == main_stack_.begin;
}

bool Memory::add_new(std::size_t bytes, std::uintptr_t wanted, PageNumber first,
                     Region *out) noexcept {
  void *const place = raw_mmap(reinterpret_cast<void *>(wanted), bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(place);
  return add(begin, begin + bytes, first, out) && map_home(*out);
}

// Home counts as a file, for the size that files may have (ulimit -f).
bool Memory::grow_home() noexcept {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit most{before.rlim_max, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &most);
  if (most.rlim_cur < kHomeBytes) return errno = EFBIG, false;
  const bool is_done = ftruncate(file_, static_cast<off_t>(kHomeBytes)) == 0;
  setrlimit(RLIMIT_FSIZE, &before);
  return is_done;
}

bool Memory::start() noexcept {
  file_ = memfd_create("tmh-itm-pages", MFD_CLOEXEC);
  if (file_ < 0 || !grow_home()) return report("no file in memory");
  void *const all =
      raw_mmap(nullptr, kHomeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (all == MAP_FAILED) return report("no address space for the program's memory");
  home_ = static_cast<std::byte *>(all);
  constexpr std::uint64_t kPages = kHomeBytes / kPageBytes;
  page_states = static_cast<PageState *>(reserve_shared(kPages * sizeof(PageState)));
  held_blocks = static_cast<Slots *>(reserve_shared(kPages / kBlockPages * sizeof(Slots)));
  if (page_states == nullptr || held_blocks == nullptr)
    return report("no address space for the states of pages");
  if (!add_data()) return report("the program's data cannot be shared");
  if (!add_main_stack()) return report("the main thread's stack cannot be shared");
  if (!add_new(kTasksMax * kStackSlot, 0, kStacksFirst, &stacks_))
    return report("no room for stacks");
  stacks_end_ = kHeapFirst;
  if (!add_new(kHeapBytes, kHeapAt, kHeapFirst, &heap_)) return report("no room for the heap");
  return true;
}

PageNumber Memory::page_of_other(std::uintptr_t address) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i)
    if (address - all_[i].begin < all_[i].end - all_[i].begin)
      return all_[i].first + static_cast<PageNumber>((address - all_[i].begin) / kPageBytes);
  return kNoPage;
}

const Region &Memory::region_of(PageNumber page) noexcept {
  TMH_ASSERT(page < pages());
  if (page >= kHeapFirst) return heap_;
  if (page >= kStacksFirst) return stacks_;
  if (page >= kMainStackFirst) return main_stack_;
  std::uint32_t i = 0;
  TMH_ASSERT(count_ != 0);
  while (page - all_[i].first >= (all_[i].end - all_[i].begin) / kPageBytes) ++i;
  return all_[i];
}

std::uintptr_t Memory::address_of(PageNumber page) noexcept {
  const Region &region = region_of(page);
  return region.begin + static_cast<std::uint64_t>(page - region.first) * kPageBytes;
}

std::uint32_t Memory::stack_slot_of_stack(PageNumber page) noexcept {
  if (page < stacks_.first) return 0;
  return static_cast<std::uint32_t>((page - stacks_.first) / (kStackSlot / kPageBytes));
}

Range Memory::stack_of(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kTasksMax);
  if (slot == 0) return {main_stack_.begin, main_stack_.end - main_stack_.begin};
  return {stacks_.begin + slot * kStackSlot, kStackSlot};
}

void Memory::note_holder(PageNumber page) noexcept {
  TMH_ASSERT(page < pages());
  Slots &block = held_blocks[page / kBlockPages];
  if (!block.has(self_slot)) block.add(self_slot);
}

void Memory::forget_holder(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kTasksMax && slot != self_slot);
  for (PageNumber block = 0; block < kHomeBytes / kPageBytes / kBlockPages; ++block) {
    if (!held_blocks[block].has(slot)) continue;
    for (PageNumber page = block * kBlockPages; page < (block + 1) * kBlockPages; ++page) {
      PageState &state = page_states[page];
      if (state.sharers.has(slot)) state.sharers.remove(slot);
      if (!state.holders.has(slot)) continue;
      // In each case behind the page's last plain store.
      raise(&state.released, control->clock.load(std::memory_order_seq_cst));
      state.holders.remove(slot);
    }
    held_blocks[block].remove(slot);
  }
}

}  // namespace tmh::itm::pages
