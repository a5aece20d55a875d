// tests/house/lives/durable_store.cpp -- one plain store of level 2 to a page that its instance has
// not touched, acknowledged as durable. An instance before it has opened what is opened once.
#include <tmh/tmh.hpp>

#include "tests/house/lives/recorder.h"

int main(int, char **argv) {
  tmh::DomainOptions options;
  options.durability = tmh::Durability::kStrict;
  options.levels = tmh::Levels::kPage;
  tmh::Domain domain = tmh::Domain::open(argv[1], options);
  tmh::SegmentOptions raw;
  raw.layout = tmh::Layout::kRaw;
  raw.size_bytes = 16 * 4096;
  const tmh::Segment segment = domain.map("raw", raw);
  const auto store = [&](std::size_t page) {
    tmh::atomically(domain, [&] { segment.data()[4096 * page] = std::byte{1}; });
  };
  store(1);
  lives::begin();
  store(2);
  lives::end();
  domain.close();
}
