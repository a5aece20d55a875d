// pages_flat_engine.cpp -- stands in for the engine of method pages in tests of its threads: the
// program's memory is shared by all tasks, and there are no transactions.
// Shape:     one memfd: metadata, stack slots, .data and .bss of the executable, the main thread's
//            stack, heap. malloc() takes from the heap and gives nothing back, so that a task that
//            is killed in it holds nothing.
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compat/libitm/tasks/task_life.h"
#include "levels/process/faults.h"
#include "levels/process/for_calls.h"
#include "levels/process/for_tasks.h"
#include "levels/process/ground/own_task.h"

extern "C" {
void *__libc_malloc(std::size_t bytes) noexcept;
void *__libc_memalign(std::size_t alignment, std::size_t bytes) noexcept;
void __libc_free(void *block) noexcept;
}

namespace tmh::itm::pages {

namespace {

constexpr std::size_t kPage = 4096, kMetadata = 64ull << 20, kHeap = 16ull << 30;
constexpr std::size_t kMainStack = 8ull << 20;
constexpr std::size_t kStacks = kTasksMax * kStackSlot;

struct Flat {
  std::atomic<std::uint64_t> slots{1};
  std::atomic<std::size_t> metadata{kPage};
  std::atomic<std::size_t> heap{0};
};

bool is_running = false;
std::uint32_t slot_of_this = 0;
int file = -1;
std::size_t file_bytes = 0;
Flat *flat = nullptr;
char *stacks = nullptr, *heap = nullptr;

void check(bool is_well, const char *what) {
  if (is_well) return;
  std::perror(what);
  _exit(2);
}

char *map(void *at, std::size_t bytes) {
  const std::size_t offset = file_bytes;
  file_bytes += bytes;
  check(ftruncate(file, static_cast<off_t>(file_bytes)) == 0, "ftruncate");
  void *const mapped = mmap(at, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0), file,
                            static_cast<off_t>(offset));
  check(mapped != MAP_FAILED, "mmap");
  return static_cast<char *>(mapped);
}

void replace(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t content) {
  const std::size_t offset = file_bytes + (content - begin);
  check(pwrite(file, reinterpret_cast<void *>(content), end - content,
               static_cast<off_t>(offset)) == static_cast<ssize_t>(end - content),
        "pwrite");
  map(reinterpret_cast<void *>(begin), end - begin);
}

int replace_data(dl_phdr_info *info, std::size_t, void *) {
  std::uintptr_t relro_end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
      relro_end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &each = info->dlpi_phdr[i];
    if (each.p_type != PT_LOAD || (each.p_flags & PF_W) == 0) continue;
    const std::uintptr_t at = info->dlpi_addr + each.p_vaddr;
    const std::uintptr_t begin = std::max(at & ~(kPage - 1), relro_end & ~(kPage - 1));
    const std::uintptr_t end = (at + each.p_memsz + kPage - 1) & ~(kPage - 1);
    if (begin < end) replace(begin, end, begin);
  }
  return 1;  // the executable comes first
}

std::uintptr_t main_stack_begin, main_stack_end;
ucontext_t in_main, in_scratch;

void replace_main_stack() {
  replace(main_stack_end - kMainStack, main_stack_end, main_stack_begin);
}

void find_main_stack() {
  std::FILE *const maps = std::fopen("/proc/self/maps", "r");
  check(maps != nullptr, "/proc/self/maps");
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr)
    if (std::strstr(line, "[stack]") != nullptr) {
      char *rest = nullptr;
      main_stack_begin = std::strtoull(line, &rest, 16);
      main_stack_end = std::strtoull(rest + 1, nullptr, 16);
    }
  std::fclose(maps);
}

void in_forked_child() { is_running = false; }

[[gnu::constructor]] void start() {
  file = static_cast<int>(syscall(SYS_memfd_create, "flat", 1U));
  check(file >= 0, "memfd_create");
  flat = new (map(nullptr, kMetadata)) Flat();
  stacks = map(nullptr, kStacks);
  find_main_stack();
  dl_iterate_phdr(replace_data, nullptr);
  static char scratch[64 * 1024];
  getcontext(&in_scratch);
  in_scratch.uc_stack.ss_sp = scratch;
  in_scratch.uc_stack.ss_size = sizeof scratch;
  in_scratch.uc_link = &in_main;
  makecontext(&in_scratch, replace_main_stack, 0);
  swapcontext(&in_main, &in_scratch);
  heap = map(nullptr, kHeap);
  pthread_atfork(nullptr, nullptr, in_forked_child);
  check(tasks_start(), "tasks_start");
  is_running = true;
}

void *allocate(std::size_t bytes, std::size_t alignment) {
  if (!is_running)
    return alignment <= 16 ? __libc_malloc(bytes) : __libc_memalign(alignment, bytes);
  alignment = std::max<std::size_t>(alignment, 16);
  const std::size_t at = flat->heap.fetch_add((bytes + alignment + 31) & ~std::size_t{15});
  if (at + bytes + alignment + 32 > kHeap) return nullptr;
  const std::size_t block = (at + 16 + alignment - 1) & ~(alignment - 1);
  std::memcpy(heap + block - 8, &bytes, sizeof bytes);
  return heap + block;
}

bool is_ours(const void *block) { return heap != nullptr && block >= heap && block < heap + kHeap; }

std::size_t usable(void *block) {
  std::size_t bytes = 0;
  if (is_ours(block)) {
    std::memcpy(&bytes, static_cast<char *>(block) - 8, sizeof bytes);
  } else {
    // libc's chunk: its size lies before the block.
    std::memcpy(&bytes, static_cast<char *>(block) - 8, sizeof bytes);
    bytes = (bytes & ~std::size_t{7}) - 8;
  }
  return bytes;
}

}  // namespace

bool is_started() noexcept { return is_running; }
bool is_inside() noexcept { return false; }
void *reserve_shared(std::size_t bytes) noexcept {
  const std::size_t whole = (bytes + 63) & ~std::size_t{63};
  const std::size_t at = flat->metadata.fetch_add(whole);
  return at + whole > kMetadata ? nullptr : reinterpret_cast<char *>(flat) + at;
}
Range heap_range() noexcept { return {reinterpret_cast<std::uintptr_t>(heap), kHeap}; }
Range stacks_range() noexcept { return {reinterpret_cast<std::uintptr_t>(stacks), kStacks}; }
void make_plain(const void *, std::size_t, bool) noexcept {}
void note_allocated(void *) noexcept {}
void note_freed(void *) noexcept {}
void go_irrevocable() {}
void give_up_holds() noexcept {}
void give_up_touched() noexcept {}
Interruptions interruptions() noexcept { return {}; }
CallInProgress::CallInProgress(Kind kind) noexcept : before_(kind) {}
CallInProgress::~CallInProgress() {}
sigset_t without_engines(const sigset_t *set) noexcept { return *set; }
void forget_dead(int) noexcept {}
std::uint32_t own_slot() noexcept { return slot_of_this; }
int take_slot() noexcept {
  std::uint64_t slots = flat->slots.load();
  while (slots != ~std::uint64_t{0}) {
    const int slot = __builtin_ctzll(~slots);
    if (flat->slots.compare_exchange_weak(slots, slots | (std::uint64_t{1} << slot))) return slot;
  }
  return -1;
}
void free_slot(int slot) noexcept { flat->slots.fetch_and(~(std::uint64_t{1} << slot)); }
void before_clone(int) noexcept {}
void after_clone(int) noexcept {}
void enter_task(int slot) noexcept { slot_of_this = static_cast<std::uint32_t>(slot); }
void leave_task() noexcept {}

}  // namespace tmh::itm::pages

using tmh::itm::pages::allocate;

extern "C" {

void *malloc(std::size_t bytes) noexcept { return allocate(bytes, 16); }
void *calloc(std::size_t count, std::size_t bytes) noexcept {
  void *const block = allocate(count * bytes, 16);
  return block == nullptr ? nullptr : std::memset(block, 0, count * bytes);
}
void free(void *block) noexcept {
  if (block != nullptr && !tmh::itm::pages::is_ours(block) && !tmh::itm::pages::is_running)
    __libc_free(block);
}
void *realloc(void *block, std::size_t bytes) noexcept {
  void *const moved = allocate(bytes, 16);
  if (block != nullptr && moved != nullptr)
    std::memcpy(moved, block, std::min(bytes, tmh::itm::pages::usable(block)));
  return moved;
}
void *memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return allocate(bytes, alignment);
}
void *aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return allocate(bytes, alignment);
}
int posix_memalign(void **block, std::size_t alignment, std::size_t bytes) noexcept {
  *block = allocate(bytes, alignment);
  return *block == nullptr ? ENOMEM : 0;
}

// The hook by which tests let a thread die as of a signal inside of a transaction.
void tmh_itm_test_die(int signal) { tmh::itm::pages::tasks_die(signal); }

}  // extern "C"
