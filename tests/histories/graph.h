// tests/histories/graph.h -- a directed graph with labelled edges, and a short cycle in it.
// Shape:     nodes are dense indices. The first `solid` ones count in the length of a cycle; later
//            ones are helper nodes that stand for many edges at once (checker.cpp: points in time).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tmh::history {

enum class EdgeType : std::uint8_t {
  kWriteRead = 1,   // the target read what the source wrote
  kWriteWrite = 2,  // the target replaced the source's version
  kReadWrite = 3,   // the target replaced a version that the source read
  kRealTime = 4,    // the source had ended before the target began
};

struct Edge {
  std::size_t from = 0;
  std::size_t to = 0;
  EdgeType type = EdgeType::kWriteRead;
  std::uint64_t cell = 0;  // meaningless for kRealTime
};

class Graph {
 public:
  Graph(std::size_t solid_count, std::size_t helper_count)
      : solid_count_(solid_count), out_(solid_count + helper_count) {}

  void add(const Edge &edge) {
    out_[edge.from].push_back(edge);
    ++edge_count_;
  }
  [[nodiscard]] std::size_t edge_count() const noexcept { return edge_count_; }
  [[nodiscard]] bool is_helper(std::size_t node) const noexcept { return node >= solid_count_; }

  // Edges of a short cycle, each one's target the next one's source; empty when the graph has no
  // cycle.
  [[nodiscard]] std::vector<Edge> find_cycle() const;

 private:
  [[nodiscard]] std::vector<std::size_t> components() const;
  [[nodiscard]] std::vector<Edge> shortest_cycle_through(
      std::size_t start, const std::vector<std::size_t> &component) const;

  std::size_t solid_count_;
  std::size_t edge_count_ = 0;
  std::vector<std::vector<Edge>> out_;
};

}  // namespace tmh::history
