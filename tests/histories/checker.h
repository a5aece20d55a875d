// tests/histories/checker.h -- judges a recorded history: serializability, consistent views,
// atomicity of killed processes.
// Shape:     every cell's version order is a chain, because writers read before they write. With it
//            the direct serialization graph is known: write-read, write-write, read-write
//            (anti-dependency) and, for strict serializability, real-time edges. The history is
//            right if and only if that graph has no cycle.
//            An update under snapshot isolation reads at one moment and commits at a later one. So
//            it is two nodes: a read-write edge leads from its reads to the other's commit, all
//            other edges from its commit to the other's reads. A cycle is right where two
//            read-write edges follow each other at such an instance, and at no other.
// Invariant: aborted and undecided instances stand in the graph as readers only: their writes must
//            be invisible, but what they read must be one committed snapshot, at one place of the
//            same serial order (thesis, section 2.2).
//            An instance of a killed process counts as committed as soon as anybody saw one of its
//            writes; then all must be.
// Caveat:    a lost or partial commit is seen through later reads only. End a history with a query
//            that reads every cell.
// Source:    Weak Consistency (direct serialization graph); thesis, sections 2.1 and 2.2; A
//            Critique of ANSI SQL Isolation Levels (snapshot isolation: the first committer wins);
//            Analysing Snapshot Isolation (its cycles have two read-write edges in a row).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/histories/history.h"

namespace tmh::history {

enum class Fault : std::uint8_t {
  // The history breaks an invariant of history.h; the recorder or the workload is at fault.
  kMalformed = 1,
  kValueFromNowhere = 2,   // a read returned a value that nobody wrote to this cell
  kDirtyRead = 3,          // a read returned the value of an aborted instance
  kIntermediateRead = 4,   // a read returned a value that its writer itself overwrote
  kOwnWriteInvisible = 5,  // an instance did not see its own earlier write
  kUnstableRead = 6,       // two reads of one cell in one instance differ, without a write between
  kLostUpdate = 7,         // two instances replaced the same version
  kPartialCommit = 8,      // some writes of a killed process's instance are visible, others are not
  kWriteSkew = 9,          // two committed instances, each overwrote what the other had read
  kNotSerializable = 10,   // any other cycle of committed updates
  kInconsistentView = 11,  // a query or an aborted instance saw what no serial order offers
  // Serializable, but against the order of real time (a stale read or a lost commit).
  kRealTime = 12,
};

[[nodiscard]] const char *to_string(Fault fault) noexcept;

struct Violation {
  Fault fault = Fault::kMalformed;
  std::vector<InstanceId> instances;  // of a cycle: in its order
  std::vector<Cell> cells;
  std::string text;
};

enum class Order : std::uint8_t {
  kSerializable = 1,
  // An instance that ended before another one began also comes first in the serial order.
  kStrict = 2,
};

struct Verdict {
  std::vector<Violation> violations;  // at most kViolationsMax
  std::size_t committed = 0, aborted = 0, queries = 0;
  // Of killed processes; of these, with visible writes.
  std::size_t unknown = 0, unknown_committed = 0;
  // Of committed: those under snapshot isolation. Are all committed updates serializable all the
  // same? False: write skew.
  std::size_t snapshots = 0;
  bool is_serializable = true;
  std::size_t reads = 0, writes = 0, edges = 0;

  [[nodiscard]] bool ok() const noexcept { return violations.empty(); }
  [[nodiscard]] bool has(Fault fault) const noexcept;
  [[nodiscard]] std::string report() const;  // counts, then every violation
};

inline constexpr std::size_t kViolationsMax = 16;  // more of the same helps nobody

[[nodiscard]] Verdict check(const History &history, Order order = Order::kStrict);

}  // namespace tmh::history
