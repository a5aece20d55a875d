// bench/support/durable_run.h -- one measurement of one contestant: processes that commit at the
// same time.
// Shape:     a process creates the store and loads some records; the file system is synced, so that
//            nobody pays for what another has left dirty; the members open, warm up, meet and
//            commit one record at a time; a last process reads everything back. Latency runs from
//            the call of commit() to its return, retries included.
// Checked:   the store holds exactly the records that were committed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/support/durable_contestant.h"

namespace tmh::bench {

struct Workload {
  std::uint64_t seed = 0;
  std::uint64_t loaded = 0;   // records that the store holds before the clock starts
  std::uint64_t warm_up = 0;  // commits of each process before the clock starts
  // Commits of all processes together; what division leaves over is not done.
  std::uint64_t inserts = 0;
};

struct Measurement {
  std::vector<double> latencies_us;  // of every commit of every process
  double elapsed_us = 0;             // from the first start to the last finish
  double log_bytes_per_commit = 0;   // as the contestant counts; 0 when it does not
  // Sent to the device meanwhile, by any process of this machine; 0: it has no counter.
  double device_bytes_per_commit = 0;
  std::uint64_t retries = 0;
  std::uint64_t content_hash = 0;  // of all records in order; 0 when it keeps none
  [[nodiscard]] double commits_per_s() const noexcept {
    return static_cast<double>(latencies_us.size()) / elapsed_us * 1e6;
  }
};

// What content_hash must be.
[[nodiscard]] std::uint64_t expected_hash(const Workload &workload, unsigned processes);

// `folder` is new and empty, and may be removed afterwards. Throws std::runtime_error when a
// process fails.
[[nodiscard]] Measurement measure(Contestant *contestant, const Workload &workload,
                                  unsigned processes, const std::string &folder);

}  // namespace tmh::bench
