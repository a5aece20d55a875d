// examples/itm/mesh.h -- what mesh.cpp drives; mesh_transactions.cpp defines it.
#pragma once

#include <cstdint>

#include "examples/itm/mesh_geometry.h"

namespace itm {

// Corner i is opposite neighbour i; corners are counter-clockwise.
struct Triangle {
  Point corners[3];
  // Null: the edge is on the border of the square.
  Triangle *neighbours[3];
  // 1: no part of the mesh.
  std::uint64_t is_dead;
  // 1: in the queue, or in the hands of the thread that took it from there. Then that thread frees
  // the triangle when it is dead; else the transaction that kills it hands it over to be freed.
  std::uint64_t is_held;
  // In the queue.
  Triangle *next;
};

// Of one transaction.
inline constexpr std::uint64_t kCavityMax = 256;

enum class Outcome {
  kWasDead,   // another thread's cavity had it; freed
  kInserted,  // a point was inserted at its circumcenter
  kSplit,     // an edge of the border was split instead
  kGaveUp     // an edge would become too short
};
struct Refined {
  Outcome outcome = Outcome::kGaveUp;
  // Bad triangles that are new, or left: a list, to be put into the queue.
  Triangle *first_bad = nullptr, *last_bad = nullptr;
  // Triangles that are dead: the caller's own, to be freed.
  std::uint64_t dead_count = 0;
};

// Before any thread works. A square of two triangles, and the points in it, without those that are
// there already.
void mesh_open();
bool mesh_add(const Point &point);

// One transaction each.
// The next bad triangle, perhaps dead by now; null: the queue is empty.
[[nodiscard]] Triangle *take_bad();
void queue_bad(Triangle *first, Triangle *last);
// `dead`: room for kCavityMax.
[[nodiscard]] Refined refine(Triangle *triangle, double squared_ratio_max, Triangle **dead);

// While no thread works: some triangle of the mesh, from which all are reached.
[[nodiscard]] Triangle *mesh_triangle();

}  // namespace itm
