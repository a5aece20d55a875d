// tests/itm/compiled/map_in_relaxed.cpp -- a container of the standard library in relaxed blocks.
// Methods:   lines rtm serial pages pages-serializable
// Says:      50 1000
#include <cstdio>
#include <map>

namespace {

std::map<long, long> book;
__attribute__((noinline)) void add(long i) {
  __transaction_relaxed { book[i] += 1; }
}

}  // namespace

int main() {
  for (long i = 0; i < 1000; ++i) add(i % 50);
  long sum = 0;
  for (const auto &[key, value] : book) sum += value;
  std::printf("%zu %ld\n", book.size(), sum);
}
