// examples/itm/graph.h -- what graph.cpp drives; graph_transactions.cpp defines it.
#pragma once

#include <cstdint>

namespace itm {

struct Edge {
  std::uint32_t from, to, weight;
};

// An edge as its first vertex has it.
struct Target {
  std::uint32_t vertex, weight;
};

// Before any thread works.
void graph_open(std::uint64_t vertices, std::uint64_t edges);
void graph_close();

// One transaction each.
void count_edge(const Edge &edge);
void place_edge(const Edge &edge);

// By one thread, between all count_edge() and the first place_edge(): several transactions.
void make_room();

// The graph, when it is made: plain memory. The edges of vertex v begin at start[v], and there are
// filled[v] of them.
struct Adjacency {
  const std::uint32_t *degree, *start, *filled;
};
struct Graph {
  Adjacency out, in;
  const Target *targets;
  const std::uint32_t *sources;
};
[[nodiscard]] Graph graph();

}  // namespace itm
