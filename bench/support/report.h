// bench/support/report.h -- how a bench shows its results: tables for people, CSV and JSON for
// programs.
// Shape: a row is a flat JSON object. The CSV has one line per row with the columns of all rows,
//        and repeats parameters and environment in each line, so that lines of different runs can
//        be concatenated.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/support/environment.h"
#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {

class Report {
 public:
  Report(std::string bench, Json environment, Json parameters);
  // `section` becomes the first column after the bench's name.
  void add(const std::string &section, Json row);
  void note(const std::string &key, Json value) { parameters_[key] = std::move(value); }
  void print_head() const;
  // An empty path writes nothing. Throws std::runtime_error when a file cannot be written.
  void write(const std::string &csv_path, const std::string &json_path) const;

 private:
  void write_csv(const std::string &path) const;
  std::string bench_;
  Json environment_, parameters_;
  std::vector<Json> rows_;
};

// Adds the five numbers of a summary as `<name>_median`, `_mad`, `_min`, `_max`, and `runs`.
void put(Json &row, const std::string &name, const Summary &summary);

// Aligned columns; the first is left-aligned, the others right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {
    TMH_ASSERT(!rows_.front().empty());
  }
  void add(std::vector<std::string> row) {
    TMH_ASSERT(!row.empty() && row.size() <= rows_.front().size());
    rows_.push_back(std::move(row));
  }
  void print() const;
  [[nodiscard]] bool is_empty() const noexcept { return rows_.size() == 1; }  // a head alone

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Three significant digits, no exponent: 0.0312, 4.71, 158, 12400.
[[nodiscard]] std::string number(double value);
// "4.71 ±2 %": the median, and the MAD as a part of it.
[[nodiscard]] std::string with_mad(const Summary &summary);
[[nodiscard]] std::string hex(std::uint64_t value);

}  // namespace tmh::bench
