// bench/support/oo1_db.h -- files of dbopen() as contestants of bench/oo1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/support/oo1_work.h"

namespace tmh::bench {

enum class Oo1Files : std::uint8_t { kTrees, kHashes, kPrivateTrees };

[[nodiscard]] std::unique_ptr<Oo1Store> open_db_oo1(const std::string &folder, Oo1Files files);

}  // namespace tmh::bench
