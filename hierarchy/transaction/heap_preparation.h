// hierarchy/transaction/heap_preparation.h -- mapping a segment whose heap is then ready for use.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <memory>
#include <string>

#include <tmh/domain.hpp>

#include "hierarchy/domain/domain.h"

namespace tmh::detail {

// Segments::map(), and the instance that checks, formats or binds the heap.
[[nodiscard]] Errc map_prepared(DomainImpl &domain, const std::string &file,
                                const SegmentOptions &options, std::shared_ptr<SegmentImpl> *out);

}  // namespace tmh::detail
