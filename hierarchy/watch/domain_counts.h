// hierarchy/watch/domain_counts.h -- what a domain counts: totals, participants, times.
// Shape:     read without a lock: each number is right for itself, the sum of no moment.
// Contexts:  NOT async-signal-safe. REQUIRE that the domain stays open.
#pragma once

#include <vector>

#include <tmh/domain.hpp>

namespace tmh::detail {

class DomainImpl;

[[nodiscard]] Counters counters_of(DomainImpl &domain);
[[nodiscard]] std::vector<ParticipantInfo> participants_of(const DomainImpl &domain);
[[nodiscard]] std::vector<LatencySeries> latencies_of(DomainImpl &domain);

}  // namespace tmh::detail
