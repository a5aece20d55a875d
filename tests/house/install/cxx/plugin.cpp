// tests/house/install/cxx/plugin.cpp -- a plugin that holds the static library: adds 1 to a
// counter, and returns it.
#include <tmh/tmh.hpp>

extern "C" int add_one() {
  const tmh::Domain domain = tmh::Domain::open("counter");
  const tmh::Segment segment = domain.map("heap");
  int *value = segment.root<int>();
  return tmh::atomically(domain, [&] { return ++*value; });
}
