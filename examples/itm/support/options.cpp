#include "examples/itm/support/options.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "examples/itm/support/counts.h"

namespace itm {

namespace {

constexpr int kBadOptions = 2;
constexpr double kSecondsMax = 86'400;
// A longer run of one thread ends by the clock.
constexpr std::uint64_t kOperationsMax = 1'000'000'000'000;

// As CommandLine reads and shows a number.
bool read_number(const std::string &text, double *number) {
  char *end = nullptr;
  *number = static_cast<double>(std::strtold(text.c_str(), &end));
  return !text.empty() && end == text.c_str() + text.size();
}
std::string text_of(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

}  // namespace

Options::Options(const std::string &program, const std::string &description, Amount amount)
    : line_(description, program), program_(program) {
  add("--threads", common_.threads, "threads that work", 1, kThreadsMax);
  add("--seconds", common_.seconds, "how long they work", 0.001, kSecondsMax);
  add("--operations", common_.operations,
      amount == Amount::kInputs
          ? "inputs worked through, instead of --seconds; 0: by the clock, at least one"
          : "operations of each thread, instead of --seconds; 0: by the clock",
      0, kOperationsMax);
  add("--seed", common_.seed, "of all random numbers", 0, UINT64_MAX);
}

void Options::add(const std::string &name, std::uint64_t &value, const std::string &description,
                  std::uint64_t min, std::uint64_t max) {
  line_.add_option(name, value, description)
      .check([min, max](const std::string &text) -> std::string {
        std::uint64_t number = 0;
        const char *const end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data(), end, number);
        if (error == std::errc{} && last == end && number >= min && number <= max) return {};
        return "\"" + text + "\" is no whole number in " + std::to_string(min) + " to " +
               std::to_string(max);
      })
      .type_name("N")
      .capture_default_str();
}
void Options::add(const std::string &name, double &value, const std::string &description,
                  double min, double max) {
  line_.add_option(name, value, description)
      .check([min, max](const std::string &text) -> std::string {
        double number = 0;
        if (read_number(text, &number) && number >= min && number <= max) return {};
        return "\"" + text + "\" is no number in " + text_of(min) + " to " + text_of(max);
      })
      .type_name("X")
      .capture_default_str();
}
void Options::add(const std::string &name, std::string &value, const std::string &description,
                  const std::vector<std::string> &allowed) {
  line_.add_option(name, value, description)
      .check_one_of(allowed)
      .type_name("NAME")
      .capture_default_str();
}
void Options::add_flag(const std::string &name, bool &value, const std::string &description) {
  line_.add_flag(name, value, description);
}

bool Options::parse(int argc, const char *const *argv) {
  if (const auto status = line_.parse(argc, argv)) {
    status_ = *status == 0 ? 0 : kBadOptions;
    return false;
  }
  if (common_.threads > 1 && is_plain()) {
    status_ = refuse("this build has no critical sections: --threads 1 only");
    return false;
  }
  return true;
}

int Options::refuse(const std::string &problem) const {
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), problem.c_str());
  return kBadOptions;
}

}  // namespace itm
