// examples/itm/mesh_geometry.h -- points and triangles of a square, without rounding errors.
// Shape:     coordinates are whole numbers; predicates are exact. Triangles are given
//            counter-clockwise.
// Contexts:  plain functions of values: in transactions, too.
#pragma once

#include <cstdint>

namespace itm {

inline constexpr std::int64_t kSide = 1 << 20;
// Circumcenters are rounded to whole numbers: triangles with shorter edges are not refined.
inline constexpr std::int64_t kEdgeMin = 16;

struct Point {
  std::int64_t x, y;
  bool operator==(const Point &) const = default;
};

// Above 0: a, b, c turn left; 0: they are on a line. Twice the triangle's area.
inline std::int64_t turn(const Point &a, const Point &b, const Point &c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}
inline std::int64_t squared_distance(const Point &a, const Point &b) {
  return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
}
// Strictly inside the circle through a, b and c.
inline bool is_in_circle(const Point &a, const Point &b, const Point &c, const Point &point) {
  __extension__ using Wide = __int128;
  const std::int64_t ax = a.x - point.x, ay = a.y - point.y, bx = b.x - point.x, by = b.y - point.y,
                     cx = c.x - point.x, cy = c.y - point.y;
  const Wide sum = static_cast<Wide>(ax * ax + ay * ay) * (bx * cy - by * cx) -
                   static_cast<Wide>(bx * bx + by * by) * (ax * cy - ay * cx) +
                   static_cast<Wide>(cx * cx + cy * cy) * (ax * by - ay * bx);
  return sum > 0;
}
// On or inside the circle whose diameter is the edge.
inline bool encroaches(const Point &a, const Point &b, const Point &point) {
  return (a.x - point.x) * (b.x - point.x) + (a.y - point.y) * (b.y - point.y) <= 0;
}
inline bool is_in_square(const Point &point) {
  return point.x >= 0 && point.y >= 0 && point.x <= kSide && point.y <= kSide;
}

// Radius of the circle through the corners, divided by the shortest edge, squared; the smallest
// angle is the one whose sine is half the quotient's reciprocal.
inline double squared_ratio(const Point &a, const Point &b, const Point &c) {
  const auto ab = static_cast<double>(squared_distance(a, b)),
             bc = static_cast<double>(squared_distance(b, c)),
             ca = static_cast<double>(squared_distance(c, a)),
             area = static_cast<double>(turn(a, b, c));
  double shortest = ab < bc ? ab : bc;
  shortest = ca < shortest ? ca : shortest;
  return ab * bc * ca / (4 * area * area * shortest);
}
inline bool is_bad(const Point &a, const Point &b, const Point &c, double squared_ratio_max) {
  constexpr std::int64_t kMin = kEdgeMin * kEdgeMin;
  return squared_distance(a, b) >= kMin && squared_distance(b, c) >= kMin &&
         squared_distance(c, a) >= kMin && squared_ratio(a, b, c) > squared_ratio_max;
}

// Of a number that may lie far outside the square: as far as the predicates can bear.
inline std::int64_t rounded(double value) {
  constexpr double kFar = 4.0 * kSide;
  if (value > kFar) return static_cast<std::int64_t>(kFar);
  if (value < -kFar) return static_cast<std::int64_t>(-kFar);
  return static_cast<std::int64_t>(value < 0 ? value - 0.5 : value + 0.5);
}
inline Point circumcenter(const Point &a, const Point &b, const Point &c) {
  const auto bx = static_cast<double>(b.x - a.x), by = static_cast<double>(b.y - a.y),
             cx = static_cast<double>(c.x - a.x), cy = static_cast<double>(c.y - a.y);
  const double bb = bx * bx + by * by, cc = cx * cx + cy * cy, area = 2 * (bx * cy - by * cx);
  return {rounded(static_cast<double>(a.x) + (cy * bb - by * cc) / area),
          rounded(static_cast<double>(a.y) + (bx * cc - cx * bb) / area)};
}

}  // namespace itm
