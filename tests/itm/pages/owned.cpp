// tests/itm/pages/owned.cpp -- pages that plain code and transactions of one thread use in turns
// are its own, until another thread wants them.
// Shape:     each part runs in a process of its own, whose statistics say how many pages were owned
//            (TMH_ITM_STATISTICS): a part without any would test nothing.
// Invariant: those of owners.h. A thread that wants another's page gets it, within the patience.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/itm/pages/owning.h"

namespace itm::pages {

namespace {

struct Part {
  const char *name;
  void (*run)(long ms);
  long least_owned;
};
constexpr Part kParts[] = {
    {"looks", own_and_look, 8},     {"aborts", own_and_abort, 8}, {"guests", own_with_guests, 8},
    {"crossing", own_and_cross, 8}, {"waits", own_and_wait, 8},   {"deaths", own_and_die, 8},
};
constexpr int kPartsCount = static_cast<int>(std::size(kParts));

std::string new_file() {
  const char *const folder = std::getenv("TMPDIR");
  std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/owned.XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) {
    std::perror("a file for statistics");
    std::exit(2);
  }
  close(file);
  return name;
}

pid_t spawn(int part, const Options &options, const std::string &statistics) {
  std::vector<std::string> words = {"owned-part", "owned",
                                    "--only",     std::to_string(part + 1),
                                    "--seconds",  std::to_string(options.seconds),
                                    "--seed",     std::to_string(options.seed)};
  std::vector<char *> arguments, variables;
  for (std::string &each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  std::string own = "TMH_ITM_STATISTICS=" + statistics;
  variables.push_back(own.data());
  for (char **each = environ; *each != nullptr; ++each)
    if (std::string(*each).rfind("TMH_ITM_STATISTICS=", 0) != 0) variables.push_back(*each);
  variables.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), variables.data());
  if (error == 0) return child;
  std::fprintf(stderr, "wrong: posix_spawn fails with %d\n", error);
  std::exit(1);
}

// -1: it hangs, although each wait of it has a deadline of its own.
int wait_for(pid_t child) {
  const auto end = std::chrono::steady_clock::now() + 4 * patience();
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 || std::chrono::steady_clock::now() > end) break;
    sleep_ns(5'000'000);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

long owned_pages(const std::string &statistics) {
  std::ifstream in(statistics);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string key = "\"owned\": ";
  const std::size_t at = text.find(key);
  return at == std::string::npos ? -1 : std::atol(text.c_str() + at + key.size());
}

}  // namespace

void owned(const Options &options) {
  set_seed(options.seed);
  if (options.only != 0) {
    if (options.only > kPartsCount) return wrong("a part", options.only, kPartsCount);
    return kParts[options.only - 1].run(options.seconds * 1000l / kPartsCount);
  }
  for (int i = 0; i < kPartsCount; ++i) {
    const Part &part = kParts[i];
    const std::string statistics = new_file();
    const int status = wait_for(spawn(i, options, statistics));
    if (status != 0) {
      std::fprintf(stderr, "part %d (%s)%s:\n", i + 1, part.name, status < 0 ? " hangs" : "");
      wrong("a part's status", status, 0);
    } else {
      const long pages = owned_pages(statistics);
      std::printf("%s: %ld pages owned\n", part.name, pages);
      expect(pages >= part.least_owned, "owned pages", pages, part.least_owned);
    }
    unlink(statistics.c_str());
  }
}

}  // namespace itm::pages
