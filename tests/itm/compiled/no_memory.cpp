// tests/itm/compiled/no_memory.cpp -- where there is no memory for its logs, a transaction ends the
// process: an exception would have the compiled code commit half of it.
// Methods:   lines
// Says:      (status -6)
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <new>

namespace {

constexpr std::size_t kBytes = 400ul << 20, kRoom = 64ul << 20;
char *bytes;
int total;

__attribute__((transaction_safe, noinline)) void fill(int sign) {
  if (sign < 0) throw 1;
  for (std::size_t at = 0; at < kBytes; at += 64) bytes[at] = 1;
}
__attribute__((noinline)) void run(int sign) {
  __transaction_atomic {
    total = 5;
    fill(sign);
    total = 6;
  }
}

}  // namespace

int main(int count, char **) {
  bytes = static_cast<char *>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  __transaction_atomic { total = 1; }
  unsigned long pages = 0;
  std::FILE *const statm = std::fopen("/proc/self/statm", "r");
  if (statm == nullptr || std::fscanf(statm, "%lu", &pages) != 1) return 3;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * 4096 + kRoom;
  setrlimit(RLIMIT_AS, &limit);
  try {
    run(count);
  } catch (const std::bad_alloc &) {
    std::puts("half of it is committed");
  }
}
