// hierarchy/api/handles.cpp -- queries that call what stores.
#include "hierarchy/api/handles.h"

#include "hierarchy/threads/threads.h"
#include "hierarchy/transaction/transaction.h"
#include "platform/assert.h"
#include "platform/failure.h"

namespace tmh::detail {

bool is_instance_here() noexcept { return current().where() != Where::kOutside; }

bool is_page_query_here() noexcept {
  TMH_ASSERT(!current().at_level_2() || !current().pages.runner->nest.empty());
  return current().at_level_2() && current().pages.runner->nest.front();
}

void raise_query_wrote(const std::string &segment, const char *what) {
  TMH_ASSERT(what != nullptr && is_page_query_here());
  platform::fail(Errc::kQueryWrote, segment + ": " + what + " in a query");
  raise(Errc::kQueryWrote);
}

}  // namespace tmh::detail
