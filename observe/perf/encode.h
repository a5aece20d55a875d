// observe/perf/encode.h -- from event names to what perf_event_open takes.
// Contexts:  encode() serialises its calls of libpfm4, which keeps global state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/perf/processors.h"

namespace tmh::perf {

struct Encoded {
  std::uint32_t type = 0;  // PERF_TYPE_*
  std::uint64_t config = 0, config1 = 0, config2 = 0;
  bool user_only = false, kernel_only = false;  // as a modifier of libpfm4's demanded (:u, :k)
  // Not empty: there is no such event, and this is why.
  std::string unknown;
};
[[nodiscard]] Encoded encode(const std::string &event, Processor processor);

// "software" -> its groups of event names; a comma-separated list -> one group. Errc::kBadArgument
// as an exception: an empty name, or a set among other names.
[[nodiscard]] std::vector<std::vector<std::string>> groups_of(
    const std::vector<std::string> &requests);

}  // namespace tmh::perf
