// bench/support/process_memory.h -- what the kernel says about a process's memory.
#pragma once

#include <cstdint>
#include <string>

namespace tmh::bench {

// Of /proc/<pid>/status, in bytes; all zero when the process is gone, and of pid 0: none yet.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0;  // VmRSS = anon + file + shmem
  std::uint64_t anon_bytes = 0;      // private memory: page copies, heap
  std::uint64_t file_bytes = 0;      // mapped files, the domain's among them
  std::uint64_t shmem_bytes = 0;
};
[[nodiscard]] ProcessMemory process_memory(int pid);

// Lines of /proc/self/maps: memory areas, of which the kernel allows vm.max_map_count.
[[nodiscard]] std::uint64_t own_area_count();
[[nodiscard]] std::uint64_t area_count_max();  // vm.max_map_count

// Bytes allocated on disk for all files below `folder`.
[[nodiscard]] std::uint64_t folder_bytes(const std::string &folder);

}  // namespace tmh::bench
