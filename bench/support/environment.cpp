// bench/support/environment.cpp -- what a number depends on besides the code.
#include "bench/support/environment.h"

#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

// The first line that `command` prints; empty when it fails.
std::string first_line_of(const std::string &command) {
  TMH_ASSERT(!command.empty());
  struct Closer {
    void operator()(std::FILE *file) const noexcept { (void)::pclose(file); }
  };
  const std::unique_ptr<std::FILE, Closer> pipe(::popen(command.c_str(), "r"));
  std::array<char, 256> line{};
  if (!pipe || std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) == nullptr)
    return {};
  std::string text(line.data());
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// TMH_COMMIT wins; else git, asked in the folder that this program was built from (the build names
// it).
std::string commit() {
  if (const char *given = std::getenv("TMH_COMMIT")) return given;
#if defined(TMH_BENCH_SOURCE_DIR)
  const std::string folder = TMH_BENCH_SOURCE_DIR;
#else
  const std::string folder;
#endif
  if (folder.empty() || folder.find('\'') != std::string::npos) return "unknown";
  const std::string git = "git -C '" + folder + "' ";
  std::string hash = first_line_of(git + "rev-parse --short=12 --verify HEAD 2>/dev/null");
  if (hash.empty()) return "unknown";
  if (!first_line_of(git + "status --porcelain --untracked-files=no 2>/dev/null").empty())
    hash += "+changes";
  return hash;
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string flags() {
#if defined(TMH_BENCH_FLAGS)
  return TMH_BENCH_FLAGS;
#else
  return "unknown";
#endif
}

// Value of the first "key : value" line in /proc/cpuinfo.
std::string cpuinfo(const std::string &key) {
  TMH_ASSERT(!key.empty());
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

// Listed does not mean that a transaction ever commits (docs/design.md 4); level 2 does not use
// RTM.
std::string rtm() {
  const std::string listed = " " + cpuinfo("flags") + " ";
  return listed.find(" rtm ") != std::string::npos ? "listed" : "absent";
}

std::string file_system(const std::string &folder) {
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) return "unknown";
  switch (static_cast<unsigned long>(info.f_type)) {  // numbers: statfs(2)
    case 0xef53UL:
      return "ext4";
    case 0x01021994UL:
      return "tmpfs";
    case 0x58465342UL:
      return "xfs";
    case 0x9123683eUL:
      return "btrfs";
    case 0x794c7630UL:
      return "overlayfs";
    case 0x2fc12fc1UL:
      return "zfs";
    case 0x6969UL:
      return "nfs";
    default:
      break;
  }
  std::array<char, 24> number{};
  (void)std::snprintf(number.data(), number.size(), "type 0x%lx",
                      static_cast<unsigned long>(info.f_type));
  return number.data();
}

std::string setting(const char *path) {
  TMH_ASSERT(path != nullptr);
  std::ifstream file(path);
  std::string text;
  return file >> text ? text : "absent";
}

}  // namespace

Json environment(const std::string &folder) {
  struct utsname name {};
  (void)::uname(&name);
  Json columns;
  columns["commit"] = commit();
  columns["compiler"] = compiler();
  columns["flags"] = flags();
  columns["cpu"] = cpuinfo("model name");
  columns["cores"] = ::sysconf(_SC_NPROCESSORS_ONLN);
  columns["rtm"] = rtm();
  columns["kernel"] = std::string(name.sysname) + " " + name.release;
  columns["file_system"] = file_system(folder);
  columns["perf_event_paranoid"] = setting("/proc/sys/kernel/perf_event_paranoid");
  columns["unprivileged_userfaultfd"] = setting("/proc/sys/vm/unprivileged_userfaultfd");
  columns["euid"] = static_cast<std::int64_t>(::geteuid());
  return columns;
}

}  // namespace tmh::bench
