// hierarchy/threads/page_runner.h -- what runs one instance of level 2 at a time: an engine with
// its views, and what is remembered from one attempt to the next.
// Shape:     one per process and domain, on the process's views; and one per thread that has views
//            of its own (thread_views.h).
// Sharing:   threads: the thread that runs an instance holds `mutex` from begin to end; everything
//            else is the holder's.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "levels/page/page.h"
#include "levels/page/redo/redo.h"
#include "platform/assert.h"

namespace tmh::detail {

class ThreadView;

struct PageRunner {
  [[nodiscard]] page::Transaction &transaction() const noexcept {
    TMH_ASSERT(engine != nullptr);
    return engine->transaction();
  }

  std::mutex mutex;
  page::Engine *engine = nullptr;
  page::DurableLog *log = nullptr;  // null: a volatile domain
  std::uint32_t slot = 0;           // of its participant
  ThreadView *view = nullptr;       // null: the process's views, at the common addresses

  std::vector<bool> nest;      // kind of each open begin: true is a query
  std::uint32_t attempts = 0;  // consecutive aborted instances
  std::uint64_t age = 0;
  std::uint64_t clock_at_abort = 0;
  bool holds_turn = false;
};

}  // namespace tmh::detail
