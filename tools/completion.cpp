// tools/completion.cpp -- walks the subcommands and writes a bash function.
#include "tools/completion.h"

#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace tmh::tools {

namespace {

// Of an argument that takes one of a few words: these, as CLI11 names its type, "TEXT:{one,two}". Else nothing.
std::string words_of_argument(const CLI::Option &option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::string words = " " + type.substr(begin + 1, end - begin - 1);
  std::replace(words.begin(), words.end(), ',', ' ');
  return words;
}

// What may stand after these subcommands: further subcommands and options.
std::string words_after(const CLI::App &app) {
  std::string words;
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    words += (words.empty() ? "" : " ") + sub->get_name();
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames()) words += (words.empty() ? "--" : " --") + name;
  for (const CLI::Option *option : app.get_options())
    if (option->get_positional()) words += words_of_argument(*option);
  return words;
}

bool takes_folder(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    if (option->get_positional() && words_of_argument(*option).empty()) return true;
  return false;
}

// path: the subcommands so far, each with a blank before it; "" is the command itself.
void add_cases(const CLI::App &app, const std::string &path, std::string *known, std::string *cases) {
  *cases += fmt::format("    \"{}\")\n      words=\"{}\"\n", path, words_after(app));
  if (takes_folder(app)) *cases += "      folders=1\n";
  *cases += "      ;;\n";
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; })) {
    const std::string name = path + " " + sub->get_name();
    *known += fmt::format("{}\"{}\"", known->empty() ? "" : " | ", name);
    add_cases(*sub, name, known, cases);
  }
}

}  // namespace

std::string bash_completion(const CLI::App &app) {
  std::string known, cases;
  add_cases(app, "", &known, &cases);
  return "# bash completion of the tmh command; written by `tmh completion`\n"
         "_tmh() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path= words= folders=0 i\n"
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
         "  [[ $before == --logs || $before == --domain ]] && words= folders=1\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\"; [[ $folders == 1 ]] && compgen -d -- "
         "\"$word\")\n"
         "}\n"
         "complete -o filenames -F _tmh tmh\n";
}

}  // namespace tmh::tools
