// hierarchy/transaction/heap_preparation.cpp -- the instance that checks, formats or binds a heap.
#include "hierarchy/transaction/heap_preparation.h"

#include <utility>

#include "hierarchy/domain/domain.h"
#include "hierarchy/transaction/instances.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/heap/heap.h"

namespace tmh::detail {

using platform::fail;

namespace {

// Checks the heap's header; formats one in a file that holds zeros, in a transaction of its own, so
// that death in the middle leaves zeros. Two processes may try at once: one commits, the other
// finds it formatted.
Errc prepare_heap(DomainImpl &domain, SegmentImpl &segment) noexcept {
  TMH_ASSERT(segment.base != nullptr && segment.layout == Layout::kHeap);
  const bool in_query = domain.runners().runs_here() && current().pages.runner->nest.front();
  Instances instances(domain);
  for (;;) {
    TMH_TRY(instances.begin(in_query));
    const std::uint64_t size = domain.segments().size_of(segment.number);
    const bool nested = instances.depth() > 1;
    Errc result = Errc::kNotAHeap;
    if (size < kHeapBytesMin)
      result = Errc::kBadArgument;
    else if (storage::heap_is_formatted(segment.base))
      result = storage::heap_verify(segment.base, size);
    else if (nested)
      result = Errc::kInstanceRunning;  // the outer instance could roll the format back
    else if (all_zero(segment.base, kPageBytes))
      result = storage::heap_format(segment.base, size);
    // Plain pointers inside mean this address: a heap file that was copied from elsewhere is
    // refused before they are followed. A query only compares: what is not bound yet the next map()
    // binds.
    if (result == Errc::kOk && !segment.relocatable &&
        !(in_query && !storage::heap_is_bound(segment.base)))
      result = storage::heap_bind_address(segment.base,
                                          reinterpret_cast<std::uint64_t>(segment.base.load()));
    if (result != Errc::kOk && !nested) (void)instances.abort();
    Status status = Status::kPending;
    if (result == Errc::kOk || nested) {
      TMH_TRY(instances.end(in_query, &status));
    }
    if (result != Errc::kOk) return fail(result, segment.name + ": heap header");
    if (status != Status::kAborted) return Errc::kOk;
    instances.backoff();
  }
}

}  // namespace

// Without the folder lock: this begins an instance, and a thread that runs one may be waiting for
// the folder to grow a segment.
Errc map_prepared(DomainImpl &domain, const std::string &file, const SegmentOptions &options,
                  std::shared_ptr<SegmentImpl> *out) {
  TMH_ASSERT(out != nullptr);
  std::shared_ptr<SegmentImpl> segment;
  TMH_TRY(domain.segments().map(file, options, domain.weak_from_this(), &segment));
  if (options.layout == Layout::kHeap) {
    if (const Errc error = prepare_heap(domain, *segment); error != Errc::kOk) {
      const std::string detail = platform::failure_detail();
      // it stays mapped as long as the instance runs; the next map() takes it over
      if (domain.runners().runs_here())
        domain.segments().keep_unprepared(*segment);
      else
        (void)domain.segments().unmap(*segment);
      return fail(error, detail);
    }
  }
  *out = std::move(segment);
  return Errc::kOk;
}

}  // namespace tmh::detail
