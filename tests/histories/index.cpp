// tests/histories/index.cpp -- builds the index of a history and finds the faults that need no
// graph.
#include "tests/histories/index.h"

#include <algorithm>

namespace tmh::history {

std::string to_string(InstanceId id) {
  return "p" + std::to_string(id.process) + "#" + std::to_string(id.number);
}

std::string value_text(Value value) {
  if (value >> kCounterBits == 0) return std::to_string(value);
  const Value counter_mask = (Value{1} << kCounterBits) - 1;
  return "p" + std::to_string(value >> kCounterBits) + ":" + std::to_string(value & counter_mask);
}

const char *to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kCommitted:
      return "committed";
    case Outcome::kAborted:
      return "aborted";
    case Outcome::kUnknown:
      return "killed";
  }
  return "?";
}

Value Index::initial_value(Cell cell) const {
  const auto found = history_.initial.find(cell);
  return found == history_.initial.end() ? Value{0} : found->second;
}

void Index::report(Fault fault, std::vector<std::size_t> instances, Cell cell,
                   const std::string &text) {
  if (violations_->size() >= kViolationsMax) return;
  Violation violation;
  violation.fault = fault;
  for (const std::size_t instance : instances)
    violation.instances.push_back(history_.instances[instance].id);
  violation.cells.push_back(cell);
  violation.text = text;
  violations_->push_back(std::move(violation));
}

void Index::scan_write(std::size_t instance, const Operation &operation,
                       std::map<Cell, Value> *own) {
  const std::string who = to_string(history_.instances[instance].id);
  Footprint &footprint = footprints_[instance];
  const auto [entry, fresh] =
      writers_.try_emplace(operation.value, Writer{instance, operation.cell, true});
  if (!fresh || operation.value == initial_value(operation.cell)) {
    report(Fault::kMalformed, {instance}, operation.cell,
           who + " writes " + value_text(operation.value) + ", which was written before");
    return;
  }
  const auto [mine, first] = own->try_emplace(operation.cell, operation.value);
  if (!first) {
    writers_[mine->second].last = false;
    mine->second = operation.value;
    for (WrittenVersion &version : footprint.writes) {
      if (version.cell == operation.cell) version.value = operation.value;
    }
    return;
  }
  const auto seen =
      std::find_if(footprint.reads.begin(), footprint.reads.end(),
                   [&](const ReadVersion &version) { return version.cell == operation.cell; });
  if (seen == footprint.reads.end()) {
    report(Fault::kMalformed, {instance}, operation.cell,
           who + " writes a cell that it has not read: its version order is unknown");
    return;
  }
  footprint.writes.push_back({operation.cell, operation.value, seen->value});
}

void Index::scan(std::size_t instance) {
  const Instance &subject = history_.instances[instance];
  const std::string who = to_string(subject.id);
  std::map<Cell, Value> own, first_read;
  for (const Operation &operation : subject.operations) {
    if (operation.type == Operation::Type::kWrite) {
      scan_write(instance, operation, &own);
      continue;
    }
    if (const auto mine = own.find(operation.cell); mine != own.end()) {
      if (mine->second == operation.value) continue;
      report(Fault::kOwnWriteInvisible, {instance}, operation.cell,
             who + " wrote " + value_text(mine->second) + " and then read " +
                 value_text(operation.value));
      continue;
    }
    const auto [before, first] = first_read.try_emplace(operation.cell, operation.value);
    if (first) {
      footprints_[instance].reads.push_back({operation.cell, operation.value});
    } else if (before->second != operation.value) {
      report(
          Fault::kUnstableRead, {instance}, operation.cell,
          who + " read " + value_text(before->second) + " and then " + value_text(operation.value));
    }
  }
  if (subject.outcome == Outcome::kCommitted && subject.kind == Kind::kQuery && !own.empty()) {
    report(Fault::kMalformed, {instance}, own.begin()->first,
           who + " is a query, wrote, and is recorded as committed");
  }
  if (subject.outcome != Outcome::kUnknown && subject.end_ns < subject.begin_ns) {
    report(Fault::kMalformed, {instance}, 0, who + " ends before it begins");
  }
}

// Whoever reads a value makes its writer a committed one, if that writer died undecided.
void Index::decide_unknown() {
  for (std::size_t i = 0; i < footprints_.size(); ++i) {
    footprints_[i].committed = history_.instances[i].outcome == Outcome::kCommitted;
  }
  for (std::size_t i = 0; i < footprints_.size(); ++i) {
    for (const ReadVersion &version : footprints_[i].reads) {
      const auto found = writers_.find(version.value);
      if (found == writers_.end() || found->second.instance == i) continue;
      seen_[version.value] = true;
      const std::size_t writer = found->second.instance;
      if (history_.instances[writer].outcome == Outcome::kUnknown)
        footprints_[writer].committed = true;
    }
  }
}

void Index::check_reads(std::size_t instance) {
  const std::string who = to_string(history_.instances[instance].id);
  for (const ReadVersion &version : footprints_[instance].reads) {
    if (version.value == initial_value(version.cell)) continue;
    const auto found = writers_.find(version.value);
    const bool own = found != writers_.end() && found->second.instance == instance;
    if (found == writers_.end() || found->second.cell != version.cell || own) {
      report(Fault::kValueFromNowhere, {instance}, version.cell,
             who + " read " + value_text(version.value) +
                 (own ? ", which it wrote only later" : ", which nobody wrote there"));
      continue;
    }
    const std::size_t writer = found->second.instance;
    const std::string read_of = who + " read " + value_text(version.value) + " of " +
                                to_string(history_.instances[writer].id);
    if (history_.instances[writer].outcome == Outcome::kAborted) {
      report(Fault::kDirtyRead, {instance, writer}, version.cell, read_of + ", which aborted");
    } else if (!found->second.last) {
      report(Fault::kIntermediateRead, {instance, writer}, version.cell,
             read_of + ", which overwrote it before its end");
    }
  }
}

void Index::report_fork(const WrittenVersion &version, std::size_t first, std::size_t second) {
  const auto undecided_unseen = [&](std::size_t instance) {
    if (history_.instances[instance].outcome != Outcome::kUnknown) return false;
    const auto &writes = footprints_[instance].writes;
    return std::any_of(writes.begin(), writes.end(), [&](const WrittenVersion &w) {
      return w.cell == version.cell && seen_.count(w.value) == 0;
    });
  };
  const std::string a = to_string(history_.instances[first].id),
                    b = to_string(history_.instances[second].id);
  for (const auto &[lost, other] : {std::pair{first, b}, std::pair{second, a}}) {
    if (!undecided_unseen(lost)) continue;
    report(Fault::kPartialCommit, {first, second}, version.cell,
           to_string(history_.instances[lost].id) +
               " was killed and is visible elsewhere, but its write here never was: " + other +
               " replaced " + value_text(version.replaced));
    return;
  }
  report(Fault::kLostUpdate, {first, second}, version.cell,
         a + " and " + b + " both replaced " + value_text(version.replaced));
}

void Index::link_versions(std::size_t instance) {
  if (!footprints_[instance].committed) return;
  for (const WrittenVersion &version : footprints_[instance].writes) {
    const auto [entry, first] =
        successors_.try_emplace(std::pair{version.cell, version.replaced}, instance);
    if (!first) report_fork(version, entry->second, instance);
  }
}

bool Index::build(std::vector<Violation> *violations) {
  violations_ = violations;
  const std::size_t before = violations->size();
  footprints_.resize(history_.instances.size());
  std::map<InstanceId, std::size_t> known;
  for (std::size_t i = 0; i < footprints_.size(); ++i) {
    if (!known.try_emplace(history_.instances[i].id, i).second) {
      report(Fault::kMalformed, {i}, 0, to_string(history_.instances[i].id) + " appears twice");
    }
    scan(i);
  }
  decide_unknown();
  for (std::size_t i = 0; i < footprints_.size(); ++i) check_reads(i);
  for (std::size_t i = 0; i < footprints_.size(); ++i) link_versions(i);
  return violations->size() == before;
}

std::size_t Index::writer(const ReadVersion &version) const {
  if (version.value == initial_value(version.cell)) return kInitial;
  const auto found = writers_.find(version.value);
  return found == writers_.end() ? kInitial : found->second.instance;
}

std::size_t Index::successor(const ReadVersion &version) const {
  const auto found = successors_.find({version.cell, version.value});
  return found == successors_.end() ? kInitial : found->second;
}

}  // namespace tmh::history
