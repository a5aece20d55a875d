// examples/itm/graph_transactions.cpp -- arrays of edges in the order of vertices: of those that
// leave a vertex, and of those that arrive.
#include "examples/itm/graph.h"

#include <cstdlib>

#include "examples/itm/support/section.h"

namespace itm {

namespace {

struct Side {
  std::uint32_t *degree, *start, *filled;
};
// Pointers only: read by everybody.
struct Arrays {
  Side out, in;
  Target *targets;
  std::uint32_t *sources;
  std::uint64_t vertices;
};
alignas(128) Arrays arrays;

template <class T>
T *zeros(std::uint64_t count) {
  auto *const memory = static_cast<T *>(std::calloc(count, sizeof(T)));
  if (memory == nullptr) std::abort();
  return memory;
}
Side make_side(std::uint64_t vertices) {
  return {zeros<std::uint32_t>(vertices), zeros<std::uint32_t>(vertices),
          zeros<std::uint32_t>(vertices)};
}
void free_side(const Side &side) {
  std::free(side.degree);
  std::free(side.start);
  std::free(side.filled);
}
void make_room_on(const Side &side, std::uint64_t vertices) {
  constexpr std::uint64_t kVertices = 256;  // of one transaction
  std::uint32_t next = 0;
  for (std::uint64_t first = 0; first < vertices; first += kVertices) {
    const std::uint64_t last = first + kVertices < vertices ? first + kVertices : vertices;
    next = atomically([&] {
      std::uint32_t start = next;
      for (std::uint64_t i = first; i < last; ++i) {
        side.start[i] = start;
        start += side.degree[i];
      }
      return start;
    });
  }
}

}  // namespace

void graph_open(std::uint64_t vertices, std::uint64_t edges) {
  arrays = {make_side(vertices), make_side(vertices), zeros<Target>(edges),
            zeros<std::uint32_t>(edges), vertices};
}
void graph_close() {
  free_side(arrays.out);
  free_side(arrays.in);
  std::free(arrays.targets);
  std::free(arrays.sources);
}

void count_edge(const Edge &edge) {
  std::uint32_t &out = arrays.out.degree[edge.from], &in = arrays.in.degree[edge.to];
  atomically([&] {
    ++out;
    ++in;
  });
}
void place_edge(const Edge &edge) {
  const Edge copy = edge;
  const Arrays all = arrays;
  // No worker writes a start since make_room().
  const std::uint32_t out_start = all.out.start[copy.from], in_start = all.in.start[copy.to];
  atomically([&] {
    Target &target = all.targets[out_start + all.out.filled[copy.from]++];
    target.vertex = copy.to;
    target.weight = copy.weight;
    all.sources[in_start + all.in.filled[copy.to]++] = copy.from;
  });
}
void make_room() {
  make_room_on(arrays.out, arrays.vertices);
  make_room_on(arrays.in, arrays.vertices);
}

Graph graph() {
  const auto read = [](const Side &side) {
    return Adjacency{side.degree, side.start, side.filled};
  };
  return {read(arrays.out), read(arrays.in), arrays.targets, arrays.sources};
}

}  // namespace itm
