// tests/power/world.h -- the domain that the power tests work in and judge.
// Source:    DESIGN D1 to D6.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/power/effects.h"

namespace tmh::test::power {

// A queue per worker in the heap segment; payloads follow from g.
struct Node {
  Node *next;
  std::uint64_t g, bytes;
};
struct Lists {
  Node *first[kLists], *last[kLists];
};

// Small log files and checkpoints, so that a short run meets every rare path.
[[nodiscard]] DomainOptions power_options();

class World {
 public:
  // Creates what is not there. A late segment is mapped on first use only, unless `all`.
  World(const std::string &folder, const DomainOptions &options, bool all = false);

  [[nodiscard]] tmh::Domain &domain() noexcept { return domain_; }
  [[nodiscard]] std::uint64_t *words(std::uint32_t segment);
  [[nodiscard]] tmh::Segment &raw(std::uint32_t segment);
  [[nodiscard]] tmh::Segment &heap() noexcept { return heap_; }
  [[nodiscard]] Lists *lists() noexcept { return lists_; }
  void close();

  // Inside an instance: does what `effects` say, but for allocation, whose places the heap chooses.
  void perform(const Effects &effects);
  // Inside an instance or query.
  [[nodiscard]] std::uint64_t g() { return words(kLedger)[0]; }

 private:
  void append_node(const ListChange &change);
  void remove_node(const ListChange &change);

  tmh::Domain domain_;
  tmh::Segment raw_[kRawSegments];
  tmh::Segment heap_;
  Lists *lists_ = nullptr;
};

// Inside an instance or query: compares the world with the model; one clause per finding, empty when all is right.
[[nodiscard]] std::string compare(World *world, const Model &model);

}  // namespace tmh::test::power
