// bench/support/tp_pages.h -- instances of this library as contestants of bench/tp: plain code at
// pages under each detection, and fields at lines. No transaction of tp.h, no lock of records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/support/tp_work.h"

namespace tmh::bench {

enum class Instances : std::uint8_t { kLazy, kEager, kLocking, kSnapshot, kLines };

// durability: as in tp_options. All balances are 0 in a new folder.
[[nodiscard]] std::unique_ptr<BankSession> open_instances_bank(const std::string &folder,
                                                               const BankScale &scale,
                                                               unsigned process, int durability,
                                                               Instances instances);

}  // namespace tmh::bench
