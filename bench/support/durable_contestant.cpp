// bench/support/durable_contestant.cpp -- the records that are inserted, and who inserts them.
#include "bench/support/durable_contestant.h"

#include <cstring>

#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {

Record make_record(std::uint64_t seed, std::uint64_t index) noexcept {
  // The index-th value of Random(seed): its state advances by a constant and its output is a
  // bijection of the state, so that keys of different indexes differ.
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;  // of splitmix64
  Record record;
  record.key = Random(seed + index * kStep).next();
  Random bytes(record.key);
  for (std::size_t offset = 0; offset < kValueBytes; offset += sizeof(std::uint64_t)) {
    const std::uint64_t word = bytes.next();
    std::memcpy(record.value.data() + offset, &word, sizeof(word));
  }
  return record;
}

void add_opponents(Contestants *all, Durability durability, std::vector<std::string> *not_built) {
  TMH_ASSERT(all != nullptr && not_built != nullptr);
#if defined(TMH_BENCH_BERKELEY_DB)
  add_berkeley_db(all, durability);
#else
  not_built->emplace_back("Berkeley DB (libdb5.3-dev)");
#endif
#if defined(TMH_BENCH_LMDB)
  add_lmdb(all, durability);
#else
  not_built->emplace_back("LMDB (liblmdb-dev)");
#endif
#if defined(TMH_BENCH_SQLITE)
  add_sqlite(all, durability);
#else
  not_built->emplace_back("SQLite (libsqlite3-dev)");
#endif
  (void)not_built;  // when everything was found
}

Contestants make_contestants(std::uint64_t floor_log_bytes, std::vector<std::string> *not_built) {
  Contestants all;
  add_floor(&all, floor_log_bytes);
  add_opponents(&all, Durability::kStrict, not_built);
  add_tmh(&all);
  return all;
}

}  // namespace tmh::bench
