// examples/inverted_index/file.h -- an open file that closes itself, and reading a part of it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

namespace inverted_index {

struct Read {
  std::string bytes;  // fewer than asked for when the file ends there
  int error = 0;      // an errno value
};

class File {
 public:
  File(const std::string &path, int flags) noexcept : descriptor_(::open(path.c_str(), flags)) {
    if (descriptor_ < 0) error_ = errno;
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] int error() const noexcept { return error_; }

  [[nodiscard]] Read read_at(std::uint64_t offset_bytes, std::size_t bytes_max) const {
    Read result;
    result.bytes.resize(bytes_max);
    std::size_t done = 0;
    while (done < bytes_max) {
      const ::ssize_t got = ::pread(descriptor_, result.bytes.data() + done, bytes_max - done,
                                    static_cast<::off_t>(offset_bytes + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) result.error = errno;
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    result.bytes.resize(done);
    return result;
  }

 private:
  int descriptor_;
  int error_ = 0;
};

}  // namespace inverted_index
