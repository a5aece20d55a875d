// tools/deadlockd.h -- who fails of lockers that wait for each other, as words.
#pragma once

#include <string>
#include <vector>

namespace tmh::tools {

// Each value of lock::Victim.
[[nodiscard]] std::vector<std::string> victim_names();

}  // namespace tmh::tools
