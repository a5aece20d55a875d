// hierarchy/domain/domain_parts.h -- what an open domain consists of in this process.
// Shape:     opening makes the parts in this order, each on those before it; closing and the end of
//            the object take them away in the other one.
// Sharing:   threads: the pointers change while no other thread has the domain open; what each part
//            allows its header says.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <memory>

#include "hierarchy/domain/line_domain.h"
#include "hierarchy/domain/settings.h"
#include "hierarchy/durability/durability.h"
#include "hierarchy/exchange/exchange.h"
#include "levels/lock/lock.h"
#include "levels/page/page.h"
#include "levels/page/shared/shared.h"

namespace tmh::detail {

struct DomainParts {
  // As they are since the open; but for the policy, which is that of PageRunners.
  hierarchy::Settings settings;
  std::unique_ptr<page::SharedFiles> memory;
  // Null: a volatile domain.
  std::unique_ptr<DurableDomain> durable;
  // Null: level 2 alone.
  std::unique_ptr<LineDomain> lines;
  std::unique_ptr<page::Engine> engine;
  // Null: no part of this process has asked for it.
  std::unique_ptr<lock::LockTable> locks;
  // Null: another detection than locking.
  std::unique_ptr<PageLocks> page_locks;

  // Those in retry(), to look again. REQUIRES that the domain's memory is mapped.
  void wake_sleepers() const noexcept {
    memory->state().changed.notify();
    if (lines != nullptr) lines->memory().state().changed.notify();
  }
};

}  // namespace tmh::detail
