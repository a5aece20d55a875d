// tests/itm/compiled/loops_of_bytes.cpp -- g++ -O2 makes plain memset() and strlen() of loops in
// instrumented code.
// Methods:   lines rtm serial pages pages-serializable
// Says:      0 wrong
#include <alloca.h>

#include <cstdio>
#include <cstring>

namespace {

__attribute__((transaction_pure)) void print(char *to, std::size_t bytes, unsigned long value) {
  static_cast<void>(std::snprintf(to, bytes, "%lu", value));
}
__attribute__((transaction_safe, noinline)) void copy(char *to, const char *from, std::size_t n) {
  do {
    if ((*to++ = *from++) == 0) {
      while (--n != 0) *to++ = 0;
      break;
    }
  } while (--n != 0);
}
__attribute__((transaction_safe, noinline)) void write_number(char *to, unsigned long value) {
  char text[24];
  print(text, sizeof text, value);
  copy(to, text, sizeof text);
}
__attribute__((transaction_safe, noinline)) std::size_t length(const char *text) {
  std::size_t n = 0;
  while (text[n] != 0) n++;
  return n;
}
__attribute__((noinline)) std::size_t run(char *to, unsigned long value) {
  std::size_t n = 0;
  __transaction_atomic {
    write_number(to, value);
    n = length(to);
  }
  return n;
}

alignas(64) char global_text[256];

}  // namespace

int main() {
  int wrong = 0;
  for (int at = 0; at < 100; ++at) {
    std::memset(global_text, 0, sizeof global_text);
    const std::size_t bytes = 256 + static_cast<std::size_t>(at);
    char *const local = static_cast<char *>(alloca(bytes));
    std::memset(local, 0, bytes);
    char *const texts[] = {global_text + at, local + at};
    for (char *const to : texts) {
      const std::size_t n = run(to, 123456789);
      wrong += n != 9 || std::strcmp(to, "123456789") != 0;
    }
  }
  std::printf("%d wrong\n", wrong);
}
