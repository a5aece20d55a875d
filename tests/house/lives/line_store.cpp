// tests/house/lives/line_store.cpp -- one load and one store of level 1, in an instance whose
// thread has a seat. Instances before it have taken the page.
#include <tmh/tmh.hpp>

#include "tests/house/lives/recorder.h"

int main(int, char **argv) {
  tmh::DomainOptions options;
  options.levels = tmh::Levels::kHybrid;
  tmh::Domain domain = tmh::Domain::open(argv[1], options);
  tmh::SegmentOptions raw;
  raw.layout = tmh::Layout::kRaw;
  raw.size_bytes = 16 * 4096;
  const tmh::Segment segment = domain.map("raw", raw);
  const tmh::Site site(domain, "store");
  auto &count = *reinterpret_cast<tmh::field<std::uint64_t> *>(segment.data());
  const auto store = [&] { tmh::atomically(site, [&](tmh::Fields) { count = count + 1; }); };
  for (int i = 0; i < 100; ++i) store();
  lives::begin();
  store();
  lives::end();
  domain.close();
}
