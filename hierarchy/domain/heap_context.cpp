// hierarchy/domain/heap_context.cpp -- where a heap lies, and how it grows.
#include "hierarchy/domain/heap_context.h"

#include "hierarchy/threads/threads.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

Errc heap_context(DomainImpl &domain, const SegmentImpl &segment,
                  storage::HeapContext *out) noexcept {
  TMH_TRY(domain.usable());
  if (!domain.runners().runs_here() && !runs_in_hardware(domain.lines()))
    return fail(Errc::kEndWithoutBegin, "allocating or freeing outside an instance");
  if (segment.layout != Layout::kHeap)
    return fail(Errc::kNotAHeap, segment.name + " is a raw segment");
  const auto grow_segment = [](void *context, std::uint64_t size_bytes, Errc *why) noexcept {
    leave_hardware(Need::kHeapGrowth);
    const auto *growing = static_cast<const SegmentImpl *>(context);
    const auto owner = growing->domain.lock();
    *why = owner == nullptr ? Errc::kNotInitialized
                            : owner->segments().grow(growing->number, size_bytes);
    return *why == Errc::kOk;
  };
  *out = storage::HeapContext{segment.base,      domain.segments().size_of(segment.number),
                              segment.max_bytes, domain.slot(),
                              grow_segment,      const_cast<SegmentImpl *>(&segment)};
  return Errc::kOk;
}

}  // namespace tmh::detail
