// examples/inverted_index/lives.h -- the lives of one domain: starts a supervisor, kills it with
// all its workers, starts the next.
// Shape:     a supervisor and its workers are one process group: everybody who has the domain open.
//            We are not in it and never open the domain here; what we know of it stands in the
//            ledger.
// Invariant: no process of the group is left when the object is gone, however it goes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/ledger.h"
#include "examples/inverted_index/options.h"
#include "examples/inverted_index/progress.h"
#include "examples/inverted_index/signals.h"

namespace inverted_index {

// One kill of the whole domain, and what came back.
struct Outage {
  std::uint32_t processes = 0;      // killed
  std::uint32_t files_removed = 0;  // by the power cut
  std::uint64_t units_total = 0;
  std::uint64_t units_acknowledged = 0;  // before the kill
  std::uint64_t units_found = 0;         // after recovery
  std::uint64_t units_missing = 0;       // acknowledged and not found
  tmh::RecoveryInfo recovery;
  double seconds = 0;  // from the kill until workers were started again
};

struct RunReport {
  // The sum over the lives; of one that was killed, as its supervisor last told, at most some ms
  // before.
  tmh::Counters counters;
  // From the first worker's start to the last one's end, with kills and recoveries
  double seconds = 0;
  double processor_seconds = 0;  // of all supervisors and workers, killed ones included
  // The longest time in which no unit was done, though some were left; outages not included.
  double standstill_seconds = 0;
  std::uint64_t versions_after_collect = 0;
  std::uint32_t workers_started = 0;
  std::uint32_t kills = 0;  // workers that died of a SIGKILL of their own and were replaced
  std::vector<Outage> outages;
};

class Lives {
 public:
  Lives(const Options &options, std::string folder, const Corpus &corpus, Signals &signals);
  Lives(const Lives &) = delete;
  Lives &operator=(const Lives &) = delete;
  ~Lives();

  // Returns when all the work is done and the domain closed. Throws std::runtime_error when a
  // supervisor or a worker fails by itself, nothing moves any more, or something is missing that
  // must not be; Interrupted on Ctrl-C.
  RunReport run(ProgressLine &line);

 private:
  void start();
  // False: the supervisor has ended by itself, with everything done. True: it is time to kill all.
  [[nodiscard]] bool watch(ProgressLine &line);
  void announce(ProgressLine &line);
  void check_for_end(int wait_status);
  [[nodiscard]] Outage kill_all();
  std::uint32_t kill_and_wait() noexcept;
  [[nodiscard]] std::uint32_t cut_power() const;
  void add(const LifeTotals &totals);

  const Options &options_;
  const std::string folder_;
  const Corpus &corpus_;
  Signals &signals_;
  const Ledger ledger_;
  std::mt19937_64 random_;
  std::vector<double> kill_points_;  // parts of the work at which to kill all
  ::pid_t group_ = 0;                // the supervisor, and its process group; 0: none
  std::uint32_t life_ = 0;
  bool announced_ = false;  // this life's opening
  std::uint64_t first_begin_ns_ = 0;
  std::uint64_t killed_ns_ = 0;
  std::vector<std::uint64_t> acknowledged_;  // by lane, when all were dead
  RunReport report_;
};

}  // namespace inverted_index
