// tests/support/lost_commits.h -- histories of durable domains whose processes were all killed
// and lost what they shared: what may be gone is taken out.
// Shape:     the last process of the history has read every cell after the recovery. Whose values,
//            or whose values' predecessors, it has read has survived. What is left is for
//            history::check(), which finds what was acknowledged and is lost.
// Source:    tmh-durability(7): a prefix of the commit order, with all that was acknowledged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/histories/history.h"

namespace tmh::test {

struct Loss {
  std::uint64_t flushed_ns = 0;  // the begin of the last flush() that returned
  // Has this process of the history no early release?
  std::function<bool(std::uint32_t process)> reads_durable_only;
};

struct LostCommits {
  std::uint64_t commits = 0;
  std::vector<std::string> findings;  // that the history alone would not tell
};

[[nodiscard]] LostCommits take_out_lost_commits(history::History *history, const Loss &loss);

}  // namespace tmh::test
