// examples/first.cpp -- the README's first example: an unmodified std::map in a file, changed by
// transactions.
// Run:       first; each run adds 1 to one price and takes it from another.
#include <cstdio>
#include <functional>
#include <map>
#include <utility>

#include <tmh/tmh.hpp>

using Prices = std::map<int, long, std::less<int>, tmh::allocator<std::pair<const int, long>>>;

int main() {
  tmh::Domain domain = tmh::Domain::open("shop");   // a folder; any number of processes open it
  tmh::Segment segment = domain.map("prices.db");   // same address in every process
  Prices *prices = segment.root<Prices>("prices");  // an unmodified std::map, in the file
  tmh::atomically(domain, [&] {                     // retried until it commits
    (*prices)[42] += 1;
    (*prices)[43] -= 1;
  });
  const auto [price, sum] = tmh::query(domain, [&] {  // one snapshot, never aborts
    long all = 0;
    for (const auto &[item, one] : *prices) all += one;
    return std::pair(prices->at(42), all);
  });
  std::printf("item 42 costs %ld, all items together %ld\n", price, sum);
  return sum == 0 ? 0 : 1;
}
