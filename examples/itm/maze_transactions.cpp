// examples/itm/maze_transactions.cpp -- the grid, and how many routes have been taken.
#include "examples/itm/maze.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "examples/itm/support/section.h"

namespace itm {

namespace {

struct Grid {
  Cell *cells;
  std::uint64_t count;
};
alignas(128) Grid grid;
alignas(128) std::uint64_t next_route;

// Others read the cell without a section meanwhile. An atomic store is no access of a transaction.
TMH_TRANSACTION_SAFE inline void store(Cell &cell, Cell path) {
#if defined(TMH_ITM)
  cell = path;
#else
  std::atomic_ref<Cell>(cell).store(path, std::memory_order_relaxed);
#endif
}

}  // namespace

void maze_open(const Cell *cells, std::uint64_t count) {
  grid = {static_cast<Cell *>(std::malloc(count * sizeof(Cell))), count};
  if (grid.cells == nullptr) std::abort();
  std::memcpy(grid.cells, cells, count * sizeof(Cell));
  next_route = 0;
}
void maze_close() { std::free(grid.cells); }
Cell *maze_cells() { return grid.cells; }

std::uint64_t take_route(std::uint64_t routes) {
  return atomically([&] { return next_route < routes ? next_route++ : routes; });
}
void copy_grid(Cell *copy) {
  const Grid all = grid;
  atomically([&] { std::memcpy(copy, all.cells, all.count * sizeof(Cell)); });
}
bool write_path(const std::uint32_t *cells, std::uint64_t count, Cell path) {
  Cell *const all = grid.cells;
  return atomically([&] {
    for (std::uint64_t i = 1; i + 1 < count; ++i) {
      if (all[cells[i]] != kFree) return false;
    }
    for (std::uint64_t i = 0; i < count; ++i) store(all[cells[i]], path);
    return true;
  });
}

}  // namespace itm
