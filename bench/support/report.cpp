// bench/support/report.cpp -- tables, CSV and JSON.
#include "bench/support/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

std::string cell(const Json &value) {
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

// Display columns of UTF-8 text: continuation bytes take none.
std::size_t columns_of(const std::string &text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

Report::Report(std::string bench, Json environment, Json parameters)
    : bench_(std::move(bench)),
      environment_(std::move(environment)),
      parameters_(std::move(parameters)) {
  TMH_ASSERT(!bench_.empty() && environment_.is_object() && parameters_.is_object());
}

void Report::add(const std::string &section, Json row) {
  TMH_ASSERT(!section.empty() && row.is_object());
  Json full;
  full["bench"] = bench_;
  full["section"] = section;
  full.update(row);
  rows_.push_back(std::move(full));
}

void Report::print_head() const {
  std::printf("# %s\n", bench_.c_str());
  for (const auto &[key, value] : environment_.items()) {
    std::printf("#   %-24s %s\n", key.c_str(), cell(value).c_str());
  }
  for (const auto &[key, value] : parameters_.items()) {
    std::printf("#   %-24s %s\n", key.c_str(), cell(value).c_str());
  }
  std::fflush(stdout);
}

void Report::write_csv(const std::string &path) const {
  std::vector<std::string> columns;
  for (const Json &row : rows_) {
    for (const auto &[key, value] : row.items()) {
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
    }
  }
  std::ofstream out(path);
  const char *separator = "";
  for (const std::string &column : columns) {
    out << separator << column;
    separator = ",";
  }
  std::string constant;  // parameters and environment, the same in every line
  for (const Json *part : {&parameters_, &environment_}) {
    for (const auto &[key, value] : part->items()) {
      out << ',' << key;
      constant += "," + cell(value);
    }
  }
  out << '\n';
  for (const Json &row : rows_) {
    separator = "";
    for (const std::string &column : columns) {
      out << separator << (row.contains(column) ? cell(row[column]) : "");
      separator = ",";
    }
    out << constant << '\n';
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

void Report::write(const std::string &csv_path, const std::string &json_path) const {
  if (!csv_path.empty()) write_csv(csv_path);
  if (json_path.empty()) return;
  Json all;
  all["bench"] = bench_;
  all["environment"] = environment_;
  all["parameters"] = parameters_;
  all["rows"] = rows_;
  std::ofstream out(json_path);
  out << all.dump(2) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + json_path);
}

void put(Json &row, const std::string &name, const Summary &summary) {
  TMH_ASSERT(!name.empty());
  row[name + "_median"] = summary.median;
  row[name + "_mad"] = summary.mad;
  row[name + "_min"] = summary.min;
  row[name + "_max"] = summary.max;
  row["runs"] = summary.run_count;
}

void Table::print() const {
  std::vector<std::size_t> widths;
  for (const auto &row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  for (const auto &row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - columns_of(row[i]), ' ');
      if (i > 0) line += "  ";
      line += i == 0 ? row[i] + pad : pad + row[i];
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

std::string number(double value) {
  std::array<char, 32> text{};
  const double magnitude = std::abs(value);
  const int digits =
      magnitude == 0 ? 0
                     : std::clamp(2 - static_cast<int>(std::floor(std::log10(magnitude))), 0, 6);
  (void)std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string with_mad(const Summary &summary) {
  if (summary.run_count == 0) return "-";
  std::array<char, 16> percent{};
  (void)std::snprintf(percent.data(), percent.size(), " ±%.0f%%",
                      summary.median == 0 ? 0 : 100 * summary.mad / summary.median);
  return number(summary.median) + percent.data();
}

std::string hex(std::uint64_t value) {
  std::array<char, 20> text{};
  static_assert(text.size() > 2 * sizeof(value));
  (void)std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace tmh::bench
