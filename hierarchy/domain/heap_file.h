// hierarchy/domain/heap_file.h -- files in which heap segments lie: judged, and made, before there
// is a record of the segment.
// Invariant: a file that is no heap is never written to. No participant finds a half-made heap.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "storage/control.h"

namespace tmh::detail {

inline constexpr std::uint64_t kHeapBytesMin = 1u << 20;

[[nodiscard]] bool all_zero(const std::byte *bytes, std::size_t count) noexcept;
// What a heap will be in, before there is a record: what the file is refused for then would be so
// for ever, and it could not become a raw segment either. Makes the file where there is none, or an
// empty one.
// in_instance: this thread runs an instance of level 2, in which no heap is formatted.
// Errors: kBadArgument, kNotAHeap, kInstanceRunning, as storage::heap_verify().
[[nodiscard]] Errc settle_heap_file(const std::string &path, const storage::SegmentRecordV1 &record,
                                    bool in_instance);

}  // namespace tmh::detail
