// observe/trace.cpp -- see trace.h.
#include "observe/trace.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/fence.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::observe {

using platform::fail;
using platform::fail_errno;

constinit std::atomic<TraceHeaderV1 *> detail::trace{nullptr};

namespace {
// initial-exec: a lazily allocated one would not be safe in a handler.
__attribute__((tls_model("initial-exec"))) constinit thread_local std::uint64_t own_thread = 0;
// Of forks.
__attribute__((tls_model("initial-exec"))) constinit thread_local std::uint32_t own_generation =
    ~0u;

std::uint64_t this_thread() noexcept {
  if (own_generation != platform::fork_generation()) {
    own_generation = platform::fork_generation();
    own_thread = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  }
  return own_thread;
}
}  // namespace

void detail::record(TraceHeaderV1 &header, TraceKind kind, std::uint32_t level, std::uint64_t first,
                    std::uint64_t second, std::uint64_t third) noexcept {
  TMH_ASSERT(level <= 0xffff && static_cast<std::uint32_t>(kind) <= 0xffff);
  // Relaxed: numbers tell.
  const std::uint64_t position = header.head.fetch_add(1, std::memory_order_relaxed);
  auto *const events = reinterpret_cast<TraceEventV1 *>(&header + 1);
  static_assert(kTraceBytes == sizeof(TraceHeaderV1) + kTraceEvents * sizeof(TraceEventV1));
  TraceEventV1 &event = events[position % kTraceEvents];
  event.number.store(0, std::memory_order_relaxed);
  platform::fence(std::memory_order_release);  // no field is seen before the 0
  event.ns.store(platform::monotonic_ns(), std::memory_order_relaxed);
  event.who.store(this_thread() << 32 | level << 16 | static_cast<std::uint32_t>(kind),
                  std::memory_order_relaxed);
  event.first.store(first, std::memory_order_relaxed);
  event.second.store(second, std::memory_order_relaxed);
  event.third.store(third, std::memory_order_relaxed);
  event.number.store(position + 1, std::memory_order_release);  // pairs with the reader's acquire
}

Errc open_trace(const std::string &folder, std::uint32_t slot, const std::string &name) noexcept {
  const char *const wanted = std::getenv("TMH_TRACE");
  if (wanted == nullptr || *wanted == 0 || std::strcmp(wanted, "off") == 0) return Errc::kOk;
  if (std::strcmp(wanted, "on") != 0)
    return fail(Errc::kBadArgument,
                std::string("TMH_TRACE='") + wanted + "'; right values: off, on");
  const std::string path = trace_path(folder, slot);
  // A new file: a process that had the slot before may live on, with the old one mapped.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(Errc::kIo, path);
  platform::FileDescriptor file;
  TMH_TRY(platform::open_regular(path, O_RDWR | O_CREAT | O_EXCL, platform::FileRole::kOwn, &file));
  if (::ftruncate(file.get(), static_cast<off_t>(kTraceBytes)) != 0)
    return fail_errno(Errc::kIo, path);
  if (const Errc error = platform::allocate_blocks(file.get(), 0, kTraceBytes); error != Errc::kOk)
    return fail(error, path);
  void *const memory =
      ::mmap(nullptr, kTraceBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, path);
  auto *const header = static_cast<TraceHeaderV1 *>(memory);
  header->version = kTraceVersion;
  header->event_count = kTraceEvents;
  header->pid = ::getpid();
  header->slot = slot;
  std::memcpy(header->name, name.data(), std::min(name.size(), sizeof header->name - 1));
  std::atomic_ref(header->magic)
      .store(kTraceMagic, std::memory_order_release);  // last: a reader believes the rest then
  detail::trace.store(header, std::memory_order_relaxed);
  return Errc::kOk;
}

}  // namespace tmh::observe
