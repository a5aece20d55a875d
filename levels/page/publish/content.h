// levels/page/publish/content.h -- what one commit publishes, whoever made it.
// Invariant: complete before the domain lock is taken: nothing that is published later can fail.
// Source:    docs/design.md D5.
#pragma once

#include <vector>

#include "levels/page/redo/redo.h"
#include "levels/page/versions/versions.h"

namespace tmh::page {

struct Content {
  // Not empty. Each with a slot that the publisher's participant has reserved, which holds its
  // lines. Sorted by page where ConsistencyTree::is_wide() and the domain is durable: see
  // RedoEncoder::append_wide().
  const std::vector<Write> &writes;
  // Durable domains: of all of them, in their order.
  RedoPlan &plan;
};

}  // namespace tmh::page
