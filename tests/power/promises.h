// tests/power/promises.h -- what the journal's notes promise up to some moment: which commits must
// be there, and which may be.
// Shape:     entries are applied in order. A copy is the state for a recovered image, to which the
//            notes of its further life are applied.
// Sharing:   refers to the journals' memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/power/effects.h"
#include "tests/power/journal.h"

namespace tmh::test::power {

class Promises {
 public:
  void apply(const Entry &entry);

  // Every commit up to here must be there after a cut.
  [[nodiscard]] std::uint64_t required() const noexcept { return required_; }
  // Two transactions were told the same place in the commit order, or the like. Empty: no.
  [[nodiscard]] const std::string &contradiction() const noexcept { return contradiction_; }
  // The id of the g-th commit, as far as somebody was told; 0: unknown.
  [[nodiscard]] std::uint64_t id_at(std::uint64_t g) const;
  // Ids that become known later: what a commit was whose process died before it could tell.
  void foresee(const std::vector<std::uint64_t> &ids);

  // Checks that transaction `id` may be the g-th; empty when so, and *effects is set.
  [[nodiscard]] std::string explain(std::uint64_t g, std::uint64_t id, Effects *effects) const;
  // Brings `model` up to the required prefix, as far as it is known.
  void advance(Model *model) const;

 private:
  std::uint64_t required_ = 0;
  std::string contradiction_;
  std::map<std::uint64_t, std::uint64_t> told_;  // g to id, by acknowledgements and recoveries
  std::vector<std::uint64_t> foreseen_;
  std::unordered_map<std::uint64_t, std::span<const std::byte>> intents_;  // by id
  std::unordered_set<std::uint64_t> aborted_;
};

// The ids in a note kRecovered.
[[nodiscard]] std::vector<std::uint64_t> ids_of(const Entry &entry);

}  // namespace tmh::test::power
