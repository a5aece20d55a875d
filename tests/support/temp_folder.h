// tests/support/temp_folder.h -- a fresh folder for one test, removed with everything in it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tmh::test {

class TempFolder {
 public:
  TempFolder();
  explicit TempFolder(const std::string &parent);
  ~TempFolder();  // only in the process that made it: forked children hold copies
  TempFolder(const TempFolder &) = delete;
  TempFolder &operator=(const TempFolder &) = delete;

  [[nodiscard]] const std::string &path() const noexcept { return path_; }
  [[nodiscard]] std::string operator/(const std::string &name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  pid_t owner_;
};

// Memory where there is enough (1 GiB in /dev/shm), else the usual place: for tests that ask
// nothing of the disk.
[[nodiscard]] std::string memory_folder();

class MemoryFolder : public TempFolder {
 public:
  MemoryFolder() : TempFolder(memory_folder()) {}
};

// The file as bytes, or its first bytes_max ones; throws when it cannot be read.
[[nodiscard]] std::string read_file(const std::string &path, std::size_t bytes_max = SIZE_MAX);
void write_file(const std::string &path, const std::string &bytes);
// Writes `bytes` into the existing file at `offset`.
void patch_file(const std::string &path, std::size_t offset, const std::string &bytes);

}  // namespace tmh::test
