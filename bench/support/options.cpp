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
#include <stdexcept>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include <tmh/options.hpp>

namespace tmh::bench {

CommandOption &CommandOption::capture_default_str() {
  option_->capture_default_str();
  return *this;
}

CommandOption &CommandOption::delimiter(char between_values) {
  option_->delimiter(between_values);
  return *this;
}

CommandOption &CommandOption::check_positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

CommandOption &CommandOption::check_range(std::uint64_t min, std::uint64_t max) {
  option_->check(CLI::Range(min, max));
  return *this;
}

CommandOption &CommandOption::check_one_of(const std::vector<std::string> &values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

CommandLine::CommandLine(const std::string &description, const std::string &name)
    : app_(std::make_unique<CLI::App>(description, name)) {}

CommandLine::~CommandLine() = default;

template <class T>
CommandOption CommandLine::add_option(const std::string &names, T &value,
                                      const std::string &description) {
  return CommandOption(app_->add_option(names, value, description));
}

CommandOption CommandLine::add_flag(const std::string &names, bool &value,
                                    const std::string &description) {
  return CommandOption(app_->add_flag(names, value, description));
}

#define TMH_BENCH_OPTION_TYPE(...)                                                   \
  template CommandOption CommandLine::add_option(const std::string &, __VA_ARGS__ &, \
                                                 const std::string &)
TMH_BENCH_OPTION_TYPE(int);
TMH_BENCH_OPTION_TYPE(unsigned);
TMH_BENCH_OPTION_TYPE(std::uint64_t);
TMH_BENCH_OPTION_TYPE(double);
TMH_BENCH_OPTION_TYPE(std::string);
TMH_BENCH_OPTION_TYPE(std::vector<unsigned>);
TMH_BENCH_OPTION_TYPE(std::vector<std::uint64_t>);
TMH_BENCH_OPTION_TYPE(std::vector<std::string>);
#undef TMH_BENCH_OPTION_TYPE

void add_common_options(CommandLine &line, CommonOptions *options) {
  CLI::App &app = line.app();
  app.add_flag("--tiny", options->tiny, "small inputs, below 2 s (what the test suite runs)");
  app.add_option("--csv", options->csv, "write one line per result to this file");
  app.add_option("--json", options->json, "write environment, parameters and results to this file");
  app.add_option("--folder,--dir", options->folder,
                 "where scratch files are made (default: the temporary folder)");
  app.add_option("--seed", options->seed, "seed of all random choices")
      ->capture_default_str()
      ->envname("TMH_SEED");
}

int run_bench(CommandLine &line, int argc, char **argv, const std::function<int()> &body) {
  CLI::App &app = line.app();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error);
  }
  try {
    return body();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return 1;
  }
}

int skipped(const std::string &reason) {
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
  const std::string path = path_ + "/" + name;
  std::filesystem::create_directories(path);
  return path;
}

void write_page_file(const std::string &path, std::uint64_t page_count) {
  constexpr std::uint64_t kPagesPerPiece = 32;  // 128 KiB, the block size of GNU cp
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
