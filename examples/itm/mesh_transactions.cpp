// examples/itm/mesh_transactions.cpp -- a Delaunay triangulation: a point is inserted by replacing
// its cavity, the triangles whose circles it is in.
// Shape:     a cavity is found first, reading only; then new triangles take its place. What works
//            on a cavity is inlined: the compiler then sees of most accesses that they are to a
//            local variable, and no part of the transaction.
#include "examples/itm/mesh.h"

#include <cstdlib>

#include "examples/itm/support/section.h"

namespace itm {

namespace {

struct alignas(128) Cell {
  Triangle *triangle;
};
// Taken from one end, put in at the other.
Cell queue_first, queue_last;
// Of the mesh; written when it dies.
Cell anchor;

constexpr unsigned after(unsigned corner) { return corner == 2 ? 0 : corner + 1; }

Triangle *make_triangle(const Point &a, const Point &b, const Point &c) {
  auto *const triangle = static_cast<Triangle *>(std::malloc(sizeof(Triangle)));
  triangle->corners[0] = a;
  triangle->corners[1] = b;
  triangle->corners[2] = c;
  for (Triangle *&each : triangle->neighbours) each = nullptr;
  triangle->is_dead = 0;
  triangle->is_held = 0;
  triangle->next = nullptr;
  return triangle;
}
bool has_in_circle(const Triangle *triangle, const Point &point) {
  return is_in_circle(triangle->corners[0], triangle->corners[1], triangle->corners[2], point);
}
bool is_bad_triangle(const Triangle *triangle, double squared_ratio_max) {
  return is_bad(triangle->corners[0], triangle->corners[1], triangle->corners[2],
                squared_ratio_max);
}

// An edge of a triangle: the one opposite its corner.
struct Side {
  Triangle *triangle;
  unsigned corner;
  [[nodiscard]] Point from() const { return triangle->corners[after(corner)]; }
  [[nodiscard]] Point to() const { return triangle->corners[after(after(corner))]; }
};

// From the triangle towards the point. `triangle` holds it, or `is_outside` and the way led out
// over the border there.
struct Place {
  Side side;
  bool is_outside;
};
[[gnu::always_inline]] inline Place place_of(const Point &point, Triangle *triangle) {
  for (;;) {
    unsigned corner = 0;
    while (corner < 3) {
      const Side side = {triangle, corner};
      if (turn(side.from(), side.to(), point) < 0) break;
      ++corner;
    }
    if (corner == 3) return {{triangle, 0}, false};
    if (triangle->neighbours[corner] == nullptr) return {{triangle, corner}, true};
    triangle = triangle->neighbours[corner];
  }
}

struct Cavity {
  Triangle *triangles[kCavityMax];
  std::uint64_t count = 0;
  // Around it; the neighbours there stay.
  Side sides[kCavityMax + 2];
  std::uint64_t side_count = 0;
  [[nodiscard]] bool has(const Triangle *triangle) const {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (triangles[i] == triangle) return true;
    }
    return false;
  }
};

enum class Found { kCavity, kEncroaches, kCannot };

// Of a point inside `first`, or on its edge `split`, which is on the border then (null triangle:
// none). kEncroaches: the point is in the circle over *encroached, an edge of the border.
// `encroached` may be null: then borders do not matter.
[[gnu::always_inline]] inline Found find_cavity(const Point &point, Triangle *first,
                                                const Side &split, Cavity &cavity,
                                                Side *encroached) {
  cavity.triangles[cavity.count++] = first;
  for (std::uint64_t i = 0; i < cavity.count; ++i) {
    Triangle *const triangle = cavity.triangles[i];
    for (unsigned corner = 0; corner < 3; ++corner) {
      const Side side = {triangle, corner};
      Triangle *const neighbour = triangle->neighbours[corner];
      if (neighbour == nullptr) {
        if (triangle == split.triangle && corner == split.corner) continue;
        if (encroached != nullptr && encroaches(side.from(), side.to(), point)) {
          *encroached = side;
          return Found::kEncroaches;
        }
      } else if (cavity.has(neighbour)) {
        continue;
      } else if (has_in_circle(neighbour, point)) {
        if (cavity.count == kCavityMax) return Found::kCannot;
        cavity.triangles[cavity.count++] = neighbour;
        continue;
      }
      // Points in a line make no triangle.
      if (turn(side.from(), side.to(), point) <= 0) return Found::kCannot;
      if (cavity.side_count == kCavityMax + 2) return Found::kCannot;
      cavity.sides[cavity.side_count++] = side;
    }
  }
  return Found::kCavity;
}

void add_bad(Triangle *triangle, Refined &refined) {
  triangle->is_held = 1;
  triangle->next = refined.first_bad;
  refined.first_bad = triangle;
  if (refined.last_bad == nullptr) refined.last_bad = triangle;
}

// New triangles from the point to each side of its cavity. `taken`: the caller's own, if it dies.
[[gnu::always_inline]] inline void fill(const Point &point, const Cavity &cavity,
                                        double squared_ratio_max, const Triangle *taken,
                                        Triangle **dead, Refined &refined) {
  Triangle *fresh[kCavityMax + 2];
  for (std::uint64_t i = 0; i < cavity.side_count; ++i) {
    const Side &side = cavity.sides[i];
    fresh[i] = make_triangle(point, side.from(), side.to());
    Triangle *const outer = side.triangle->neighbours[side.corner];
    fresh[i]->neighbours[0] = outer;
    if (outer == nullptr) continue;
    for (Triangle *&each : outer->neighbours) {
      if (each == side.triangle) each = fresh[i];
    }
  }
  for (std::uint64_t i = 0; i < cavity.side_count; ++i) {
    const Point to = cavity.sides[i].to();
    for (std::uint64_t j = 0; j < cavity.side_count; ++j) {
      if (cavity.sides[j].from() != to) continue;
      fresh[i]->neighbours[1] = fresh[j];
      fresh[j]->neighbours[2] = fresh[i];
    }
  }
  for (std::uint64_t i = 0; i < cavity.side_count; ++i) {
    if (is_bad_triangle(fresh[i], squared_ratio_max)) add_bad(fresh[i], refined);
  }
  for (std::uint64_t i = 0; i < cavity.count; ++i) {
    Triangle *const triangle = cavity.triangles[i];
    triangle->is_dead = 1;
    if (triangle == anchor.triangle) anchor.triangle = fresh[0];
    if (triangle->is_held == 0 || triangle == taken) dead[refined.dead_count++] = triangle;
  }
}

// Puts a point into the middle of an edge of the border.
bool split_edge(const Side &side, double squared_ratio_max, const Triangle *taken, Triangle **dead,
                Refined &refined) {
  const Point from = side.from(), to = side.to();
  if (squared_distance(from, to) < 4 * kEdgeMin * kEdgeMin) return false;
  const Point middle = {(from.x + to.x) / 2, (from.y + to.y) / 2};
  Cavity cavity;
  if (find_cavity(middle, side.triangle, side, cavity, nullptr) != Found::kCavity) return false;
  fill(middle, cavity, squared_ratio_max, taken, dead, refined);
  return true;
}

[[gnu::noinline]] Outcome refine_alive(Triangle *triangle, double squared_ratio_max,
                                       Triangle **dead, Refined &refined) {
  const Point center =
      circumcenter(triangle->corners[0], triangle->corners[1], triangle->corners[2]);
  const Place place = place_of(center, triangle);
  Side border = place.side;
  Found found = Found::kEncroaches;
  if (!place.is_outside) {
    for (const Point &corner : place.side.triangle->corners) {
      if (corner == center) return Outcome::kGaveUp;
    }
    Cavity cavity;
    found = find_cavity(center, place.side.triangle, {nullptr, 0}, cavity, &border);
    if (found == Found::kCavity) {
      fill(center, cavity, squared_ratio_max, triangle, dead, refined);
      return Outcome::kInserted;
    }
  }
  if (found != Found::kEncroaches ||
      !split_edge(border, squared_ratio_max, triangle, dead, refined))
    return Outcome::kGaveUp;
  return Outcome::kSplit;
}

}  // namespace

void mesh_open() {
  const Point corners[4] = {{0, 0}, {kSide, 0}, {kSide, kSide}, {0, kSide}};
  Triangle *const low = make_triangle(corners[0], corners[1], corners[2]);
  Triangle *const high = make_triangle(corners[0], corners[2], corners[3]);
  low->neighbours[1] = high;
  high->neighbours[2] = low;
  anchor.triangle = low;
  queue_first.triangle = nullptr;
  queue_last.triangle = nullptr;
}
bool mesh_add(const Point &point) {
  const Place place = place_of(point, anchor.triangle);
  if (place.is_outside) return false;
  for (const Point &corner : place.side.triangle->corners) {
    if (corner == point) return false;
  }
  Cavity cavity;
  if (find_cavity(point, place.side.triangle, {nullptr, 0}, cavity, nullptr) != Found::kCavity)
    return false;
  Triangle *dead[kCavityMax];
  Refined refined;
  // No triangle is so bad.
  fill(point, cavity, 1e300, nullptr, dead, refined);
  for (std::uint64_t i = 0; i < refined.dead_count; ++i) std::free(dead[i]);
  return true;
}

Triangle *take_bad() {
  return atomically([&] {
    Triangle *const first = queue_first.triangle;
    if (first != nullptr) {
      Triangle *const next = first->next;
      queue_first.triangle = next;
      if (next == nullptr) queue_last.triangle = nullptr;
    }
    return first;
  });
}
void queue_bad(Triangle *first, Triangle *last) {
  atomically([&] {
    last->next = nullptr;
    if (queue_last.triangle == nullptr) {
      queue_first.triangle = first;
    } else {
      queue_last.triangle->next = first;
    }
    queue_last.triangle = last;
  });
}
Refined refine(Triangle *triangle, double squared_ratio_max, Triangle **dead) {
  return atomically([&] {
    Refined refined;
    if (triangle->is_dead != 0) {
      refined.outcome = Outcome::kWasDead;
      dead[refined.dead_count++] = triangle;
      return refined;
    }
    refined.outcome = refine_alive(triangle, squared_ratio_max, dead, refined);
    if (refined.outcome == Outcome::kGaveUp) {
      triangle->is_held = 0;
    } else if (triangle->is_dead == 0) {
      add_bad(triangle, refined);
    }
    return refined;
  });
}

Triangle *mesh_triangle() { return anchor.triangle; }

}  // namespace itm
