// examples/itm/graph.cpp -- a list of edges becomes a graph: arrays of the edges that leave and
// that reach each vertex.
// Shape:     threads count each vertex's edges, one thread gives every vertex its room, threads
//            place the edges: tiny transactions, rarely in conflict. An operation is one edge.
// Checks:    every vertex has as many edges as were counted, and all have their places full; the
//            edges of the graph are those of the list.
// Source:    STAMP (ssca2); SSCA2 (generator, kernel 1).
#include "examples/itm/graph.h"

#include <algorithm>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

struct Sizes {
  std::uint64_t scale = 14, parallel_edges = 3, clique_max = 32;
  double between = 0.5;
  [[nodiscard]] std::uint64_t vertices() const { return std::uint64_t{1} << scale; }
};

// Cliques of random sizes. Between them, from each vertex to others at distances 1, 2, 4...: half
// as likely from each distance to the next. Vertices have random names, edges are in no order.
std::vector<itm::Edge> make_edges(const Sizes &sizes, itm::Random &random) {
  const std::uint64_t vertices = sizes.vertices();
  std::vector<std::uint32_t> names(vertices), clique_of(vertices);
  for (std::uint32_t i = 0; i < vertices; ++i) names[i] = i;
  for (std::uint64_t i = vertices - 1; i > 0; --i) std::swap(names[i], names[random.below(i + 1)]);
  std::vector<itm::Edge> edges;
  const auto add = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = 1 + random.below(sizes.parallel_edges); i > 0; --i)
      edges.push_back({names[from], names[to], static_cast<std::uint32_t>(random.below(vertices))});
  };
  std::uint32_t clique = 0;
  for (std::uint64_t first = 0; first < vertices; ++clique) {
    const std::uint64_t last = std::min(vertices, first + 1 + random.below(sizes.clique_max));
    for (std::uint64_t from = first; from < last; ++from) {
      clique_of[from] = clique;
      for (std::uint64_t to = first; to < last; ++to) {
        if (from != to) add(from, to);
      }
    }
    first = last;
  }
  for (std::uint64_t from = 0; from < vertices; ++from) {
    double likely = sizes.between;
    for (std::uint64_t distance = 1; distance < vertices; distance *= 2, likely /= 2) {
      const std::uint64_t to = (from + distance) % vertices;
      if (clique_of[from] != clique_of[to] && random.unit() < likely) add(from, to);
    }
  }
  for (std::uint64_t i = edges.size(); i > 1; --i) std::swap(edges[i - 1], edges[random.below(i)]);
  return edges;
}

void work(itm::Worker &worker, const std::vector<itm::Edge> &edges) {
  const std::uint64_t first = edges.size() * worker.index() / worker.threads();
  const std::uint64_t last = edges.size() * (worker.index() + 1) / worker.threads();
  for (std::uint64_t i = first; i < last; ++i) itm::count_edge(edges[i]);
  worker.meet();
  if (worker.index() == 0) itm::make_room();
  worker.meet();
  for (std::uint64_t i = first; i < last; ++i) itm::place_edge(edges[i]);
  worker.add(last - first);
}

// Equal sums of these over two lists: the same edges, in whatever order.
std::uint64_t mixed(std::uint64_t from, std::uint64_t to, std::uint64_t weight) {
  return itm::Random(itm::Random(from << 32 | to).next() + weight).next();
}

bool is_full(const itm::Adjacency &side, std::uint64_t vertices) {
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < vertices; ++i) {
    if (side.start[i] != next || side.filled[i] != side.degree[i]) return false;
    next += side.degree[i];
  }
  return true;
}

void check(const Sizes &sizes, const std::vector<itm::Edge> &edges, itm::Report &report) {
  const itm::Graph graph = itm::graph();
  report.require(is_full(graph.out, sizes.vertices()) && is_full(graph.in, sizes.vertices()),
                 "a vertex has more room than edges, or less");
  if (!report.is_ok()) return;  // then the places below may lie anywhere
  std::uint64_t listed = 0, leaving = 0, listed_in = 0, arriving = 0;
  for (const itm::Edge &edge : edges) {
    listed += mixed(edge.from, edge.to, edge.weight);
    listed_in += mixed(edge.from, edge.to, 0);
  }
  std::uint64_t out = 0, in = 0;
  for (std::uint64_t vertex = 0; vertex < sizes.vertices(); ++vertex) {
    for (std::uint64_t i = 0; i < graph.out.filled[vertex]; ++i) {
      const itm::Target &target = graph.targets[graph.out.start[vertex] + i];
      leaving += mixed(vertex, target.vertex, target.weight);
    }
    for (std::uint64_t i = 0; i < graph.in.filled[vertex]; ++i)
      arriving += mixed(graph.sources[graph.in.start[vertex] + i], vertex, 0);
    out += graph.out.filled[vertex];
    in += graph.in.filled[vertex];
  }
  report.require(out == edges.size() && in == edges.size(), "edges were lost or made");
  report.require(leaving == listed, "other edges leave the vertices than were listed");
  report.require(arriving == listed_in, "other edges reach the vertices than were listed");
}

}  // namespace

int main(int argc, char **argv) {
  Sizes sizes;
  itm::Options options("graph", "A list of edges becomes a graph; an operation is one edge",
                       itm::Amount::kInputs);
  options.add("--scale", sizes.scale, "two to this are the vertices", 1, 22);
  options.add("--clique", sizes.clique_max, "vertices of a clique, at most", 1, 256);
  options.add("--parallel", sizes.parallel_edges, "edges from one vertex to another, at most", 1,
              16);
  options.add("--between", sizes.between, "likelihood of edges between neighbouring cliques", 0, 1);
  if (!options.parse(argc, argv)) return options.status();

  const itm::Common &common = options.common();
  itm::Report report(options);
  itm::Work done;
  const std::uint64_t inputs = itm::run_rounds(common, done, [&](std::uint64_t round) {
    itm::Random random(itm::seed_of(common.seed, round));
    const std::vector<itm::Edge> edges = make_edges(sizes, random);
    itm::graph_open(sizes.vertices(), edges.size());
    done += itm::run_threads(common, [&](itm::Worker &worker) { work(worker, edges); });
    check(sizes, edges, report);
    itm::graph_close();
    return report.is_ok();
  });
  report.detail("vertices", sizes.vertices());
  report.detail("clique_max", sizes.clique_max);
  report.detail("parallel_edges", sizes.parallel_edges);
  report.detail("between", sizes.between);
  report.detail("inputs", inputs);
  return report.print(done);
}
