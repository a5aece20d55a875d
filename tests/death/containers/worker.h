// tests/death/containers/worker.h -- what the worker and its test agree on.
#pragma once

namespace tmh::test {

inline constexpr long kWorkers = 3;
inline constexpr long kStepsPerByte = 10;
// Exit codes of the worker.
inline constexpr int kNotFound = 3, kAbsent = 4;

}  // namespace tmh::test
