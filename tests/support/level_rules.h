// tests/support/level_rules.h -- S1 and S3 of docs/design.md 4, looked at in a hybrid domain's
// files while its processes are held.
#pragma once

#include <cstdint>
#include <string>

namespace tmh::test {

// Empty; or the first line word of the segment that has no U bit though its page is not in L.
[[nodiscard]] std::string open_line_above(const std::string &folder, std::uint32_t segment);

}  // namespace tmh::test
