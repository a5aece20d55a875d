// rtm_emulator/publish.h -- stores of a commit that SIGKILL does not cut in two.
// Shape:     the words to store are collected in a file in memory; one preadv() then scatters them
//            over the program's memory.
// Invariant: the kernel looks at signals before it starts to copy and after it is done, not between
//            pages that are present. So a process that is killed has stored everything or nothing,
//            for up to kRunsMax runs of words.
// Contexts:  begin_publication() is in force: the collecting area is one per process, and shared
//            with its children.
// Source:    Linux mm/shmem.c, shmem_file_read_iter() (5.10 to 6.18).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::rtm {

inline constexpr std::size_t kRunsMax = 1024;             // UIO_MAXIOV
inline constexpr std::size_t kStagedBytes = 1024 * 1024;  // 16384 lines

[[nodiscard]] bool open_staging() noexcept;  // normal code, once

class Staging {
 public:
  // False: it is full; what was added stays.
  [[nodiscard]] bool add(std::uint64_t address, std::uint64_t word) noexcept;
  // False: nothing was stored; the program may have closed our descriptor.
  [[nodiscard]] bool store() noexcept;

 private:
  struct Run {
    std::uint64_t address, bytes;  // struct iovec
  };
  Run runs_[kRunsMax];
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tmh::rtm
