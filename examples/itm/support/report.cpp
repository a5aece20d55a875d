#include "examples/itm/support/report.h"

#include <iostream>

#include "examples/itm/support/counts.h"
#include "programs/json.h"

namespace itm {

using tmh::programs::Json;

int Report::print(const Work &work) const {
  Json details = Json::object();
  for (const auto &detail : details_)
    std::visit([&](const auto &each) { details[detail.first] = each; }, detail.second);
  Json line;
  line["program"] = program_;
  line["build"] = kBuild;
  line["threads"] = common_.threads;
  line["seed"] = common_.seed;
  line["operations"] = work.operations;
  line["seconds"] = work.seconds;
  line["operations_per_second"] =
      work.seconds > 0 ? static_cast<double>(work.operations) / work.seconds : 0.0;
  line["transactions"] = work.transactions;
  line["attempts"] = work.attempts;
  line["check"] = problem_.empty() ? "ok" : problem_;
  line["details"] = details;
  std::cout << line.dump() << '\n';
  return problem_.empty() ? 0 : 1;
}

}  // namespace itm
