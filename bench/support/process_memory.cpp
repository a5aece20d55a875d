// bench/support/process_memory.cpp -- what the kernel says about a process's memory.
#include "bench/support/process_memory.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "platform/assert.h"

namespace tmh::bench {

ProcessMemory process_memory(int pid) {
  TMH_ASSERT(pid >= 0);
  ProcessMemory memory;
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kib = 0;
    if (!(words >> key >> kib)) continue;
    if (key == "VmRSS:") memory.resident_bytes = kib * 1024;
    if (key == "RssAnon:") memory.anon_bytes = kib * 1024;
    if (key == "RssFile:") memory.file_bytes = kib * 1024;
    if (key == "RssShmem:") memory.shmem_bytes = kib * 1024;
  }
  return memory;
}

std::uint64_t own_area_count() {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

std::uint64_t area_count_max() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  std::uint64_t count = 0;
  file >> count;
  return count;
}

std::uint64_t folder_bytes(const std::string &folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;  // a file may vanish between listing and stat
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    struct stat info {};
    // Unit of st_blocks, whatever the file system: stat(2).
    constexpr std::uint64_t kBlockBytes = 512;
    if (::stat(entry.path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      bytes += static_cast<std::uint64_t>(info.st_blocks) * kBlockBytes;
    }
  }
  return bytes;
}

}  // namespace tmh::bench
