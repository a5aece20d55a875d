// bench/support/itm_results.h -- what bench/itm has measured: its samples, tables, JSON rows and
// what was wanted.
// Shape: round i of one contestant is compared with round i of another; the two ran next to each
//        other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/support/itm_cases.h"
#include "bench/support/itm_contestants.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"

namespace tmh::bench {

// What our libitm tells of a run.
struct ItmStatistics {
  std::string method;
  // By name; "aborts_capacity" is "capacity" of "aborts".
  std::map<std::string, double> counts;
};

// Lines of JSON as TMH_ITM_STATISTICS has them written, added up. Empty when there is no file.
[[nodiscard]] ItmStatistics read_statistics(const std::string &path);

class ItmResults {
 public:
  ItmResults(const std::vector<ItmCase> &cases, const std::vector<ItmContestant> &contestants,
             const std::vector<unsigned> &threads)
      : cases_(cases), contestants_(contestants), threads_(threads) {}

  void add(const ItmCase &what, unsigned threads, const ItmContestant &contestant,
           const ItmNumbers &numbers, const ItmStatistics &statistics);
  void fail(const ItmCase &what, unsigned threads, const ItmContestant &contestant,
            const std::string &sentence);
  [[nodiscard]] bool has_failed(const ItmCase &what, unsigned threads,
                                const ItmContestant &contestant) const;
  [[nodiscard]] std::size_t failures() const noexcept { return failures_; }
  void print(Report *report) const;

 private:
  struct Samples {
    std::vector<double> rates, long_rates;  // operations per second, by round
    double transactions = 0, attempts = 0;
    std::map<std::string, double> counts;
    std::string failure;
  };
  struct Ratio {
    const ItmCase *what;
    double times;
  };

  struct Attempts {
    double transactions, attempts;
  };
  // As the library counted them; where it counts none, as the program did.
  [[nodiscard]] static Attempts attempts_of(const Samples &samples);

  [[nodiscard]] const Samples *find(const std::string &what, unsigned threads,
                                    const std::string &contestant) const;
  [[nodiscard]] Samples &samples(const ItmCase &what, unsigned threads,
                                 const ItmContestant &contestant);
  // By case: rates of one contestant as multiples of another's.
  [[nodiscard]] std::vector<Ratio> ratios(const std::string &contestant, unsigned threads,
                                          const std::string &other, unsigned threads_of_other,
                                          bool reads_mostly = false) const;
  void print_rates(Report *report) const;
  void print_long(Report *report) const;
  void print_means(Report *report) const;
  void print_verdicts(Report *report) const;
  void judge_pages(const std::string &name, Table *table, Report *report) const;

  const std::vector<ItmCase> &cases_;
  const std::vector<ItmContestant> &contestants_;
  const std::vector<unsigned> &threads_;
  std::map<std::string, Samples> samples_;  // by case, threads and contestant
  std::size_t failures_ = 0;
};

}  // namespace tmh::bench
