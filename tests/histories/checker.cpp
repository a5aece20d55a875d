// tests/histories/checker.cpp -- the direct serialization graph, in three stages, and the words for
// what is wrong with it.
// Shape:     stage 1: committed updates; stage 2: queries, aborted and undecided instances join as
//            readers; stage 3: real time. Each stage runs only when the one before found no cycle,
//            so that a cycle is named by its weakest cause.
#include "tests/histories/checker.h"

#include <algorithm>
#include <set>

#include "tests/histories/graph.h"
#include "tests/histories/index.h"

namespace tmh::history {

namespace {

enum class Stage : std::uint8_t { kUpdates = 1, kReaders = 2, kRealTime = 3 };

// Of the graph: each instance as it reads; behind these, each committed snapshot instance as it
// commits.
class Nodes {
 public:
  // as_serializable: no instance has a second node.
  Nodes(const Index &index, bool as_serializable) {
    const std::size_t count = index.history().instances.size();
    for (std::size_t i = 0; i < count; ++i) instances_.push_back(i);
    commits_ = instances_;
    for (std::size_t i = 0; i < count && !as_serializable; ++i) {
      if (!index.history().instances[i].is_snapshot || !index.footprint(i).committed) continue;
      commits_[i] = instances_.size();
      instances_.push_back(i);
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return instances_.size(); }
  [[nodiscard]] std::size_t instance_of(std::size_t node) const { return instances_[node]; }
  [[nodiscard]] static std::size_t reads_of(std::size_t instance) noexcept { return instance; }
  // reads_of() where it reads and commits at one moment.
  [[nodiscard]] std::size_t commit_of(std::size_t instance) const { return commits_[instance]; }

 private:
  std::vector<std::size_t> instances_, commits_;
};

bool takes_part(const Index &index, std::size_t instance, Stage stage) {
  if (stage != Stage::kUpdates) return true;
  return index.footprint(instance).committed &&
         index.history().instances[instance].kind == Kind::kUpdate;
}

// Reading comes before committing; what follows a commit also follows the reads.
void add_edge(const Nodes &nodes, const Edge &edge, Graph *graph) {
  const bool leaves_reads = edge.type == EdgeType::kReadWrite;
  const std::size_t to = leaves_reads ? nodes.commit_of(edge.to) : Nodes::reads_of(edge.to);
  graph->add({Nodes::reads_of(edge.from), to, edge.type, edge.cell});
  if (!leaves_reads && nodes.commit_of(edge.from) != Nodes::reads_of(edge.from))
    graph->add({nodes.commit_of(edge.from), to, edge.type, edge.cell});
}

void add_data_edges(const Index &index, Stage stage, const Nodes &nodes, Graph *graph) {
  const std::size_t count = index.history().instances.size();
  const auto add = [&](std::size_t from, std::size_t to, EdgeType type, Cell cell) {
    if (from == Index::kInitial || to == Index::kInitial || from == to) return;
    if (!takes_part(index, from, stage) || !takes_part(index, to, stage)) return;
    add_edge(nodes, {from, to, type, cell}, graph);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Footprint &footprint = index.footprint(i);
    for (const ReadVersion &version : footprint.reads) {
      add(index.writer(version), i, EdgeType::kWriteRead, version.cell);
      add(i, index.successor(version), EdgeType::kReadWrite, version.cell);
    }
    if (!footprint.committed) continue;
    for (const WrittenVersion &version : footprint.writes) {
      add(index.writer({version.cell, version.replaced}), i, EdgeType::kWriteWrite, version.cell);
    }
  }
}

// "a ended before b began" for all pairs needs quadratically many edges. One helper node per end,
// in order of time, with an edge to the next one, says the same: a leads to its own end, the last
// end before b's begin leads to b.
void add_time_edges(const History &history, const std::vector<std::size_t> &by_end,
                    const Nodes &nodes, Graph *graph) {
  const std::size_t count = nodes.count();
  const auto end_of = [&](std::size_t instance) { return history.instances[instance].end_ns; };
  for (std::size_t k = 0; k < by_end.size(); ++k) {
    graph->add({Nodes::reads_of(by_end[k]), count + k, EdgeType::kRealTime, 0});
    if (nodes.commit_of(by_end[k]) != Nodes::reads_of(by_end[k]))
      graph->add({nodes.commit_of(by_end[k]), count + k, EdgeType::kRealTime, 0});
    if (k + 1 < by_end.size()) graph->add({count + k, count + k + 1, EdgeType::kRealTime, 0});
  }
  for (std::size_t i = 0; i < history.instances.size(); ++i) {
    const auto later = std::partition_point(by_end.begin(), by_end.end(), [&](std::size_t e) {
      return end_of(e) < history.instances[i].begin_ns;
    });
    if (later == by_end.begin()) continue;
    graph->add(
        {count + static_cast<std::size_t>(later - by_end.begin()) - 1, i, EdgeType::kRealTime, 0});
  }
}

Graph build_graph(const Index &index, Stage stage, const Nodes &nodes) {
  const History &history = index.history();
  // Decided instances; a killed one has no end that anybody could know.
  std::vector<std::size_t> by_end;
  if (stage == Stage::kRealTime) {
    for (std::size_t i = 0; i < history.instances.size(); ++i) {
      if (history.instances[i].outcome != Outcome::kUnknown) by_end.push_back(i);
    }
    std::sort(by_end.begin(), by_end.end(), [&](std::size_t a, std::size_t b) {
      return history.instances[a].end_ns < history.instances[b].end_ns;
    });
  }
  Graph graph(nodes.count(), by_end.size());
  add_data_edges(index, stage, nodes, &graph);
  if (stage == Stage::kRealTime) add_time_edges(history, by_end, nodes, &graph);
  return graph;
}

// A cycle of instances: what led through points in time becomes one real-time edge.
std::vector<Edge> of_instances(const Graph &graph, const Nodes &nodes,
                               const std::vector<Edge> &cycle) {
  const auto solid = std::find_if(cycle.begin(), cycle.end(),
                                  [&](const Edge &edge) { return !graph.is_helper(edge.from); });
  std::vector<Edge> turned(solid, cycle.end());
  turned.insert(turned.end(), cycle.begin(), solid);
  std::vector<Edge> result;
  for (const Edge &edge : turned) {
    if (graph.is_helper(edge.from)) {
      result.back().to = edge.to;
    } else {
      result.push_back(edge);
    }
  }
  for (Edge &edge : result) {
    edge.from = nodes.instance_of(edge.from);
    edge.to = nodes.instance_of(edge.to);
  }
  return result;
}

Fault name_fault(const Index &index, const std::vector<Edge> &cycle, Stage stage) {
  const auto is = [](const Edge &edge, EdgeType type) { return edge.type == type; };
  if (cycle.size() == 2) {
    // One saw a killed instance's write in one cell and missed its write in another.
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
      const Edge &out = cycle[first], &back = cycle[1 - first];
      const bool killed = index.history().instances[out.from].outcome == Outcome::kUnknown;
      if (killed && !is(out, EdgeType::kReadWrite) && !is(out, EdgeType::kRealTime) &&
          is(back, EdgeType::kReadWrite)) {
        return Fault::kPartialCommit;
      }
    }
    if (stage == Stage::kUpdates && is(cycle[0], EdgeType::kReadWrite) &&
        is(cycle[1], EdgeType::kReadWrite)) {
      return Fault::kWriteSkew;
    }
  }
  switch (stage) {
    case Stage::kUpdates:
      return Fault::kNotSerializable;
    case Stage::kReaders:
      return Fault::kInconsistentView;
    case Stage::kRealTime:
      return Fault::kRealTime;
  }
  return Fault::kNotSerializable;
}

const char *describe(RanAt where) {
  switch (where) {
    case RanAt::kUnknown:
      break;
    case RanAt::kLines:
      return " on lines";
    case RanAt::kHardware:
      return " in hardware";
    case RanAt::kPages:
      return " on pages";
    case RanAt::kIrrevocably:
      return " on pages, irrevocable";
  }
  return "";
}

std::string describe(const History &history, const Instance &instance) {
  std::uint64_t origin = instance.begin_ns;
  for (const Instance &other : history.instances) origin = std::min(origin, other.begin_ns);
  std::string text = to_string(instance.id) + " (" + to_string(instance.outcome) + " ";
  if (instance.is_snapshot) text += "snapshot ";
  text += instance.kind == Kind::kQuery ? "query" : "update";
  text += describe(instance.ran_at);
  text += ", " + std::to_string((instance.begin_ns - origin) / 1000) + " us to ";
  return text +
         (instance.outcome == Outcome::kUnknown
              ? "?"
              : std::to_string((instance.end_ns - origin) / 1000) + " us") +
         ")";
}

std::string describe(const History &history, const Edge &edge) {
  const std::string other = to_string(history.instances[edge.to].id);
  const std::string cell = "cell " + std::to_string(edge.cell);
  switch (edge.type) {
    case EdgeType::kWriteRead:
      return "wrote " + cell + ", which was read by " + other;
    case EdgeType::kWriteWrite:
      return "wrote " + cell + ", which was replaced by " + other;
    case EdgeType::kReadWrite:
      return "read " + cell + " before the version written by " + other;
    case EdgeType::kRealTime:
      return "had ended before the begin of " + other;
  }
  return "?";
}

Violation explain(const Index &index, const std::vector<Edge> &cycle, Stage stage) {
  const History &history = index.history();
  Violation violation;
  violation.fault = name_fault(index, cycle, stage);
  std::set<Cell> cells;
  violation.text = "cycle of " + std::to_string(cycle.size());
  for (const Edge &edge : cycle) {
    const Instance &instance = history.instances[edge.from];
    violation.instances.push_back(instance.id);
    if (edge.type != EdgeType::kRealTime) cells.insert(edge.cell);
    violation.text += "\n      " + describe(history, instance) + " " + describe(history, edge);
  }
  violation.cells.assign(cells.begin(), cells.end());
  return violation;
}

// What the index has found names instances only.
void tell_of_instances(const History &history, std::vector<Violation> *violations) {
  for (Violation &violation : *violations) {
    for (const Instance &instance : history.instances) {
      const auto &named = violation.instances;
      if (std::find(named.begin(), named.end(), instance.id) != named.end())
        violation.text += "\n      " + describe(history, instance);
    }
  }
}

void count(const Index &index, Verdict *verdict) {
  for (std::size_t i = 0; i < index.history().instances.size(); ++i) {
    const Instance &instance = index.history().instances[i];
    const Footprint &footprint = index.footprint(i);
    verdict->reads += footprint.reads.size();
    verdict->writes += footprint.committed ? footprint.writes.size() : 0;
    switch (instance.outcome) {
      case Outcome::kCommitted:
        ++(instance.kind == Kind::kQuery ? verdict->queries : verdict->committed);
        verdict->snapshots += instance.is_snapshot ? 1 : 0;
        break;
      case Outcome::kAborted:
        ++verdict->aborted;
        break;
      case Outcome::kUnknown:
        ++verdict->unknown;
        verdict->unknown_committed += footprint.committed ? 1 : 0;
        break;
    }
  }
}

}  // namespace

const char *to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::kMalformed:
      return "malformed history";
    case Fault::kValueFromNowhere:
      return "value from nowhere";
    case Fault::kDirtyRead:
      return "dirty read";
    case Fault::kIntermediateRead:
      return "intermediate read";
    case Fault::kOwnWriteInvisible:
      return "own write invisible";
    case Fault::kUnstableRead:
      return "unstable read";
    case Fault::kLostUpdate:
      return "lost update";
    case Fault::kPartialCommit:
      return "partial commit of a killed process";
    case Fault::kWriteSkew:
      return "write skew";
    case Fault::kNotSerializable:
      return "not serializable";
    case Fault::kInconsistentView:
      return "inconsistent view";
    case Fault::kRealTime:
      return "order of real time violated";
  }
  return "?";
}

bool Verdict::has(Fault fault) const noexcept {
  return std::any_of(violations.begin(), violations.end(),
                     [&](const Violation &v) { return v.fault == fault; });
}

std::string Verdict::report() const {
  std::string text = std::to_string(committed) + " committed, " + std::to_string(aborted) +
                     " aborted, " + std::to_string(queries) + " queries, " +
                     std::to_string(unknown) + " killed (" + std::to_string(unknown_committed) +
                     " visible), " + std::to_string(reads) + " reads, " + std::to_string(writes) +
                     " writes, " + std::to_string(edges) + " edges: ";
  if (snapshots != 0)
    text += std::to_string(snapshots) + " under snapshot isolation, " +
            (is_serializable ? "serializable: " : "with write skew: ");
  if (ok()) return text + "history is right\n";
  text += std::to_string(violations.size()) + " violation(s)\n";
  for (const Violation &violation : violations) {
    text += "  " + std::string(to_string(violation.fault)) + " [cells";
    for (const Cell cell : violation.cells) text += " " + std::to_string(cell);
    text += "]: " + violation.text + "\n";
  }
  return text;
}

Verdict check(const History &history, Order order) {
  Verdict verdict;
  Index index(history);
  const bool versions_known = index.build(&verdict.violations);
  count(index, &verdict);
  if (!versions_known) {
    tell_of_instances(history, &verdict.violations);
    return verdict;
  }
  const Nodes nodes(index, false), serial(index, true);
  for (const Stage stage : {Stage::kUpdates, Stage::kReaders, Stage::kRealTime}) {
    if (stage == Stage::kRealTime && order != Order::kStrict) break;
    const Graph graph = build_graph(index, stage, nodes);
    verdict.edges = graph.edge_count();
    const std::vector<Edge> cycle = graph.find_cycle();
    if (cycle.empty()) continue;
    verdict.violations.push_back(explain(index, of_instances(graph, nodes, cycle), stage));
    break;
  }
  verdict.is_serializable = build_graph(index, Stage::kUpdates, serial).find_cycle().empty();
  return verdict;
}

}  // namespace tmh::history
