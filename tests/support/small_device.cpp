// tests/support/small_device.cpp -- mounting, and dropping pages.
#include "tests/support/small_device.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include <tmh/tmh.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {

bool mount_device(Device device, std::uint64_t mib, const std::string &image,
                  const std::string &folder) {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return false;
  if (device == Device::kTmpfs)
    return mount("tmpfs", folder.c_str(), "tmpfs", 0,
                 ("size=" + std::to_string(mib) + "m").c_str()) == 0;
  write_file(image, "");
  if (truncate(image.c_str(), static_cast<off_t>(mib << 20)) != 0) return false;
  const std::string quiet = " >/dev/null 2>&1";
  return std::system(("mkfs.ext4 -q -m 0 -b 4096 " + image + quiet).c_str()) == 0 &&
         std::system(("mount -o loop " + image + " " + folder + quiet).c_str()) == 0;
}

std::uint64_t drop_unstored_pages(const std::string &path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat before {
  }, after{};
  if (fd < 0 || fstat(fd, &before) != 0) throw std::runtime_error(path);
  const auto bytes = static_cast<std::size_t>(before.st_size);
  void *const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("mmap of " + path);
  auto *const at = static_cast<std::byte *>(mapped);
  // Only pages that are mapped are looked at.
  for (off_t data = 0; (data = lseek(fd, data, SEEK_DATA)) >= 0;) {
    const off_t hole = lseek(fd, data, SEEK_HOLE);
    for (; data < hole; data += static_cast<off_t>(kPageBytes))
      (void)std::atomic_ref<std::byte>(at[data]).load(std::memory_order_relaxed);
  }
  madvise(at, bytes, MADV_PAGEOUT);
  munmap(mapped, bytes);
  const bool is_known = fstat(fd, &after) == 0;
  close(fd);
  if (!is_known || after.st_blocks > before.st_blocks) return 0;
  return static_cast<std::uint64_t>(before.st_blocks - after.st_blocks) * 512 / kPageBytes;
}

}  // namespace tmh::test
