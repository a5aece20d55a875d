// tools/shared_latency.h -- a domain's latency histograms, read without joining it;
// and as text and JSON.
// Invariant: as domain_files.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tmh/latency.hpp>

#include "tools/print.h"

namespace tmh::tools {

// incarnations: of the present participants, by slot; 0: none. *refused: kinds of times for which
// there was no page.
// Errors: kForeignVersion (of another version, or damaged), kPermission, kIo. No such file:
//         nothing.
[[nodiscard]] std::vector<LatencySeries> read_latencies(
    const std::string &folder, const std::vector<std::uint64_t> &incarnations,
    std::uint64_t *refused);

// page: of sizeof(storage::HistogramV1) bytes, whatever they are.
[[nodiscard]] Histogram histogram_of(const std::vector<std::byte> &page);
// Sum of the series for which `wanted` says yes.
[[nodiscard]] Histogram sum_of(const std::vector<LatencySeries> &all,
                               const std::function<bool(const LatencySeries &)> &wanted);
// count, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns
[[nodiscard]] Json latency_json(const Histogram &histogram);
// By level, committed; and, where there are any, what was aborted, by cause, and waits for locks.
[[nodiscard]] std::string latency_table_text(const std::vector<LatencySeries> &all,
                                             const Histogram &lock_waits);
// "480 ns", "1.2 us", "12 ms", three digits at most.
[[nodiscard]] std::string ns_text(std::uint64_t ns);

}  // namespace tmh::tools
