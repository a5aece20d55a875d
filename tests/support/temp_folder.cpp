// tests/support/temp_folder.cpp -- mkdtemp, and small file helpers.
#include "tests/support/temp_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace tmh::test {

namespace {
// FIFOs and devices have no length, and are not to be cut.
bool is_longer(int fd, std::size_t bytes) {
  struct stat status {};
  return fstat(fd, &status) == 0 && static_cast<std::size_t>(status.st_size) > bytes;
}
}  // namespace

TempFolder::TempFolder() : TempFolder(std::filesystem::temp_directory_path().string()) {}

TempFolder::TempFolder(const std::string &parent) : owner_(getpid()) {
  path_ = parent + "/tmh-test-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), path_);
}

TempFolder::~TempFolder() {
  if (getpid() != owner_) return;
  std::error_code ignored;  // a test may have taken our permissions away; the next reboot cleans up
  std::filesystem::remove_all(path_, ignored);
}

std::string memory_folder() {
  // A container's /dev/shm may have 64 MiB: too little for some tests at once, and a full one kills
  // them (SIGBUS).
  constexpr std::uint64_t kFreeBytesMin = 1u << 30;
  struct statvfs status {};
  const bool is_roomy = access("/dev/shm", W_OK | X_OK) == 0 && statvfs("/dev/shm", &status) == 0 &&
                        status.f_bavail * status.f_frsize >= kFreeBytesMin;
  return is_roomy ? "/dev/shm" : std::filesystem::temp_directory_path().string();
}

std::string read_file(const std::string &path, std::size_t bytes_max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error("cannot read " + path);
  struct stat status {};
  fstat(fd, &status);
  std::string bytes;
  bool is_broken = false;
  // One byte more than there should be: the next read tells whether that was the end. /proc says 0,
  // and files grow.
  std::size_t room = static_cast<std::size_t>(status.st_size) + 1, count = 0;
  for (;;) {
    bytes.resize(std::min(bytes_max, room));
    const ssize_t more = read(fd, bytes.data() + count, bytes.size() - count);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) is_broken = true;
    if (more <= 0) break;
    count += static_cast<std::size_t>(more);
    if (count == room) room = 2 * room + 4096;
  }
  close(fd);
  if (is_broken) throw std::runtime_error("cannot read " + path);
  bytes.resize(count);
  return bytes;
}

void write_file(const std::string &path, const std::string &bytes) {
  // Cut afterwards, not emptied first: the pages that the file has are written again.
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw std::runtime_error("cannot write " + path);
  std::size_t done = 0;
  bool is_broken = false;
  while (done < bytes.size() && !is_broken) {
    const ssize_t more = write(fd, bytes.data() + done, bytes.size() - done);
    if (more > 0) done += static_cast<std::size_t>(more);
    is_broken = more <= 0 && errno != EINTR;
  }
  is_broken = is_broken ||
              (is_longer(fd, bytes.size()) && ftruncate(fd, static_cast<off_t>(bytes.size())) != 0);
  close(fd);
  if (is_broken) throw std::runtime_error("cannot write " + path);
}

void patch_file(const std::string &path, std::size_t offset, const std::string &bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot patch " + path);
}

}  // namespace tmh::test
