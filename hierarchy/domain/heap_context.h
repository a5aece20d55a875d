// hierarchy/domain/heap_context.h -- the heap of a mapped segment, as the instance of this thread
// may use it.
// Contexts:  in an instance at level 2 or in RTM.
#pragma once

#include <tmh/error.hpp>

#include "hierarchy/domain/domain_impl.h"
#include "storage/heap/heap.h"

namespace tmh::detail {

// kEndWithoutBegin, kNotAHeap, what usable() says. A heap that is full grows its segment.
[[nodiscard]] Errc heap_context(DomainImpl &domain, const SegmentImpl &segment,
                                storage::HeapContext *out) noexcept;

}  // namespace tmh::detail
