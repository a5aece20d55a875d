// examples/itm/maze.cpp -- routes through a three-dimensional grid that must not touch each other.
// Shape:     a thread takes a route, copies the grid without a transaction, looks for a shortest
//            path in its copy (Lee's algorithm), and writes it in a transaction, unless another
//            route has taken one of its cells since: then it begins again. A copy may show what an
//            aborted transaction wrote; so a route is given up only after a copy in a transaction.
//            An operation is one route, found or given up.
// Checks:    paths lead from end to end by neighbours; each of their cells belongs to them alone;
//            no other cell belongs to a path; routes that were given up find no path in the last
//            grid either.
// Source:    STAMP (labyrinth); Lee; Transactional Parallel Routing (copies without a transaction).
#include "examples/itm/maze.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

using itm::Cell;
using Path = std::vector<std::uint32_t>;

struct Sizes {
  std::uint64_t x = 128, y = 128, z = 5, routes = 128, walls_percent = 5;
  [[nodiscard]] std::uint64_t cells() const { return x * y * z; }
};

struct Route {
  std::uint32_t from, to;
};
struct Input {
  std::vector<Cell> grid;
  std::vector<Route> routes;
};

// REQUIRES: two cells for each route.
Input make_input(const Sizes &sizes, itm::Random &random) {
  Input input;
  input.grid.assign(sizes.cells(), itm::kFree);
  std::vector<std::uint32_t> cells(sizes.cells());
  for (std::uint32_t i = 0; i < cells.size(); ++i) cells[i] = i;
  for (std::uint64_t i = cells.size() - 1; i > 0; --i)
    std::swap(cells[i], cells[random.below(i + 1)]);
  for (std::uint64_t i = 0; i < sizes.routes; ++i) {
    input.routes.push_back({cells[2 * i], cells[2 * i + 1]});
    input.grid[cells[2 * i]] = input.grid[cells[2 * i + 1]] = itm::kEnd;
  }
  const std::uint64_t walls = sizes.cells() * sizes.walls_percent / 100;
  for (std::uint64_t i = 2 * sizes.routes; i < cells.size() && i < 2 * sizes.routes + walls; ++i)
    input.grid[cells[i]] = itm::kWall;
  return input;
}

// Of one thread: its copy of the grid, and how far each cell is from a route's first one.
class Router {
 public:
  explicit Router(const Sizes &sizes)
      : sizes_(&sizes), copy(sizes.cells()), distances_(sizes.cells()) {
    reached_.reserve(sizes.cells());
  }

  // Empty: there is none in the copy.
  [[nodiscard]] Path path_of(const Route &route) {
    std::fill(distances_.begin(), distances_.end(), kFar);
    reached_.assign(1, route.from);
    distances_[route.from] = 0;
    for (std::size_t i = 0; i < reached_.size() && distances_[route.to] == kFar; ++i) {
      const std::uint32_t here = reached_[i];
      each_neighbour(here, [&](std::uint32_t next) {
        if (distances_[next] != kFar || (copy[next] != itm::kFree && next != route.to)) return;
        distances_[next] = distances_[here] + 1;
        reached_.push_back(next);
      });
    }
    if (distances_[route.to] == kFar) return {};
    Path path = {route.to};
    while (path.back() != route.from) {
      const std::uint32_t here = path.back();
      std::uint32_t before = here;
      each_neighbour(here, [&](std::uint32_t next) {
        if (distances_[next] == distances_[here] - 1) before = next;
      });
      path.push_back(before);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }
  [[nodiscard]] bool are_neighbours(std::uint32_t one, std::uint32_t other) const {
    bool found = false;
    each_neighbour(one, [&](std::uint32_t next) { found = found || next == other; });
    return found;
  }

 private:
  static constexpr std::uint32_t kFar = UINT32_MAX;

  template <class Visit>
  void each_neighbour(std::uint32_t cell, const Visit &visit) const {
    const auto x = static_cast<std::uint32_t>(sizes_->x), y = static_cast<std::uint32_t>(sizes_->y);
    const std::uint32_t at_x = cell % x, at_y = cell / x % y, at_z = cell / x / y;
    if (at_x > 0) visit(cell - 1);
    if (at_x + 1 < x) visit(cell + 1);
    if (at_y > 0) visit(cell - x);
    if (at_y + 1 < y) visit(cell + x);
    if (at_z > 0) visit(cell - x * y);
    if (at_z + 1 < sizes_->z) visit(cell + x * y);
  }

  const Sizes *sizes_;

 public:
  std::vector<Cell> copy;

 private:
  std::vector<std::uint32_t> distances_, reached_;
};

// Of one thread.
struct alignas(2 * itm::kLineBytes) Tally {
  std::vector<std::pair<std::uint64_t, Path>> found;  // by the number of the route
  std::vector<std::uint64_t> given_up;
  std::uint64_t taken_meanwhile = 0;  // paths that another one crossed
};

void copy_without_transaction(std::vector<Cell> &copy) {
  Cell *const cells = itm::maze_cells();
  for (std::uint64_t i = 0; i < copy.size(); ++i)
    copy[i] = std::atomic_ref<Cell>(cells[i]).load(std::memory_order_relaxed);
}

void work(itm::Worker &worker, const Sizes &sizes, const Input &input, Tally &tally) {
  Tally mine;
  Router router(sizes);
  for (std::uint64_t number = itm::take_route(sizes.routes); number < sizes.routes;
       number = itm::take_route(sizes.routes)) {
    const Route &route = input.routes[number];
    for (;;) {
      copy_without_transaction(router.copy);
      Path path = router.path_of(route);
      if (path.empty()) {
        itm::copy_grid(router.copy.data());
        path = router.path_of(route);
      }
      if (path.empty()) {
        mine.given_up.push_back(number);
        break;
      }
      if (itm::write_path(path.data(), path.size(), static_cast<Cell>(number + 1))) {
        mine.found.emplace_back(number, std::move(path));
        break;
      }
      ++mine.taken_meanwhile;
    }
    worker.add(1);
  }
  tally = std::move(mine);
}

// After the threads.
void check(const Sizes &sizes, const Input &input, const std::vector<Tally> &tallies,
           itm::Report &report) {
  Router router(sizes);
  itm::copy_grid(router.copy.data());
  std::uint64_t cells = 0, routes = 0;
  for (const Tally &tally : tallies) {
    for (const auto &[number, path] : tally.found) {
      const Route &route = input.routes[number];
      bool leads = path.front() == route.from && path.back() == route.to;
      for (std::uint64_t i = 1; i < path.size(); ++i)
        leads = leads && router.are_neighbours(path[i - 1], path[i]);
      report.require(leads, "a path does not lead from end to end");
      for (const std::uint32_t cell : path)
        report.require(router.copy[cell] == number + 1, "two paths share a cell");
      cells += path.size();
    }
    for (const std::uint64_t number : tally.given_up)
      report.require(router.path_of(input.routes[number]).empty(),
                     "a route was given up that has a path");
    routes += tally.found.size() + tally.given_up.size();
  }
  const auto on_paths = static_cast<std::uint64_t>(
      std::count_if(router.copy.begin(), router.copy.end(),
                    [](Cell cell) { return cell != itm::kFree && cell <= itm::kPathMax; }));
  report.require(cells == on_paths, "cells belong to paths that do not know them");
  report.require(routes == sizes.routes, "routes were lost, or worked on twice");
}

}  // namespace

int main(int argc, char **argv) {
  Sizes sizes;
  itm::Options options("maze", "Routes through a grid; an operation is one route",
                       itm::Amount::kInputs);
  options.add("--x", sizes.x, "cells", 1, 4096);
  options.add("--y", sizes.y, "cells", 1, 4096);
  options.add("--z", sizes.z, "cells", 1, 64);
  options.add("--routes", sizes.routes, "pairs of ends", 1, 1u << 24);
  options.add("--walls", sizes.walls_percent, "percent of the cells", 0, 90);
  if (!options.parse(argc, argv)) return options.status();
  if (2 * sizes.routes > sizes.cells())
    return options.refuse("--routes needs two cells of the grid for each");

  const itm::Common &common = options.common();
  itm::Report report(options);
  itm::Work done;
  std::uint64_t found = 0, given_up = 0, taken_meanwhile = 0;
  const std::uint64_t inputs = itm::run_rounds(common, done, [&](std::uint64_t round) {
    itm::Random random(itm::seed_of(common.seed, round));
    const Input input = make_input(sizes, random);
    itm::maze_open(input.grid.data(), input.grid.size());
    std::vector<Tally> tallies(common.threads);
    done += itm::run_threads(
        common, [&](itm::Worker &worker) { work(worker, sizes, input, tallies[worker.index()]); });
    for (const Tally &each : tallies) {
      found += each.found.size();
      given_up += each.given_up.size();
      taken_meanwhile += each.taken_meanwhile;
    }
    check(sizes, input, tallies, report);
    itm::maze_close();
    return report.is_ok();
  });
  report.detail("x", sizes.x);
  report.detail("y", sizes.y);
  report.detail("z", sizes.z);
  report.detail("routes", sizes.routes);
  report.detail("walls_percent", sizes.walls_percent);
  report.detail("inputs", inputs);
  report.detail("found", found);
  report.detail("given_up", given_up);
  report.detail("taken_meanwhile", taken_meanwhile);
  return report.print(done);
}
