// platform/asymmetric_fence.cpp -- membarrier(2), for which glibc has no wrapper.
#include "platform/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace tmh::platform {

namespace {

long membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0u, 0); }

bool enrol() noexcept { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0; }

// The barrier itself as well: a filter of system calls may know the one and not the other.
bool is_there() noexcept { return enrol() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0; }

// Taking a right away interrupts the cores that run this process, so that they forget it: a barrier
// as well. For a process that has forbidden itself the system call since the library was loaded.
void interrupt_cores() noexcept {
  constexpr std::size_t kBytes = 4096;
  void *page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (page == MAP_FAILED) return;
  mprotect(page, kBytes, PROT_READ);
  munmap(page, kBytes);
}

}  // namespace

bool detail::has_membarrier = is_there();

void heavy_fence() noexcept {
  fence(std::memory_order_seq_cst);
  if (!detail::has_membarrier) return;
  const int saved_errno = errno;
  // A child need not have inherited its parent's registration.
  const bool passed = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0 ||
                      (enrol() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
  if (!passed) interrupt_cores();
  errno = saved_errno;
}

}  // namespace tmh::platform
