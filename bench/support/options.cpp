// bench/support/options.cpp -- command line and scratch files that all benches share.
#include "bench/support/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <tmh/options.hpp>

#include "platform/assert.h"

namespace tmh::bench {

void add_common_options(CommandLine &line, CommonOptions *options) {
  TMH_ASSERT(options != nullptr);
  line.add_flag("--tiny", options->tiny, "small inputs, below 2 s (what the test suite runs)");
  line.add_option("--csv", options->csv, "write one line per result to this file");
  line.add_option("--json", options->json,
                  "write environment, parameters and results to this file");
  line.add_option("--folder,--dir", options->folder,
                  "where scratch files are made (default: the temporary folder)");
  line.add_option("--seed", options->seed, "seed of all random choices")
      .capture_default_str()
      .envname("TMH_SEED");
}

int run_bench(CommandLine &line, int argc, char **argv, const std::function<int()> &body) {
  TMH_ASSERT(argv != nullptr && body != nullptr);
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    return body();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", line.name().c_str(), error.what());
    return 1;
  }
}

int skipped(const std::string &reason) {
  TMH_ASSERT(!reason.empty());
  std::printf("[  SKIPPED ] %s\n", reason.c_str());
  return 77;  // what automake and the kernel's own tests use
}

ScratchFolder::ScratchFolder(const std::string &parent) : owner_pid_(::getpid()) {
  const std::string base =
      parent.empty() ? std::filesystem::temp_directory_path().string() : parent;
  std::string pattern = base + "/tmh-bench-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot make a scratch folder in " + base);
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  // A destructor may not throw, and the temporary folder is cleaned by others too.
  std::error_code ignored;
  if (::getpid() == owner_pid_) std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::subfolder(const std::string &name) const {
  TMH_ASSERT(!name.empty());
  const std::string path = path_ + "/" + name;
  std::filesystem::create_directories(path);
  return path;
}

void write_page_file(const std::string &path, std::uint64_t page_count) {
  TMH_ASSERT(page_count <= std::numeric_limits<std::uint32_t>::max());
  constexpr std::uint64_t kPagesPerPiece = 32;  // 128 KiB, the block size of GNU cp
  static_assert(kPagesPerPiece * kPageBytes == 128 * 1024);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  std::vector<std::byte> piece(kPagesPerPiece * kPageBytes);
  for (std::uint64_t page = 0; page < page_count; page += kPagesPerPiece) {
    const std::uint64_t pages = std::min(kPagesPerPiece, page_count - page);
    for (std::uint64_t i = 0; i < pages; ++i) {
      const auto value = static_cast<std::uint32_t>(page + i);
      std::memcpy(piece.data() + i * kPageBytes, &value, sizeof(value));
    }
    const auto bytes = static_cast<ssize_t>(pages * kPageBytes);
    if (::pwrite(fd, piece.data(), static_cast<std::size_t>(bytes),
                 static_cast<off_t>(page * kPageBytes)) != bytes) {
      const int error = errno;
      (void)::close(fd);
      throw std::system_error(error, std::generic_category(), path);
    }
  }
  (void)::close(fd);
}

}  // namespace tmh::bench
