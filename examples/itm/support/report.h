// examples/itm/support/report.h -- the one line of JSON that each program prints.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "examples/itm/support/options.h"
#include "examples/itm/support/threads.h"

namespace itm {

class Report {
 public:
  explicit Report(const Options &options)
      : program_(options.program()), common_(options.common()) {}

  // A number or a text of this program's own, under "details".
  template <std::integral T>
  void detail(const std::string &name, T value) {
    details_.emplace_back(name, static_cast<std::int64_t>(value));
  }
  void detail(const std::string &name, double value) { details_.emplace_back(name, value); }
  void detail(const std::string &name, const std::string &value) {
    details_.emplace_back(name, value);
  }
  // What must hold. The first problem is the line's "check", which is "ok" without any.
  void require(bool holds, const std::string &problem) {
    if (!holds && problem_.empty()) problem_ = problem;
  }
  [[nodiscard]] bool is_ok() const { return problem_.empty(); }
  // Prints the line; returns the exit status: 1 when something did not hold.
  [[nodiscard]] int print(const Work &work) const;

 private:
  using Value = std::variant<std::int64_t, double, std::string>;

  std::string program_, problem_;
  Common common_;
  std::vector<std::pair<std::string, Value>> details_;
};

}  // namespace itm
