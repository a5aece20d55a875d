#include "examples/itm/support/options.h"

#include <charconv>
#include <cstdio>
#include <system_error>

#include <CLI/CLI.hpp>

#include "examples/itm/support/counts.h"

namespace itm {

namespace {

constexpr int kBadOptions = 2;
constexpr double kSecondsMax = 86'400;
// A longer run of one thread ends by the clock.
constexpr std::uint64_t kOperationsMax = 1'000'000'000'000;

}  // namespace

Options::Options(const std::string &program, const std::string &description, Amount amount)
    : app_(std::make_unique<CLI::App>(description, program)), program_(program) {
  add("--threads", common_.threads, "threads that work", 1, kThreadsMax);
  add("--seconds", common_.seconds, "how long they work", 0.001, kSecondsMax);
  add("--operations", common_.operations,
      amount == Amount::kInputs
          ? "inputs worked through, instead of --seconds; 0: by the clock, at least one"
          : "operations of each thread, instead of --seconds; 0: by the clock",
      0, kOperationsMax);
  add("--seed", common_.seed, "of all random numbers", 0, UINT64_MAX);
}
Options::~Options() = default;

void Options::add(const std::string &name, std::uint64_t &value, const std::string &description,
                  std::uint64_t min, std::uint64_t max) {
  app_->add_option(name, value, description)
      ->check([min, max](const std::string &text) -> std::string {
        std::uint64_t number = 0;
        const char *const end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data(), end, number);
        if (error == std::errc{} && last == end && number >= min && number <= max) return {};
        return "\"" + text + "\" is no whole number in " + std::to_string(min) + " to " +
               std::to_string(max);
      })
      ->type_name("N")
      ->capture_default_str();
}
void Options::add(const std::string &name, double &value, const std::string &description,
                  double min, double max) {
  app_->add_option(name, value, description)
      ->check([min, max](const std::string &text) -> std::string {
        double number = 0;
        if (CLI::detail::lexical_cast(text, number) && number >= min && number <= max) return {};
        return "\"" + text + "\" is no number in " + CLI::detail::to_string(min) + " to " +
               CLI::detail::to_string(max);
      })
      ->type_name("X")
      ->capture_default_str();
}
void Options::add(const std::string &name, std::string &value, const std::string &description,
                  const std::vector<std::string> &allowed) {
  app_->add_option(name, value, description)
      ->check(CLI::IsMember(allowed))
      ->type_name("NAME")
      ->capture_default_str();
}
void Options::add_flag(const std::string &name, bool &value, const std::string &description) {
  app_->add_flag(name, value, description);
}

bool Options::parse(int argc, const char *const *argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    status_ = app_->exit(error) == 0 ? 0 : kBadOptions;
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
