// include/tmh/lab.hpp -- values of policies for those who compare mechanisms. Each works, and is
// tested; no application has a reason to choose one.
// Shape:     as policies.hpp: a value and its row. Text is understood wherever that of policies.hpp
//            is: in DomainOptions, Site, TMH_* and tmh run. `tmh policies --lab` prints the rows.
// Source:    thesis, section 6.2 (what the levels do about a page that both want); docs/lab.md.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <tmh/policies.hpp>

namespace tmh::lab {

inline constexpr CrossPolicy kWaitForUpper{4};
inline constexpr CrossPolicy kUpperYields{5};
inline constexpr Spelling<CrossPolicy> kCrossPolicies[] = {
    {"wait-for-upper", kWaitForUpper,
     "the instance of level 1 sleeps with growing pauses until level 2 has ended, within a time "
     "budget"},
    {"upper-yields", kUpperYields,
     "an update of level 2 that touches a page which level 1 has used aborts instead of taking it, "
     "at most 4 times in a row; level 1 does as under recall-and-wait"},
};

inline constexpr EscalationKind kAdaptivePages{7};
inline constexpr Spelling<EscalationKind> kEscalations[] = {
    {"adaptive-pages", kAdaptivePages,
     "as adaptive, but an update that exceeds the capacity goes to level 2"},
};

// Without waiting for the first time that two threads meet.
inline constexpr ThreadViewUse kOwnViewAlways{2};
inline constexpr Spelling<ThreadViewUse> kThreadViewUses[] = {
    {"always", kOwnViewAlways, "each thread in a view of its own, all at once"},
};

inline constexpr Latency kEachAttempt{3};
inline constexpr Spelling<Latency> kLatencies[] = {
    {"full", kEachAttempt, "each attempt; some 25 ns more per instance"},
};

}  // namespace tmh::lab
