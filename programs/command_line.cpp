// programs/command_line.cpp -- CLI11, for all programs.
#include "programs/command_line.h"

#include <sstream>
#include <type_traits>

#include <CLI/CLI.hpp>

namespace tmh::programs {

Option &Option::capture_default_str() {
  option_->capture_default_str();
  return *this;
}
Option &Option::required() {
  option_->required();
  return *this;
}
Option &Option::excludes(const Option &other) {
  option_->excludes(other.option_);
  return *this;
}
Option &Option::needs(const Option &other) {
  option_->needs(other.option_);
  return *this;
}
Option &Option::envname(const std::string &variable) {
  option_->envname(variable);
  return *this;
}
Option &Option::group(const std::string &heading) {
  option_->group(heading);
  return *this;
}
Option &Option::type_name(const std::string &name) {
  option_->type_name(name);
  return *this;
}
Option &Option::delimiter(char between_values) {
  option_->delimiter(between_values);
  return *this;
}
Option &Option::allow_extra_args(bool allowed) {
  option_->allow_extra_args(allowed);
  return *this;
}

Option &Option::check(const Check &check, const std::string &description) {
  option_->check(check, description);
  return *this;
}
Option &Option::check_positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}
template <class T>
Option &Option::check_range(std::type_identity_t<T> min, std::type_identity_t<T> max) {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
  option_->check(CLI::Range(min, max));
  return *this;
}
template Option &Option::check_range<int>(int, int);
template Option &Option::check_range<unsigned>(unsigned, unsigned);
template Option &Option::check_range<std::uint64_t>(std::uint64_t, std::uint64_t);
template Option &Option::check_range<double>(double, double);
Option &Option::check_one_of(const std::vector<std::string> &values) {
  option_->check(CLI::IsMember(values));
  return *this;
}
Option &Option::transform(const std::function<std::string(std::string text)> &change) {
  option_->transform(change);
  return *this;
}

std::size_t Option::count() const { return option_->count(); }
bool Option::is_positional() const { return option_->get_positional(); }
bool Option::takes_value() const { return option_->get_items_expected() != 0; }
const std::vector<std::string> &Option::long_names() const { return option_->get_lnames(); }
const std::vector<std::string> &Option::short_names() const { return option_->get_snames(); }
std::string Option::type() const { return option_->get_type_name(); }

template <class T>
Option Command::add_option(const std::string &names, T &value, const std::string &description) {
  static_assert(!std::is_same_v<T, bool>, "add_flag() takes one");
  return Option(app_->add_option(names, value, description));
}
#define TMH_OPTION_TYPE(...) \
  template Option Command::add_option(const std::string &, __VA_ARGS__ &, const std::string &)
TMH_OPTION_TYPE(int);
TMH_OPTION_TYPE(std::uint16_t);
TMH_OPTION_TYPE(unsigned);
TMH_OPTION_TYPE(std::uint64_t);
TMH_OPTION_TYPE(double);
TMH_OPTION_TYPE(std::string);
TMH_OPTION_TYPE(std::optional<std::uint64_t>);
TMH_OPTION_TYPE(std::vector<unsigned>);
TMH_OPTION_TYPE(std::vector<std::uint64_t>);
TMH_OPTION_TYPE(std::vector<std::string>);
#undef TMH_OPTION_TYPE

Option Command::add_option_function(const std::string &names,
                                    const std::function<void(const std::string &)> &take,
                                    const std::string &description) {
  return Option(app_->add_option_function<std::string>(names, take, description));
}
Option Command::add_flag(const std::string &names, bool &value, const std::string &description) {
  return Option(app_->add_flag(names, value, description));
}
Option Command::add_flag_callback(const std::string &names, const std::function<void()> &call,
                                  const std::string &description) {
  return Option(app_->add_flag_callback(names, call, description));
}
Option Command::add_flag_function(const std::string &names,
                                  const std::function<void(std::int64_t)> &take,
                                  const std::string &description) {
  return Option(app_->add_flag_function(names, take, description));
}
Option Command::option(const std::string &name) const { return Option(app_->get_option(name)); }

Command Command::add_subcommand(const std::string &name, const std::string &description) {
  return Command(app_->add_subcommand(name, description));
}
void Command::require_subcommand() { app_->require_subcommand(1); }
void Command::footer(const std::string &text) { app_->footer(text); }
void Command::parse_complete_callback(const std::function<void()> &call) {
  app_->parse_complete_callback(call);
}
void Command::final_callback(const std::function<void()> &call) { app_->final_callback(call); }

const std::string &Command::name() const { return app_->get_name(); }
std::vector<Command> Command::subcommands() const {
  std::vector<Command> all;
  for (CLI::App *const one : app_->get_subcommands([](CLI::App *) { return true; }))
    all.push_back(Command(one));
  return all;
}
std::vector<Option> Command::options() const {
  std::vector<Option> all;
  for (CLI::Option *const one : app_->get_options()) all.emplace_back(one);
  return all;
}

void refuse_option(const std::string &option, const std::string &why) {
  throw CLI::ValidationError(option, why);
}
void refuse_without(const std::string &required) { throw CLI::RequiredError(required); }

CommandLine::CommandLine(const std::string &description, const std::string &name)
    : Command(nullptr), owned_(std::make_unique<CLI::App>(description, name)) {
  app_ = owned_.get();
}
CommandLine::~CommandLine() = default;
static_assert(!std::is_move_constructible_v<CommandLine>, "options and commands point into it");

void CommandLine::set_version(const std::string &text) {
  app_->set_version_flag("--version", text);
}

std::optional<int> CommandLine::parse(int argc, const char *const *argv, std::string *asked) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success &success) {
    if (asked == nullptr) return app_->exit(success);
    std::ostringstream text;
    const int status = app_->exit(success, text);
    *asked = text.str();
    return status;
  } catch (const CLI::RequiredError &error) {
    const std::vector<std::string> unknown = app_->remaining(true);
    if (!tells_unknown_first_ || unknown.empty()) return app_->exit(error);
    return app_->exit(CLI::ExtrasError(unknown));
  } catch (const CLI::ParseError &error) {
    return app_->exit(error);
  }
}

}  // namespace tmh::programs
