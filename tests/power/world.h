// tests/power/world.h -- the domain that the power tests work in and judge.
// Source:    docs/design.md D1 to D6.
#pragma once

#include <cstdint>
#include <optional>
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
  // The same for code that may run at level 1.
  [[nodiscard]] tmh::field<std::uint64_t> *cells(std::uint32_t segment);
  // Of instrumented bodies. With the process's own escalation; at level 2 alone, in a thread's view
  // if there is one.
  [[nodiscard]] const tmh::Site &own_site() const noexcept { return *own_site_; }
  [[nodiscard]] const tmh::Site &page_site() const noexcept { return *page_site_; }
  // In a hybrid domain: its instances begin at level 1. Else null.
  [[nodiscard]] const tmh::Site *line_site() const noexcept {
    return line_site_ ? &*line_site_ : nullptr;
  }
  [[nodiscard]] tmh::Segment &raw(std::uint32_t segment);
  [[nodiscard]] tmh::Segment &heap() noexcept { return heap_; }
  [[nodiscard]] Lists *lists() noexcept { return lists_; }
  void close();

  // Inside an instance, of either level as long as nothing is allocated: does what `effects` say;
  // places are the heap's to choose.
  void perform(const Effects &effects);
  // Inside an instance or query.
  [[nodiscard]] std::uint64_t g() { return cells(kLedger)[0].load(); }

 private:
  void append_node(const ListChange &change);
  void remove_node(const ListChange &change);

  tmh::Domain domain_;
  tmh::Segment raw_[kRawSegments];
  tmh::Segment heap_;
  Lists *lists_ = nullptr;
  std::optional<tmh::Site> line_site_, own_site_, page_site_;
};

// Inside an instance or query: compares the world with the model; one clause per finding, empty
// when all is right.
[[nodiscard]] std::string compare(World *world, const Model &model);

}  // namespace tmh::test::power
