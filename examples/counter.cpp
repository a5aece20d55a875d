// examples/counter.cpp -- the smallest program: four processes increment one counter 1000 times
// each.
// Run:       counter [folder], default ./counter.domain; prints 4000 the first time, 8000 the
//            second, ...
#include <cstdio>
#include <exception>

#include <sys/wait.h>
#include <unistd.h>

#include <tmh/tmh.hpp>

namespace {

constexpr int kProcesses = 4;
constexpr int kIncrements = 1000;

void work(const char *folder) {
  const tmh::Domain domain = tmh::Domain::open(folder);
  const tmh::Segment segment = domain.map("counters");
  int *counter = segment.root<int>("counter");
  for (int i = 0; i < kIncrements; ++i) {
    tmh::atomically(domain, [&] { ++*counter; });
  }
}

int run(const char *folder) {
  // Fork first: a process that has opened a domain does not pass it on to its children.
  for (int i = 0; i < kProcesses; ++i) {
    if (fork() == 0) {
      try {
        work(folder);
        _exit(0);
      } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
    }
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed += status != 0;
  if (failed != 0) return 1;

  const tmh::Domain domain = tmh::Domain::open(folder);
  const tmh::Segment segment = domain.map("counters");
  const int *counter = segment.root<int>("counter");
  const int value = tmh::query(domain, [&] { return *counter; });
  std::printf("%d\n", value);
  return value % (kProcesses * kIncrements) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return run(argc > 1 ? argv[1] : "counter.domain");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
