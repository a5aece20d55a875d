// bench/support/snapshots_itm.h -- steps of the snapshots bench as transactions of GCC's libitm.
// Defined in snapshots_itm_transactions.cpp, which is compiled with -fgnu-tm.
#pragma once

#include <cstdint>

#include "bench/support/snapshots_arrays.h"
#include "bench/support/snapshots_memory.h"
#include "bench/support/snapshots_reservations.h"
#include "bench/support/snapshots_ycsb.h"

namespace tmh::bench {

template <class Data>
struct ItmSteps {
  static std::uint64_t read(const Data &data, const typename Data::Step &step);
  static std::uint64_t update(Data &data, const typename Data::Step &step);
};
// Of the calling thread, those that were undone among them.
[[nodiscard]] std::uint64_t itm_attempts();

}  // namespace tmh::bench
