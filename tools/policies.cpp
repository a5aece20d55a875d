// tools/policies.cpp -- tmh policies: every value of every choice, one sentence each; those for
// research by --lab.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hierarchy/domain/domain.h"
#include "platform/assert.h"
#include "tools/commands.h"
#include "tools/print.h"

namespace tmh::tools {

using hierarchy::Listed;

Exit run(const PoliciesCommand &command) {
  const std::vector<Listed> choices =
      command.lab ? hierarchy::lab_choices() : hierarchy::all_choices();
  if (command.json) {
    Json list = Json::array();
    for (const Listed &listed : choices)
      for (const Listed::Row &row : listed.rows)
        list.push_back({{"variable", listed.choice.variable},
                        {"option", listed.choice.field},
                        {"value", row.value},
                        {"default", row.is_default},
                        {"meaning", row.meaning}});
    print(Json{{"document", "tmh-policies-1"}, {"policies", std::move(list)}});
    return Exit::kOk;
  }
  std::string out;
  for (const Listed &listed : choices) {
    const std::string_view field = listed.choice.field;
    TMH_ASSERT(!listed.rows.empty());
    out += fmt::format("{}{} ({}{}) -- {}\n", out.empty() ? "" : "\n", listed.choice.variable,
                       field.empty() ? "environment only" : "DomainOptions::", field,
                       listed.choice.about);
    for (const Listed::Row &row : listed.rows)
      out +=
          fmt::format("  {:22} {}{}\n", row.value, row.meaning, row.is_default ? " (default)" : "");
  }
  print(out);
  return Exit::kOk;
}

}  // namespace tmh::tools
