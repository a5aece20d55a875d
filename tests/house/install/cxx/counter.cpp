// tests/house/install/cxx/counter.cpp -- a counter on the installed library; prints its value after
// 10 increments.
#include <cstdio>

#include <tmh/tmh.hpp>

int main() {
  const tmh::Domain domain = tmh::Domain::open("counter");
  const tmh::Segment segment = domain.map("heap");
  int *value = segment.root<int>();
  for (int i = 0; i < 10; ++i) tmh::atomically(domain, [&] { ++*value; });
  std::printf("%d\n", tmh::query(domain, [&] { return *value; }));
}
