// tests/support/lost_commits.cpp -- which instances have survived, and which may not have.
#include "tests/support/lost_commits.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace tmh::test {

namespace {

using history::Instance;
using history::Operation;
using history::Outcome;
using history::Value;

class Survival {
 public:
  explicit Survival(const std::vector<Instance> &all) : all_(all), survived_(all.size()) {
    for (std::size_t i = 0; i < all.size(); ++i) note_writes(i);
    for (const Instance &instance : all) {
      if (instance.id.process != all.back().id.process) continue;
      for (const Operation &operation : instance.operations) follow(operation.value);
    }
  }
  [[nodiscard]] bool has_survived(std::size_t instance) const { return survived_[instance]; }
  [[nodiscard]] bool has_read_lost(std::size_t instance) const {
    return std::any_of(all_[instance].operations.begin(), all_[instance].operations.end(),
                       [&](const Operation &operation) {
                         const auto writer = writer_of_.find(operation.value);
                         return writer != writer_of_.end() && writer->second != instance &&
                                !survived_[writer->second];
                       });
  }

 private:
  void note_writes(std::size_t instance) {
    std::map<history::Cell, Value> seen;
    for (const Operation &operation : all_[instance].operations) {
      if (operation.type == Operation::Type::kWrite) {
        writer_of_[operation.value] = instance;
        before_[operation.value] = seen[operation.cell];
      }
      seen[operation.cell] = operation.value;
    }
  }
  void follow(Value value) {
    for (auto writer = writer_of_.find(value); writer != writer_of_.end();
         writer = writer_of_.find(before_[value])) {
      value = writer->first;
      survived_[writer->second] = true;
    }
  }

  const std::vector<Instance> &all_;
  std::vector<bool> survived_;
  std::map<Value, std::size_t> writer_of_;
  std::map<Value, Value> before_;  // what a written value has replaced
};

bool writes(const Instance &instance) {
  return std::any_of(
      instance.operations.begin(), instance.operations.end(),
      [](const Operation &operation) { return operation.type == Operation::Type::kWrite; });
}

// By its outcome and what it has been told alone.
bool may_be_lost(const Instance &instance, std::size_t index, const Survival &survival) {
  switch (instance.outcome) {
    case Outcome::kUnknown:
      return !survival.has_survived(index);
    case Outcome::kAborted:
      return survival.has_read_lost(index);
    case Outcome::kCommitted:
      break;
  }
  if (instance.acknowledged || survival.has_survived(index)) return false;
  return writes(instance) || survival.has_read_lost(index);
}

}  // namespace

LostCommits take_out_lost_commits(history::History *history, const Loss &loss) {
  const std::vector<Instance> all = std::move(history->instances);
  history->instances.clear();
  const Survival survival(all);
  LostCommits lost;
  std::uint64_t prefix_ns = loss.flushed_ns;  // who had ended before is in the prefix
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (survival.has_survived(i) && all[i].outcome == Outcome::kCommitted)
      prefix_ns = std::max(prefix_ns, all[i].begin_ns);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Instance &instance = all[i];
    // An irrevocable one reads what level 1 commits after its call.
    const bool waits = loss.reads_durable_only(instance.id.process) &&
                       instance.ran_at != history::RanAt::kIrrevocably;
    if (waits && survival.has_read_lost(i))
      lost.findings.push_back(history::to_string(instance.id) +
                              ", without early release, has read what was lost");
    if (!may_be_lost(instance, i, survival)) {
      history->instances.push_back(instance);
      continue;
    }
    if (instance.outcome != Outcome::kCommitted) continue;
    ++lost.commits;
    if (writes(instance) && instance.end_ns < prefix_ns)
      lost.findings.push_back(history::to_string(instance.id) +
                              " is lost, and what came later is not");
  }
  return lost;
}

}  // namespace tmh::test
