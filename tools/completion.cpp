// tools/completion.cpp -- walks the subcommands and writes a bash function.
#include "tools/completion.h"

#include <algorithm>

#include <fmt/format.h>

#include "platform/assert.h"

namespace tmh::tools {

namespace {

using programs::Command;
using programs::Option;

// Of an argument that takes one of a few words: these, as its type names them, "TEXT:{one,two}".
// Else nothing.
std::string words_of_argument(const Option &option) {
  const std::string type = option.type();
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  TMH_ASSERT(begin < end);
  std::string words = " " + type.substr(begin + 1, end - begin - 1);
  std::replace(words.begin(), words.end(), ',', ' ');
  return words;
}

// What may stand after these subcommands: further subcommands and options.
std::string words_after(const Command &command) {
  std::string words;
  for (const Command &sub : command.subcommands()) words += (words.empty() ? "" : " ") + sub.name();
  for (const Option &option : command.options())
    for (const std::string &name : option.long_names())
      words += (words.empty() ? "--" : " --") + name;
  for (const Option &option : command.options())
    if (option.is_positional()) words += words_of_argument(option);
  return words;
}

bool takes_folder(const Command &command) {
  for (const Option &option : command.options())
    if (option.is_positional() && words_of_argument(option).empty()) return true;
  return false;
}

// What may stand behind an option: its words, a folder, a file; nothing where it takes a number.
std::string offer_behind(const Option &option, const ValuesOf &values) {
  TMH_ASSERT(!option.long_names().empty());
  const std::string name = option.long_names().front();
  if (const auto found = values.find(option); found != values.end())
    return fmt::format("words=\"{}\" kind={}", fmt::join(found->second.words, " "),
                       found->second.commas ? " commas=1" : "");
  if (const std::string words = words_of_argument(option); !words.empty())
    return fmt::format("words=\"{}\" kind=", words.substr(1));
  if (name == "logs" || name == "domain") return "words= kind=-d";
  if (name == "output") return "words= kind=-f";
  return "words= kind=";
}

// The cases of options that take a value, for what stands before the word that is typed.
std::string cases_of_values(const Command &command, const ValuesOf &values) {
  std::string cases;
  for (const Option &option : command.options()) {
    if (option.is_positional() || option.long_names().empty() || !option.takes_value()) continue;
    std::string names;
    for (const std::string &name : option.long_names())
      names += (names.empty() ? "--" : " | --") + name;
    for (const std::string &name : option.short_names()) names += " | -" + name;
    cases += fmt::format("        {}) {} ;;\n", names, offer_behind(option, values));
  }
  return cases;
}

// path: the subcommands so far, each with a blank before it; "" is the command itself.
void add_cases(const Command &command, const std::string &path, const ValuesOf &values,
               std::string *known, std::string *cases) {
  TMH_ASSERT(known != nullptr && cases != nullptr);
  *cases += fmt::format("    \"{}\")\n      words=\"{}\"\n", path, words_after(command));
  if (takes_folder(command)) *cases += "      kind=-d\n";
  if (const std::string behind = cases_of_values(command, values); !behind.empty())
    *cases += fmt::format("      case $before in\n{}      esac\n", behind);
  *cases += "      ;;\n";
  for (const Command &sub : command.subcommands()) {
    const std::string name = path + " " + sub.name();
    *known += fmt::format("{}\"{}\"", known->empty() ? "" : " | ", name);
    add_cases(sub, name, values, known, cases);
  }
}

}  // namespace

// bash splits words at "=": `--level=page` and `backoff=none` are three words each, and a reply
// replaces the third.
std::string bash_completion(const Command &command, const ValuesOf &values) {
  std::string known, cases;
  add_cases(command, "", values, &known, &cases);
  return "# bash completion of the tmh command; written by `tmh completion`\n"
         "_tmh() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) before= split= path= "
         "words= kind=\n"
         "  local commas=0 listed= i\n"
         "  if [[ $word == = ]]; then word= at=$COMP_CWORD; fi\n"
         "  before=${COMP_WORDS[at]}\n"
         "  if [[ $before == = && ${COMP_WORDS[at-1]} == --* ]]; then\n"
         "    before=${COMP_WORDS[at-1]}\n"
         "  elif [[ $before == = ]]; then\n"
         "    split=${COMP_WORDS[at-1]}= before=${COMP_WORDS[at-2]}\n"
         "    if [[ $before == = ]]; then before=${COMP_WORDS[at-3]}; fi\n"
         "  fi\n"
         "  word=$split$word\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case \"$path ${COMP_WORDS[i]}\" in\n"
         "      " +
         known +
         ") path=\"$path ${COMP_WORDS[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case $path in\n" +
         cases +
         "  esac\n"
         "  if [[ $commas == 1 && $word == *,* ]]; then listed=${word%,*},; fi\n"
         "  mapfile -t COMPREPLY < <(compgen -P \"$listed\" -W \"$words\" -- "
         "\"${word#\"$listed\"}\"\n"
         "    [[ -n $kind ]] && compgen $kind -- \"$word\")\n"
         "  COMPREPLY=(\"${COMPREPLY[@]#\"$split\"}\")\n"
         "  [[ -n $kind ]] || compopt +o filenames 2>/dev/null\n"
         "}\n"
         "complete -o filenames -F _tmh tmh\n";
}

}  // namespace tmh::tools
