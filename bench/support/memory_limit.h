// bench/support/memory_limit.h -- a limit on the memory, page cache included, of the processes that
// enter it.
// Shape:     a memory control group, version 1 or 2, made and removed by its owner. Needs root and
//            a writable /sys/fs/cgroup.
#pragma once

#include <cstdint>
#include <string>

namespace tmh::bench {

class MemoryLimit {
 public:
  explicit MemoryLimit(std::uint64_t bytes);
  ~MemoryLimit();  // REQUIRES: who entered has ended
  MemoryLimit(const MemoryLimit &) = delete;
  MemoryLimit &operator=(const MemoryLimit &) = delete;
  [[nodiscard]] bool is_available() const noexcept { return !path_.empty(); }
  // The calling process, from now on; what it uses already is not counted. REQUIRES:
  // is_available(). Throws std::runtime_error.
  void enter() const;
  // Out of it: what it uses more is not limited.
  void leave() const;

 private:
  [[nodiscard]] bool put(const char *file, const std::string &text) const;
  std::string root_, path_;
};

// Writes the files of a folder to disk and forgets them, so that who reads them pays for them. No
// process may have them mapped. Throws std::system_error.
void drop_cache_of(const std::string &folder);

}  // namespace tmh::bench
