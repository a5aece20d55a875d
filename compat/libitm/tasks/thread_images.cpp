#include "compat/libitm/tasks/thread_images.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "levels/process/ground/ground.h"
#include "platform/futex.h"

namespace tmh::itm::pages {

namespace {

struct Image {
  void *thread_pointer;
  void *robust_list;
  std::size_t robust_list_bytes;
  char *begin;                       // of the image in the slot; stacks of tasks end here
  char *copy;                        // of [begin, end of the slot)
  std::atomic<std::uint32_t> lives;  // the kernel clears it, and wakes
};

Image *images = nullptr;

// The C library's dynamic thread vector: a slot keeps the one it has, which may have grown.
struct TlsBlock {
  void *block;
  void *to_free;
};
struct ThreadControl {
  void *self;
  TlsBlock *vector;
};
void *const kUnallocated = reinterpret_cast<void *>(~std::uintptr_t{0});

[[nodiscard]] char *end_of(std::uint32_t slot) noexcept {
  return reinterpret_cast<char *>(stacks_range().begin) + (slot + 1) * kStackSlot;
}

// Where the C library keeps a thread's number in its descriptor: before the list of its robust
// mutexes, whose place the kernel knows.
std::size_t number_offset = 0;
constexpr std::size_t kFromNumberToList = 16;
static_assert(sizeof(pid_t) == sizeof(std::int32_t) && sizeof(pthread_t) == sizeof(void *));

[[nodiscard]] std::int32_t own_thread_number() noexcept {
  return static_cast<std::int32_t>(syscall(SYS_gettid));
}

void set_number(void *thread_pointer) noexcept {
  TMH_ASSERT(number_offset != 0);
  const std::int32_t number = own_thread_number();
  std::memcpy(static_cast<char *>(thread_pointer) + number_offset, &number, sizeof number);
}

// The real thread. It must not return: the C library would take the thread apart.
void *note_image(void *argument) {
  Image &image = *static_cast<Image *>(argument);
  image.thread_pointer = reinterpret_cast<void *>(pthread_self());
  syscall(SYS_get_robust_list, 0, &image.robust_list, &image.robust_list_bytes);
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  image.begin = reinterpret_cast<char *>(frame & ~std::uintptr_t{63});
  leave_restartable_sequences();
  syscall(SYS_set_robust_list, nullptr, image.robust_list_bytes);
  syscall(SYS_set_tid_address, &image.lives);
  for (;;) syscall(SYS_exit, 0);
}

[[nodiscard]] bool make_thread(std::uint32_t slot) noexcept {
  TMH_ASSERT(0 < slot && slot < kTasksMax);
  char *const end = end_of(slot);
  char *const begin = end - kStackSlot;
  if (mprotect(begin, kGuardBytes, PROT_NONE) != 0) return false;
  Image &image = images[slot];
  image.lives.store(1, std::memory_order_relaxed);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_t thread;
  const bool is_made =
      pthread_attr_setstack(&attributes, begin + kGuardBytes, kStackSlot - kGuardBytes) == 0 &&
      TMH_REAL(pthread_create)(&thread, &attributes, note_image, &image) == 0;
  pthread_attr_destroy(&attributes);
  return is_made;
}

}  // namespace

bool find_thread_number() noexcept {
  const auto self = reinterpret_cast<std::uintptr_t>(pthread_self());
  std::uintptr_t list = 0;
  std::size_t bytes = 0;
  if (syscall(SYS_get_robust_list, 0, &list, &bytes) != 0 || list < self + kFromNumberToList)
    return false;
  number_offset = list - self - kFromNumberToList;
  const std::int32_t number = own_thread_number();
  return std::memcmp(reinterpret_cast<char *>(self) + number_offset, &number, sizeof number) == 0;
}

bool make_thread_images() noexcept {
  if (images != nullptr) return true;
  images = static_cast<Image *>(reserve_shared(kTasksMax * sizeof(Image)));
  if (images == nullptr) return false;
  std::uint32_t made = 1;
  while (made < kTasksMax && make_thread(made)) ++made;
  bool is_sound = made == kTasksMax;
  for (std::uint32_t slot = 1; slot < made; ++slot) {
    Image &image = images[slot];
    while (image.lives.load(std::memory_order_acquire) != 0)
      platform::futex_wait(image.lives, 1, 1'000'000'000);
    TMH_ASSERT(end_of(slot) - kStackSlot + kGuardBytes < image.begin && image.begin < end_of(slot));
    const auto bytes = static_cast<std::size_t>(end_of(slot) - image.begin);
    image.copy = static_cast<char *>(reserve_shared(bytes));
    is_sound = is_sound && image.copy != nullptr;
    if (image.copy != nullptr) std::memcpy(image.copy, image.begin, bytes);
  }
  return is_sound;
}

void restore_thread_image(std::uint32_t slot) noexcept {
  TMH_ASSERT(0 < slot && slot < kTasksMax);
  const Image &image = images[slot];
  auto &control = *static_cast<ThreadControl *>(image.thread_pointer);
  TlsBlock *const vector = control.vector;
  std::memcpy(image.begin, image.copy, static_cast<std::size_t>(end_of(slot) - image.begin));
  control.vector = vector;
  // Blocks of the static TLS lie in the image; others were made on demand, and are again.
  const auto length = reinterpret_cast<std::uintptr_t>(vector[-1].block);
  for (std::uintptr_t i = 1; i <= length; ++i)
    if (vector[i].to_free != nullptr) {
      std::free(vector[i].to_free);
      vector[i] = {kUnallocated, nullptr};
    }
}

void *thread_pointer_of(std::uint32_t slot) noexcept { return images[slot].thread_pointer; }
void *stack_top_of(std::uint32_t slot) noexcept { return images[slot].begin; }

void adopt_thread_image(std::uint32_t slot) noexcept {
  TMH_ASSERT(0 < slot && slot < kTasksMax);
  const Image &image = images[slot];
  set_number(image.thread_pointer);
  syscall(SYS_set_robust_list, image.robust_list, image.robust_list_bytes);
  enter_restartable_sequences();
}

void adopt_forked_thread() noexcept {
  auto *const descriptor = reinterpret_cast<char *>(pthread_self());
  set_number(descriptor);
  constexpr std::size_t kListBytes = 24;  // struct robust_list_head
  syscall(SYS_set_robust_list, descriptor + number_offset + kFromNumberToList, kListBytes);
}

namespace {

// The size that the C library of Debian 12 registers; __rseq_size is 0 where it does not.
constexpr unsigned kSequenceBytes = 32;
static_assert(sizeof(struct rseq) == kSequenceBytes);
[[nodiscard]] char *sequences() noexcept {
  return reinterpret_cast<char *>(pthread_self()) + __rseq_offset;
}

}  // namespace

void leave_restartable_sequences() noexcept {
  if (__rseq_size != 0)
    syscall(SYS_rseq, sequences(), kSequenceBytes, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
}

void enter_restartable_sequences() noexcept {
  if (__rseq_size != 0) syscall(SYS_rseq, sequences(), kSequenceBytes, 0, RSEQ_SIG);
}

}  // namespace tmh::itm::pages
