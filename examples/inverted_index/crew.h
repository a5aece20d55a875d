// examples/inverted_index/crew.h -- starts the workers, kills some of them, replaces those, and
// watches progress.
// Invariant: no child is left when the object is gone, however it goes. After a kill of the whole
//            domain it does not go: whoever killed has to wait for the children.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/index.h"
#include "examples/inverted_index/ledger.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/signals.h"

namespace inverted_index {

class Crew {
 public:
  // `life`: how often the whole domain was killed before.
  Crew(const Options &options, std::string folder, std::uint32_t life, Signals &signals,
       const Ledger &ledger);
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;
  ~Crew();

  // Returns when every unit is done and every worker has left. Throws std::runtime_error when a
  // worker fails by itself or nothing moves for kStuckSeconds, Interrupted on Ctrl-C. What it does
  // stands in the ledger meanwhile; the totals are returned too.
  LifeTotals run(const tmh::Domain &domain, const Index &index);

 private:
  struct Member {
    ::pid_t pid = 0;  // 0: none
    bool killed = false;
  };
  void start(std::size_t slot);
  void reap();
  void reap(std::size_t slot, int wait_status);
  void kill_as_planned(const Progress &progress);
  void plan_kills(const Progress &progress);
  [[nodiscard]] std::uint32_t live() const noexcept;

  const Options &options_;
  std::string folder_;
  const std::uint32_t life_;
  Signals &signals_;
  const Ledger &ledger_;
  std::mt19937_64 random_;
  std::vector<Member> members_;
  // Unit counts at which a worker is to be killed, last one first.
  std::vector<std::uint64_t> plan_;
  LifeTotals totals_;
};

}  // namespace inverted_index
