// examples/itm/maze.h -- what maze.cpp drives; maze_transactions.cpp defines it.
#pragma once

#include <cstdint>

namespace itm {

using Cell = std::uint32_t;
inline constexpr Cell kFree = 0, kEnd = UINT32_MAX, kWall = UINT32_MAX - 1;
// A cell on a path names the path: 1 to this.
inline constexpr Cell kPathMax = UINT32_MAX - 2;

// Before any thread works; copies the grid.
void maze_open(const Cell *grid, std::uint64_t cells);
void maze_close();
// For copies without a transaction: a cell that is not free stays so, and write_path() looks at
// each cell again.
[[nodiscard]] Cell *maze_cells();

// One transaction each.
// The next route's number, or `routes`.
[[nodiscard]] std::uint64_t take_route(std::uint64_t routes);
void copy_grid(Cell *copy);
// REQUIRES: at least two cells; the first and the last one are ends. False: one of those between is
// no longer free, and nothing is written.
[[nodiscard]] bool write_path(const std::uint32_t *cells, std::uint64_t count, Cell path);

}  // namespace itm
