// examples/trees/veb_layout.hpp -- where the nodes of a complete binary tree lie in van Emde Boas
// order.
// Shape:     A tree of h levels is cut at half its height: the upper tree comes first, then the
//            lower trees from left to right, each laid out in the same way. Whatever the size of a
//            block, a path from the root meets O(log_B N) of them. Nodes have numbers: the root is
//            1, the children of i are 2i and 2i + 1. position() of a node follows from those of its
//            ancestors by one multiplication, with three constants per depth and height; there are
//            no pointers.
// Source:    Prokop, "Cache-oblivious algorithms", MIT, 1999; Brodal, Fagerberg, Jacob, "Cache
//            oblivious search trees via binary trees of small height", SODA 2002, section 2.2 (the
//            constants). Thesis, figure 5-2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trees {

// Levels of the largest tree: 2^32 leaves below it.
inline constexpr std::size_t kVebLevelsMax = 32;

class VebLayout {
 public:
  // REQUIRES: levels <= kVebLevelsMax.
  [[nodiscard]] static const VebLayout &of(std::size_t levels) noexcept;

  // Positions of the nodes on one path, from the root down.
  using Path = std::array<std::uint64_t, kVebLevelsMax>;
  // Of node `number` at `depth`; stored in the path. REQUIRES: the path holds the positions of all
  // its ancestors.
  std::uint64_t position(Path *path, std::size_t depth, std::uint64_t number) const noexcept {
    const Cut &cut = cuts_[depth];
    const std::uint64_t place = depth == 0 ? 0
                                           : (*path)[cut.upper_depth] + cut.upper_nodes +
                                                 (number & cut.upper_nodes) * cut.lower_nodes;
    return (*path)[depth] = place;
  }

 private:
  // The cut above the nodes of a depth.
  struct Cut {
    // Of the tree above the cut, of each tree below it.
    std::uint64_t upper_nodes = 0, lower_nodes = 0;
    std::size_t upper_depth = 0;  // of the upper tree's root
  };
  constexpr void cut(std::size_t depth, std::size_t levels) noexcept {
    if (levels < 2) return;
    const std::size_t upper = levels / 2, lower = levels - upper;
    cuts_[depth + upper] = {(std::uint64_t{1} << upper) - 1, (std::uint64_t{1} << lower) - 1,
                            depth};
    cut(depth, upper);
    cut(depth + upper, lower);
  }
  [[nodiscard]] static constexpr auto all() noexcept {
    std::array<VebLayout, kVebLevelsMax + 1> layouts;
    for (std::size_t levels = 0; levels <= kVebLevelsMax; ++levels) layouts[levels].cut(0, levels);
    return layouts;
  }
  std::array<Cut, kVebLevelsMax> cuts_{};
};

inline const VebLayout &VebLayout::of(std::size_t levels) noexcept {
  static constexpr auto kAll = all();
  return kAll[levels];
}

}  // namespace trees
