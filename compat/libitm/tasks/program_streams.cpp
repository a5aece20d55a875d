#include "compat/libitm/tasks/program_streams.h"

#include <stdio_ext.h>

#include <atomic>
#include <cstdint>

#include "compat/libitm/tasks/task_records.h"
#include "levels/process/ground/ground.h"
#include "platform/futex.h"

extern "C" void _IO_un_link(std::FILE *stream);

namespace tmh::itm::pages {

namespace {

// The C library's bits of FILE::_flags: fixed by its ABI, as libio.h had them.
constexpr int kUnlocked = 0x8000;

struct Stream {
  std::atomic<std::FILE *> stream;
  std::atomic<std::uint32_t> lock;   // 0: free, 1: locked, 2: somebody waits, too
  std::atomic<std::uint32_t> owner;  // slot + 1; 0: none
  std::uint32_t depth;               // the owner's
  char buffer[BUFSIZ];
};
static_assert(std::atomic<std::FILE *>::is_always_lock_free);
Stream *streams = nullptr;

// Null: the C library's.
[[nodiscard]] Stream *find(std::FILE *stream) noexcept {
  if (stream == nullptr || (stream->_flags & kUnlocked) == 0 || !is_task()) return nullptr;
  for (std::size_t i = 0; i < kStreamsMax; ++i)
    if (streams[i].stream.load(std::memory_order_relaxed) == stream) return &streams[i];
  return nullptr;
}

[[nodiscard]] bool try_lock(Stream &each) noexcept {
  const std::uint32_t self = own_slot() + 1;
  if (each.owner.load(std::memory_order_relaxed) != self) {
    std::uint32_t free = 0;
    // acquire: what the owner before has done
    if (!each.lock.compare_exchange_strong(free, 1, std::memory_order_acquire)) return false;
    each.owner.store(self, std::memory_order_relaxed);
  }
  TMH_ASSERT(each.lock.load(std::memory_order_relaxed) != 0);
  ++each.depth;
  return true;
}

void unlock(Stream &each) noexcept {
  TMH_ASSERT(each.depth != 0 && each.owner.load(std::memory_order_relaxed) == own_slot() + 1);
  if (--each.depth != 0) return;
  each.owner.store(0, std::memory_order_relaxed);
  if (each.lock.exchange(0, std::memory_order_release) == 2) platform::futex_wake(each.lock, 1);
}

// The end of the program, in whichever task calls exit().
[[gnu::destructor]] void flush_at_exit() {
  if (is_task()) flush_program_streams();
}

}  // namespace

bool start_program_streams() noexcept {
  TMH_ASSERT(streams == nullptr);
  streams = static_cast<Stream *>(reserve_shared(kStreamsMax * sizeof(Stream)));
  return streams != nullptr;
}

std::FILE *add_stream(std::FILE *stream) noexcept {
  if (stream == nullptr || !is_task()) return stream;
  for (std::size_t i = 0; i < kStreamsMax; ++i) {
    Stream &each = streams[i];
    std::FILE *none = nullptr;
    if (!each.stream.compare_exchange_strong(none, stream, std::memory_order_acq_rel)) continue;
    _IO_un_link(stream);
    __fsetlocking(stream, FSETLOCKING_BYCALLER);
    TMH_REAL(setvbuf)(stream, each.buffer, _IOFBF, sizeof each.buffer);
    break;
  }
  return stream;
}

void remove_stream(std::FILE *stream) noexcept {
  Stream *const found = find(stream);
  if (found == nullptr) return;
  TMH_REAL(fflush)(stream);
  // The buffer is another stream's from here on.
  TMH_REAL(setvbuf)(stream, nullptr, _IONBF, 0);
  found->owner.store(0, std::memory_order_relaxed);
  found->depth = 0;
  found->lock.store(0, std::memory_order_relaxed);
  found->stream.store(nullptr, std::memory_order_release);
}

void flush_program_streams() noexcept {
  for (std::size_t i = 0; i < kStreamsMax; ++i) {
    Stream &each = streams[i];
    if (each.stream.load(std::memory_order_acquire) == nullptr || !try_lock(each)) continue;
    std::FILE *const stream = each.stream.load(std::memory_order_acquire);
    if (stream != nullptr) TMH_REAL(fflush)(stream);
    unlock(each);
  }
}

void lock_stream(std::FILE *stream) noexcept {
  Stream *const found = find(stream);
  if (found == nullptr || try_lock(*found)) return;
  while (found->lock.exchange(2, std::memory_order_acquire) != 0)
    platform::futex_wait(found->lock, 2, 1'000'000'000);
  TMH_ASSERT(found->owner.load(std::memory_order_relaxed) == 0);
  found->owner.store(own_slot() + 1, std::memory_order_relaxed);
  found->depth = 1;
}

bool try_lock_stream(std::FILE *stream) noexcept {
  Stream *const found = find(stream);
  return found == nullptr || try_lock(*found);
}

void unlock_stream(std::FILE *stream) noexcept {
  Stream *const found = find(stream);
  if (found != nullptr) unlock(*found);
}

}  // namespace tmh::itm::pages
