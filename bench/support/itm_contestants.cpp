// bench/support/itm_contestants.cpp -- GCC's libitm, ours, others; how the loader is told of one.
#include "bench/support/itm_contestants.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "bench/support/cross_level.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char *kGccMethods[] = {"ml_wt", "gl_wt"};

std::string always() { return {}; }
std::string why_no_pages() {
  const auto file = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  if (file < 0) return fmt::format("no userfaultfd: {}", std::strerror(errno));
  ::close(file);
  return {};
}
enum class Engine : std::uint8_t { kOwn, kPages };
struct Method {
  const char *name;
  std::string (*why_not)();  // empty: it can run here
  Engine engine = Engine::kOwn;
  bool is_serializable = true;
};
// A new method of ours needs a row here.
constexpr Method kOurMethods[] = {{kOursByDefault, always},
                                  {"rtm", why_no_rtm},
                                  {"serial", always},
                                  {"pages", why_no_pages, Engine::kPages, false},
                                  {"pages-serializable", why_no_pages, Engine::kPages}};
static_assert(std::ranges::all_of(kOurMethods,
                                  [](const Method &one) { return one.why_not != nullptr; }));
static_assert(std::string_view(kOurMethods[0].name) == kOursByDefault);

ItmContestant on_library(const std::string &name, const std::string &library,
                         const std::string &method) {
  ItmContestant one;
  one.name = name;
  one.library = library;
  one.method = method;
  return one;
}
ItmContestant build_alone(const char *build) {
  TMH_ASSERT(build != nullptr);
  ItmContestant one;
  one.name = one.build = build;
  return one;
}

bool is_shared_library(const std::string &path) {
  std::array<char, 18> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(head.data(), head.size())) return false;
  constexpr char kShared = 3;  // ET_DYN
  return std::string_view(head.data(), 4) == "\177ELF" && head[16] == kShared;
}

}  // namespace

std::vector<ItmContestant> itm_contestants(const std::string &build_folder,
                                           std::vector<std::string> *why_not) {
  std::vector<ItmContestant> all;
  TMH_ASSERT(why_not != nullptr);
  const std::string gcc = TMH_BENCH_GCC_LIBITM;
  if (is_shared_library(gcc)) {
    for (const char *const method : kGccMethods)
      all.push_back(on_library(fmt::format("gcc {}", method), gcc, method));
  } else {
    why_not->push_back(fmt::format("GCC's libitm is not there ({})", gcc));
  }
  const std::string ours = build_folder + "/libtmh-itm/libitm.so.1";
  const std::string engine = build_folder + "/libtmh-itm/libtmh-itm-pages.so";
  if (is_shared_library(ours)) {
    for (const Method &method : kOurMethods) {
      if (const std::string reason = method.why_not(); !reason.empty()) {
        why_not->push_back(fmt::format("{}: {}", method.name, reason));
      } else {
        ItmContestant one = on_library(method.name, ours, method.name);
        one.tells_method = true;
        if (method.engine == Engine::kPages) one.loaded_first = engine;
        one.is_serializable = method.is_serializable;
        all.push_back(std::move(one));
      }
    }
  } else {
    why_not->push_back(fmt::format(
        "our libitm is not there ({}): it is built on x86-64 Linux, without sanitizers", ours));
  }
  all.push_back(build_alone(kMutex));
  all.push_back(build_alone(kPlain));
  return all;
}

ItmContestant outside_contestant(const std::string &text,
                                 const std::vector<ItmContestant> &others) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    throw BadInput(fmt::format("--libitm {}: not NAME=PATH or NAME=PATH:METHOD", text));
  ItmContestant one = on_library(text.substr(0, equals), text.substr(equals + 1), {});
  const std::size_t colon = one.library.rfind(':');
  if (colon != std::string::npos && !fs::exists(one.library)) {
    one.method = one.library.substr(colon + 1);
    one.library.resize(colon);
    if (one.method.empty())
      throw BadInput(fmt::format("--libitm {}: there is no method behind the colon", text));
  }
  const bool is_taken = std::any_of(others.begin(), others.end(),
                                    [&](const auto &other) { return other.name == one.name; });
  if (is_taken) throw BadInput(fmt::format("--libitm {}: the name {} is taken", text, one.name));
  std::error_code error;
  if (!fs::is_regular_file(one.library, error))
    throw BadInput(fmt::format("--libitm {}: there is no file {}", text, one.library));
  if (!is_shared_library(one.library))
    throw BadInput(fmt::format("--libitm {}: {} is no shared library", text, one.library));
  one.library = fs::canonical(one.library).string();
  return one;
}

std::map<std::string, std::string> environment_on(const ItmContestant &contestant,
                                                  const std::string &folder) {
  TMH_ASSERT(!folder.empty());
  std::map<std::string, std::string> all = {{"ITM_DEFAULT_METHOD", contestant.method}};
  if (contestant.library.empty()) return all;
  if (!contestant.loaded_first.empty()) {  // as `tmh itm` does
    all["LD_PRELOAD"] = contestant.loaded_first + ":" + contestant.library;
    all["LD_BIND_NOW"] = "1";
  }
  const fs::path link = fs::path(folder) / "libitm.so.1";
  if (!fs::is_symlink(link)) fs::create_symlink(contestant.library, link);
  const char *const old = std::getenv("LD_LIBRARY_PATH");
  all["LD_LIBRARY_PATH"] = old == nullptr || *old == 0 ? folder : folder + ":" + old;
  return all;
}

std::map<std::string, std::string> environment_that_tells(const std::string &folder) {
  TMH_ASSERT(!folder.empty());
  return {{"LD_DEBUG", "files"}, {"LD_DEBUG_OUTPUT", folder + "/loaded"}};
}

void check_library(const ItmContestant &contestant, const std::string &folder) {
  if (contestant.library.empty()) return;
  constexpr std::string_view kBefore = "calling init: ";
  bool has_loaded = false;
  for (const auto &entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const std::size_t at = line.find(kBefore);
      if (at == std::string::npos) continue;
      const fs::path loaded = line.substr(at + kBefore.size());
      if (!loaded.filename().string().starts_with("libitm.so")) continue;
      std::error_code error;
      if (!fs::equivalent(loaded, contestant.library, error))
        throw std::runtime_error(
            fmt::format("it loaded {}, not {} (has it an RPATH, or is "
                        "LD_PRELOAD set?)",
                        loaded.string(), contestant.library));
      has_loaded = true;
    }
  }
  if (!has_loaded) throw std::runtime_error("it loaded no libitm.so.1");
}

}  // namespace tmh::bench
