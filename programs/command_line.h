// programs/command_line.h -- command lines: options, subcommands, their help.
// Shape:     CLI11's, of which each function has the name and the meaning; its header takes six
//            seconds to compile, so that command_line.cpp alone includes it. What a function takes
//            and says of wrong words is CLI11's.
// Lifetime:  an Option and a Command are names of what a CommandLine holds, and are copied freely.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tmh::programs {

class Option {
 public:
  // What is wrong with a text; empty: nothing.
  using Check = std::function<std::string(const std::string &text)>;

  explicit Option(CLI::Option *option) : option_(option) {}

  // The help shows the value that the variable has.
  Option &capture_default_str();
  Option &required();
  // Not together with the other one; not without it.
  Option &excludes(const Option &other);
  Option &needs(const Option &other);
  Option &envname(const std::string &variable);
  // A heading of the help; empty: the help does not show the option.
  Option &group(const std::string &heading);
  Option &type_name(const std::string &name);
  // Several values in one word.
  Option &delimiter(char between_values);
  // False: one value each time that the option is named.
  Option &allow_extra_args(bool allowed);

  // Checks run in their order. `description`: of the value, in the help.
  Option &check(const Check &check, const std::string &description = {});
  Option &check_positive();
  // T: int, unsigned, std::uint64_t or double. The help names it.
  template <class T = std::uint64_t>
  Option &check_range(std::type_identity_t<T> min, std::type_identity_t<T> max);
  Option &check_one_of(const std::vector<std::string> &values);
  // Changes the text before the checks that come before this call.
  Option &transform(const std::function<std::string(std::string text)> &change);

  // After parsing: how many values there are.
  [[nodiscard]] std::size_t count() const;

  // As it was described.
  [[nodiscard]] bool is_positional() const;
  [[nodiscard]] bool takes_value() const;
  // Without dashes.
  [[nodiscard]] const std::vector<std::string> &long_names() const;
  [[nodiscard]] const std::vector<std::string> &short_names() const;
  // With what check_one_of() allows: "TEXT:{one,two}".
  [[nodiscard]] std::string type() const;

  [[nodiscard]] friend std::strong_ordering operator<=>(const Option &,
                                                        const Option &) noexcept = default;

 private:
  CLI::Option *option_;
};
static_assert(std::is_trivially_copyable_v<Option> && sizeof(Option) == sizeof(void *));

// A program's command line, or one of its subcommands.
class Command {
 public:
  // T: the types that command_line.cpp names. Names as "--size,-s", or "FILE" of an argument.
  template <class T>
  Option add_option(const std::string &names, T &value, const std::string &description = {});
  // Calls `take` with the value.
  Option add_option_function(const std::string &names,
                             const std::function<void(const std::string &)> &take,
                             const std::string &description);
  Option add_flag(const std::string &names, bool &value, const std::string &description);
  Option add_flag_callback(const std::string &names, const std::function<void()> &call,
                           const std::string &description);
  // Calls `take` with how often the flag was given; those behind a "!" count backwards.
  Option add_flag_function(const std::string &names, const std::function<void(std::int64_t)> &take,
                           const std::string &description);
  // REQUIRES: it was added.
  [[nodiscard]] Option option(const std::string &name) const;

  Command add_subcommand(const std::string &name, const std::string &description);
  void require_subcommand();
  // Below the help.
  void footer(const std::string &text);
  // After its words are parsed and checked: the first may refuse them, the second comes last.
  void parse_complete_callback(const std::function<void()> &call);
  void final_callback(const std::function<void()> &call);

  // As it was described.
  [[nodiscard]] const std::string &name() const;
  [[nodiscard]] std::vector<Command> subcommands() const;
  [[nodiscard]] std::vector<Option> options() const;

 protected:
  explicit Command(CLI::App *app) : app_(app) {}
  CLI::App *app_;
};
static_assert(std::is_trivially_copyable_v<Command> && sizeof(Command) == sizeof(void *));

// In a parse_complete_callback(): ends parse() with a message.
[[noreturn]] void refuse_option(const std::string &option, const std::string &why);
[[noreturn]] void refuse_without(const std::string &required);

class CommandLine : public Command {
 public:
  explicit CommandLine(const std::string &description, const std::string &name = {});
  ~CommandLine();
  CommandLine(const CommandLine &) = delete;
  CommandLine &operator=(const CommandLine &) = delete;

  // Adds --version.
  void set_version(const std::string &text);
  // CLI11 looks for what is missing first, and then does not name a word that it does not know.
  void tell_unknown_words_first() { tells_unknown_first_ = true; }

  // Nothing: the program goes on. Else its exit status: 0 when help or the version was asked for,
  // which then is printed, or put into `asked`; another one when a word is wrong, which standard
  // error then names.
  [[nodiscard]] std::optional<int> parse(int argc, const char *const *argv,
                                         std::string *asked = nullptr);

 private:
  std::unique_ptr<CLI::App> owned_;
  bool tells_unknown_first_ = false;
};

}  // namespace tmh::programs
