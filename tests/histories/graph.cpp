// tests/histories/graph.cpp -- strongly connected components (Tarjan), then breadth first search
// for a short cycle in one.
// Source:    Depth-first search. Iterative: a history's graph is deep.
#include "tests/histories/graph.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace tmh::history {

namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// A cycle is shown to a person: the best of this many starting points is short enough, and the
// search stays linear.
constexpr std::size_t kStartsMax = 256;

struct Frame {
  std::size_t node;
  std::size_t next_edge;
};

}  // namespace

std::vector<std::size_t> Graph::components() const {
  const std::size_t count = out_.size();
  std::vector<std::size_t> component(count, kNone), order(count, kNone), low(count, 0), open;
  std::vector<Frame> frames;
  std::size_t next_order = 0, next_component = 0;
  for (std::size_t root = 0; root < count; ++root) {
    if (order[root] != kNone) continue;
    frames.push_back({root, 0});
    while (!frames.empty()) {
      const std::size_t node = frames.back().node;
      if (frames.back().next_edge == 0) {
        order[node] = low[node] = next_order++;
        open.push_back(node);
      }
      bool descended = false;
      while (frames.back().next_edge < out_[node].size()) {
        const std::size_t to = out_[node][frames.back().next_edge++].to;
        if (order[to] == kNone) {
          frames.push_back({to, 0});
          descended = true;
          break;
        }
        if (component[to] == kNone) low[node] = std::min(low[node], order[to]);
      }
      if (descended) continue;
      if (low[node] == order[node]) {
        std::size_t member = kNone;
        do {
          member = open.back();
          open.pop_back();
          component[member] = next_component;
        } while (member != node);
        ++next_component;
      }
      frames.pop_back();
      if (!frames.empty()) low[frames.back().node] = std::min(low[frames.back().node], low[node]);
    }
  }
  return component;
}

// Edges into helper nodes are free, so that a path through them counts as the one edge that it
// stands for.
std::vector<Edge> Graph::shortest_cycle_through(std::size_t start,
                                                const std::vector<std::size_t> &component) const {
  std::vector<std::size_t> distance(out_.size(), kNone);
  std::vector<Edge> via(out_.size());
  std::deque<std::size_t> queue{start};
  distance[start] = 0;
  Edge closing;
  std::size_t best = kNone;
  while (!queue.empty()) {
    const std::size_t node = queue.front();
    queue.pop_front();
    for (const Edge &edge : out_[node]) {
      if (component[edge.to] != component[start]) continue;
      const std::size_t length = distance[node] + (is_helper(edge.to) ? 0 : 1);
      if (edge.to == start) {
        if (length < best) {
          best = length;
          closing = edge;
        }
      } else if (distance[edge.to] == kNone || length < distance[edge.to]) {
        distance[edge.to] = length;
        via[edge.to] = edge;
        if (is_helper(edge.to)) {
          queue.push_front(edge.to);
        } else {
          queue.push_back(edge.to);
        }
      }
    }
  }
  std::vector<Edge> cycle;
  if (best == kNone) return cycle;
  cycle.push_back(closing);
  while (cycle.back().from != start) cycle.push_back(via[cycle.back().from]);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

std::vector<Edge> Graph::find_cycle() const {
  const std::vector<std::size_t> component = components();
  std::vector<std::size_t> members(component.size(), 0);
  for (const std::size_t c : component) ++members[c];
  std::vector<Edge> best;
  std::size_t starts = 0;
  for (std::size_t node = 0; node < solid_count_ && starts < kStartsMax; ++node) {
    if (members[component[node]] < 2) continue;
    ++starts;
    std::vector<Edge> cycle = shortest_cycle_through(node, component);
    if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = std::move(cycle);
  }
  return best;
}

}  // namespace tmh::history
