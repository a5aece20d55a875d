// hierarchy/api/handles.cpp -- queries that call what stores.
#include "hierarchy/api/handles.h"

#include "hierarchy/threads/current.h"
#include "hierarchy/threads/page_runner.h"
#include "hierarchy/transaction/raise.h"
#include "platform/failure.h"

namespace tmh::detail {

bool is_page_query_here() noexcept {
  return current().at_level_2() && current().pages.runner->nest.front();
}

void raise_query_wrote(const std::string &segment, const char *what) {
  platform::fail(Errc::kQueryWrote, segment + ": " + what + " in a query");
  raise(Errc::kQueryWrote);
}

}  // namespace tmh::detail
