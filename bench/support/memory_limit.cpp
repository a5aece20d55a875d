// bench/support/memory_limit.cpp -- a memory control group.
#include "bench/support/memory_limit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "platform/assert.h"

namespace tmh::bench {

MemoryLimit::MemoryLimit(std::uint64_t bytes) {
  TMH_ASSERT(bytes > 0);
  constexpr std::string_view kVersion1 = "/sys/fs/cgroup/memory", kVersion2 = "/sys/fs/cgroup";
  for (const std::string_view root : {kVersion1, kVersion2}) {
    path_ = std::string(root) + "/tmh-bench-" + std::to_string(::getpid());
    if (::mkdir(path_.c_str(), 0755) != 0) continue;
    root_ = root;
    if (put(root == kVersion1 ? "/memory.limit_in_bytes" : "/memory.max", std::to_string(bytes)))
      return;
    (void)::rmdir(path_.c_str());
  }
  path_.clear();
}

MemoryLimit::~MemoryLimit() {
  if (!path_.empty()) (void)::rmdir(path_.c_str());
}

void MemoryLimit::enter() const {
  TMH_ASSERT(is_available());
  if (!put("/cgroup.procs", std::to_string(::getpid())))
    throw std::runtime_error("cannot enter " + path_);
}

void MemoryLimit::leave() const {
  std::ofstream out(root_ + "/cgroup.procs");
  out << ::getpid() << std::flush;
  if (!out.good()) throw std::runtime_error("cannot leave " + path_);
}

bool MemoryLimit::put(const char *file, const std::string &text) const {
  TMH_ASSERT(file != nullptr && !path_.empty());
  std::ofstream out(path_ + file);
  out << text << std::flush;
  return out.good();
}

void drop_cache_of(const std::string &folder) {
  const auto fail = [](const std::string &file) {
    throw std::system_error(errno, std::generic_category(), file);
  };
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(entry.path());
    const bool is_synced = ::fdatasync(fd) == 0;
    (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)::close(fd);
    if (!is_synced) fail(entry.path());
  }
}

}  // namespace tmh::bench
