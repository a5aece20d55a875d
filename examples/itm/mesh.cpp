// examples/itm/mesh.cpp -- a triangulation of random points in a square is refined until no
// triangle has a small angle.
// Shape:     a thread takes a bad triangle, and inserts a point at the center of its circle; where
//            that point would be too near to the border, it splits the edge there instead. New bad
//            triangles go into the queue. An operation is one triangle taken. A thread ends when it
//            finds the queue empty.
// Checks:    neighbours know each other; triangles cover the square, each point is where Delaunay
//            says, there are as many as were inserted; no triangle is bad but those given up.
// Source:    STAMP (yada); Ruppert.
#include "examples/itm/mesh.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

using itm::Point, itm::Triangle;

struct Sizes {
  std::uint64_t points = 4000;
  double angle = 20;
  [[nodiscard]] double squared_ratio_max() const {
    const double sine = std::sin(angle / 180 * std::numbers::pi);
    return 1 / (4 * sine * sine);
  }
};

// Of one thread.
struct alignas(2 * itm::kLineBytes) Tally {
  std::uint64_t inserted = 0, split = 0, given_up = 0, dead = 0;
};

// All triangles that are reached from one.
std::vector<Triangle *> all_triangles() {
  std::vector<Triangle *> all = {itm::mesh_triangle()};
  std::unordered_set<const Triangle *> seen = {all.front()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (Triangle *const next : all[i]->neighbours) {
      if (next != nullptr && seen.insert(next).second) all.push_back(next);
    }
  }
  return all;
}
bool is_bad(const Triangle *triangle, const Sizes &sizes) {
  return itm::is_bad(triangle->corners[0], triangle->corners[1], triangle->corners[2],
                     sizes.squared_ratio_max());
}

// Returns the number of points, corners of the square included.
std::uint64_t make_mesh(const Sizes &sizes, itm::Random &random) {
  itm::mesh_open();
  std::uint64_t points = 4;
  while (points < sizes.points) {
    const auto inside = [&] {
      return static_cast<std::int64_t>(1 +
                                       random.below(static_cast<std::uint64_t>(itm::kSide - 1)));
    };
    const std::int64_t x = inside(), y = inside();
    if (itm::mesh_add({x, y})) ++points;
  }
  for (Triangle *const each : all_triangles()) {
    if (!is_bad(each, sizes)) continue;
    each->is_held = 1;
    itm::queue_bad(each, each);
  }
  return points;
}

void work(itm::Worker &worker, const Sizes &sizes, Tally &tally) {
  const double squared_ratio_max = sizes.squared_ratio_max();
  std::array<Triangle *, itm::kCavityMax> dead;
  Tally mine;
  while (Triangle *const triangle = itm::take_bad()) {
    const itm::Refined refined = itm::refine(triangle, squared_ratio_max, dead.data());
    for (std::uint64_t i = 0; i < refined.dead_count; ++i) std::free(dead[i]);
    if (refined.first_bad != nullptr) itm::queue_bad(refined.first_bad, refined.last_bad);
    switch (refined.outcome) {
      case itm::Outcome::kInserted:
        ++mine.inserted;
        break;
      case itm::Outcome::kSplit:
        ++mine.split;
        break;
      case itm::Outcome::kGaveUp:
        ++mine.given_up;
        break;
      case itm::Outcome::kWasDead:
        ++mine.dead;
        break;
    }
    worker.add(1);
  }
  tally = mine;
}

// The problem, or nothing.
std::string problem_of(const Triangle *triangle) {
  const auto &[a, b, c] = triangle->corners;
  if (triangle->is_dead != 0) return "a dead triangle is in the mesh";
  if (itm::turn(a, b, c) <= 0) return "a triangle is turned over";
  for (std::size_t i = 0; i < 3; ++i) {
    const Point from = triangle->corners[(i + 1) % 3], to = triangle->corners[(i + 2) % 3];
    const Triangle *const other = triangle->neighbours[i];
    if (other == nullptr) {
      const bool is_border = (from.x == to.x && (from.x == 0 || from.x == itm::kSide)) ||
                             (from.y == to.y && (from.y == 0 || from.y == itm::kSide));
      if (!is_border) return "the mesh has a hole";
      continue;
    }
    std::size_t back = 0;
    while (back < 3 && other->neighbours[back] != triangle) ++back;
    if (back == 3 || other->corners[(back + 1) % 3] != to || other->corners[(back + 2) % 3] != from)
      return "neighbours do not know each other";
    if (itm::is_in_circle(a, b, c, other->corners[back])) return "a circle has a point inside";
  }
  return {};
}

struct Found {
  std::uint64_t triangles = 0, bad = 0;
};
Found check(const Sizes &sizes, std::uint64_t points, std::uint64_t given_up, itm::Report &report) {
  const std::vector<Triangle *> all = all_triangles();
  Found found;
  std::set<std::pair<std::int64_t, std::int64_t>> corners;
  std::int64_t area = 0;
  for (const Triangle *const each : all) {
    const std::string problem = problem_of(each);
    report.require(problem.empty(), problem);
    area += itm::turn(each->corners[0], each->corners[1], each->corners[2]);
    for (const Point &corner : each->corners) corners.emplace(corner.x, corner.y);
    if (is_bad(each, sizes)) ++found.bad;
  }
  report.require(area == 2 * itm::kSide * itm::kSide, "triangles do not cover the square");
  report.require(corners.size() == points, "points were lost or made");
  report.require(found.bad <= given_up, "triangles with small angles are left");
  found.triangles = all.size();
  return found;
}

void free_mesh() {
  for (Triangle *const each : all_triangles()) std::free(each);
}

}  // namespace

int main(int argc, char **argv) {
  Sizes sizes;
  itm::Options options("mesh", "A mesh is refined; an operation is one bad triangle",
                       itm::Amount::kInputs);
  options.add("--points", sizes.points, "of the mesh at the start, corners included", 4, 1u << 20);
  options.add("--angle", sizes.angle, "degrees: no smaller ones are to be left", 1, 20.7);
  if (!options.parse(argc, argv)) return options.status();

  const itm::Common &common = options.common();
  itm::Report report(options);
  itm::Work done;
  Tally all;
  Found left;
  const std::uint64_t inputs = itm::run_rounds(common, done, [&](std::uint64_t round) {
    itm::Random random(itm::seed_of(common.seed, round));
    std::uint64_t points = make_mesh(sizes, random);
    std::vector<Tally> tallies(common.threads);
    done += itm::run_threads(
        common, [&](itm::Worker &worker) { work(worker, sizes, tallies[worker.index()]); });
    std::uint64_t given_up = 0;
    for (const Tally &each : tallies) {
      points += each.inserted + each.split;
      given_up += each.given_up;
      all.inserted += each.inserted;
      all.split += each.split;
      all.dead += each.dead;
    }
    all.given_up += given_up;
    const Found found = check(sizes, points, given_up, report);
    left.triangles += found.triangles;
    left.bad += found.bad;
    if (report.is_ok()) free_mesh();
    return report.is_ok();
  });
  report.detail("points", sizes.points);
  report.detail("angle", sizes.angle);
  report.detail("inputs", inputs);
  report.detail("inserted", all.inserted);
  report.detail("split", all.split);
  report.detail("given_up", all.given_up);
  report.detail("dead_in_queue", all.dead);
  report.detail("final_triangles", left.triangles);
  report.detail("final_bad", left.bad);
  return report.print(done);
}
