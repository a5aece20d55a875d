// hierarchy/watch/domain_counts.h -- what a domain counts: totals, participants, times.
// Shape:     read without a lock: each number is right for itself, the sum of no moment.
// Contexts:  NOT async-signal-safe. REQUIRE that the domain stays open.
#pragma once

#include <vector>

#include <tmh/domain.hpp>

#include "levels/page/shared/shared.h"
#include "storage/latency_table.h"

namespace tmh::detail {

// But for what LineDomain::count_in() adds.
[[nodiscard]] Counters counters_of(const page::SharedState &memory);
[[nodiscard]] std::vector<ParticipantInfo> participants_of(const page::SharedState &memory);
[[nodiscard]] std::vector<LatencySeries> latencies_of(const page::SharedState &memory,
                                                      const storage::LatencyTable &table);

}  // namespace tmh::detail
