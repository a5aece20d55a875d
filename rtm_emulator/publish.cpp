// rtm_emulator/publish.cpp -- the file in memory and its descriptor.
#include "rtm_emulator/publish.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/system.h"

namespace tmh::rtm {

namespace {

int g_file = -1;
struct stat g_identity;
std::uint8_t *g_area = nullptr;

// A program that closes all descriptors may have opened another file under our number.
bool is_ours() noexcept {
  struct stat now;
  constexpr long kFstat = 5;
  static_assert(kFstat == SYS_fstat);
  return system_call(static_cast<Call>(kFstat), static_cast<std::uint64_t>(g_file),
                     address_of(&now)) == 0 &&
         now.st_ino == g_identity.st_ino && now.st_dev == g_identity.st_dev;
}

}  // namespace

bool open_staging() noexcept {
  const int low = ::memfd_create("tmh-rtm-emulation", MFD_CLOEXEC);
  if (low < 0) return false;
  // Out of the way of programs that count on small numbers.
  g_file = ::fcntl(low, F_DUPFD_CLOEXEC, 900);
  if (g_file < 0)
    g_file = low;
  else
    ::close(low);
  if (::ftruncate(g_file, kStagedBytes) != 0 || ::fstat(g_file, &g_identity) != 0) return false;
  void *area = ::mmap(nullptr, kStagedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, g_file, 0);
  if (area == MAP_FAILED) return false;
  g_area = static_cast<std::uint8_t *>(area);
  return true;
}

bool Staging::add(std::uint64_t address, std::uint64_t word) noexcept {
  TMH_ASSERT(g_area != nullptr && address % sizeof word == 0);
  const bool continues =
      count_ != 0 && runs_[count_ - 1].address + runs_[count_ - 1].bytes == address;
  if (bytes_ + sizeof word > kStagedBytes || (!continues && count_ == kRunsMax)) return false;
  if (!continues) runs_[count_++] = {address, 0};
  runs_[count_ - 1].bytes += sizeof word;
  __builtin_memcpy(g_area + bytes_, &word, sizeof word);
  bytes_ += sizeof word;
  return true;
}

bool Staging::store() noexcept {
  constexpr long kPreadv = 295;
  static_assert(kPreadv == SYS_preadv && kRunsMax == UIO_MAXIOV);
  static_assert(sizeof(Run) == sizeof(iovec) && offsetof(Run, bytes) == offsetof(iovec, iov_len));
  return count_ == 0 ||
         (is_ours() && system_call(static_cast<Call>(kPreadv), static_cast<std::uint64_t>(g_file),
                                   address_of(runs_), count_, 0, 0) == static_cast<long>(bytes_));
}

}  // namespace tmh::rtm
