// bench/support/snapshots_itm_transactions.cpp -- compiled with -fgnu-tm. Small on purpose: see
// line_itm_transactions.cpp.
// Shape:     updates are relaxed transactions: the trees catch and rethrow exceptions, which no
//            atomic one may. A relaxed one is the same until it comes there, and no bench does.
#include "bench/support/snapshots_itm.h"

namespace tmh::bench {

namespace {

// Not rolled back.
thread_local std::uint64_t attempts = 0;
[[gnu::transaction_pure, gnu::noinline]] void count_attempt() {
  ++attempts;
  asm volatile("" ::: "memory");
}

}  // namespace

std::uint64_t itm_attempts() { return attempts; }

template <class Data>
std::uint64_t ItmSteps<Data>::read(const Data &data, const typename Data::Step &step) {
  std::uint64_t result = 0;
  __transaction_atomic {
    count_attempt();
    result = data.read(step);
  }
  return result;
}
template <class Data>
std::uint64_t ItmSteps<Data>::update(Data &data, const typename Data::Step &step) {
  std::uint64_t result = 0;
  __transaction_relaxed {
    count_attempt();
    result = data.update(step);
  }
  return result;
}

template struct ItmSteps<Bank>;
template struct ItmSteps<List>;
template struct ItmSteps<Reservations<MallocAllocator<std::byte>>>;
template struct ItmSteps<Ycsb<MallocAllocator<std::byte>>>;

}  // namespace tmh::bench
