// examples/inverted_index/crew.h -- starts the workers, kills some of them, replaces those, and watches progress.
// Invariant: no child is left when the object is gone, however it goes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/index.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/progress.h"
#include "examples/inverted_index/signals.h"

namespace inverted_index {

struct CrewReport {
  double seconds = 0;
  double processor_seconds = 0;   // of all workers, killed ones included
  double standstill_seconds = 0;  // the longest time in which no unit was done, though some were left
  std::uint32_t workers_started = 0;
  std::uint32_t kills = 0;  // workers that died of our SIGKILL and were replaced
};

class Crew {
 public:
  Crew(const Options &options, std::string folder, Signals &signals);
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;
  ~Crew();

  // Returns when every unit is done and every worker has left. Throws std::runtime_error when a worker fails by itself or
  // nothing moves for kStuckSeconds, Interrupted on Ctrl-C.
  CrewReport run(const tmh::Domain &domain, const Index &index, ProgressLine &line);

 private:
  struct Member {
    ::pid_t pid = 0;  // 0: none
    bool killed = false;
  };
  void start(std::size_t slot);
  void reap();
  void reap(std::size_t slot, int wait_status);
  void kill_as_planned(const Progress &progress);
  void plan_kills(std::uint64_t units_total);
  [[nodiscard]] std::uint32_t live() const noexcept;

  const Options &options_;
  std::string folder_;
  Signals &signals_;
  std::mt19937_64 random_;
  std::vector<Member> members_;
  std::vector<std::uint64_t> plan_;  // unit counts at which a worker is to be killed, last one first
  CrewReport report_;
};

}  // namespace inverted_index
