// bench/support/oo1_work.h -- the database of OO1, and what every contestant of bench/oo1 does with
// it.
// Shape:     parts with numbers from 1 on; three connections from each part, 90 of 100 to one of
//            the nearest hundredth of all parts, the others to any. Inserted parts have the next
//            numbers.
// Checked:   what is read has the same sum for every contestant.
// Source:    OO1; LIBTP, 5.2.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {

inline constexpr unsigned kConnections = 3;  // from a part

struct Part {
  std::uint32_t id;
  std::int32_t x, y;
  std::uint32_t build;
  char type[16];
};
struct Connection {
  std::uint32_t from, to;
  std::int32_t length;
  char type[16];
};
struct NewPart {
  Part part;
  std::array<Connection, kConnections> connections;
};

// A part among `parts`, the same for every contestant.
[[nodiscard]] inline NewPart make_part(std::uint32_t id, std::uint32_t parts) noexcept {
  TMH_ASSERT(id > 0 && parts > 1);
  constexpr std::int32_t kPlaces = 100'000;
  Random random(id * 7919ULL + 1);
  NewPart made{};
  made.part = {id, static_cast<std::int32_t>(random.below(kPlaces)),
               static_cast<std::int32_t>(random.below(kPlaces)), id % 10'000, "part-type"};
  for (Connection &connection : made.connections) {
    const std::uint64_t near = std::max(2U, parts / 100);
    std::uint64_t to =
        random.below(100) < 90 ? id + parts - near / 2 + random.below(near) : random.below(parts);
    to = (to + parts - 1) % parts + 1;
    connection = {id, static_cast<std::uint32_t>(to), made.part.x % 1000, "link"};
  }
  return made;
}

// What a traversal or a lookup has seen.
struct Seen {
  std::uint64_t parts = 0;
  std::int64_t sum = 0;
  void add(std::int32_t x, std::int32_t y) noexcept {
    ++parts;
    sum += x;
    sum -= std::int64_t{2} * y;
  }
  [[nodiscard]] bool operator==(const Seen &) const = default;
};

enum class Access : std::uint8_t { kReads, kChanges };

// The database as one process has it, open.
class Oo1Store {
 public:
  virtual ~Oo1Store() = default;
  // Each operation of the benchmark, and each portion that is loaded, is a transaction, durable
  // when it returns. The body may run several times.
  virtual void transact(Access access, const std::function<void()> &body) = 0;
  virtual void look_up(std::uint32_t id, Seen *seen) = 0;
  virtual void insert(const NewPart &part) = 0;
  // A part, and those that it leads to in so many hops.
  virtual void traverse(std::uint32_t id, unsigned hops, bool is_forward, Seen *seen) {
    look_up(id, seen);
    if (hops == 0) return;
    std::vector<std::uint32_t> next;
    neighbours(id, is_forward, &next);
    for (const std::uint32_t each : next) traverse(each, hops - 1, is_forward, seen);
  }

 protected:
  // By an index, then by the connections.
  virtual void neighbours(std::uint32_t id, bool is_forward, std::vector<std::uint32_t> *found) {
    (void)id;
    (void)is_forward;
    (void)found;
    throw std::logic_error("this store traverses by itself");
  }
};

}  // namespace tmh::bench
