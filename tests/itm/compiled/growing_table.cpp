// tests/itm/compiled/growing_table.cpp -- two threads put keys into the cache server's store while
// its table grows; each is found then. A bucket that has moved gets a value that it never had: on
// pages a store of an equal value is no conflict with a put that has read it.
// Methods:   lines rtm serial pages pages-serializable
// Levels:    3
// Flags:     -DTMH_ITM -fno-tree-loop-distribute-patterns
// Says:      0 of 8000 keys lost, 0 refused
#include <pthread.h>

#include <cstdio>
#include <string>

#include "examples/itm/cache/fault.cpp"
#include "examples/itm/cache/store.cpp"
#include "examples/itm/cache/store_transactions.cpp"
#include "examples/itm/support/build.cpp"
#include "examples/itm/support/counts.cpp"

namespace {

constexpr int kRounds = 4, kKeys = 2000, kThreads = 2;

struct Work {
  cache::Store *store;
  int number;
  int refused;
};

cache::Key key(int number) { return cache::make_key("key-" + std::to_string(number)); }

void *put_half(void *argument) {
  auto &work = *static_cast<Work *>(argument);
  for (int k = work.number; k < kKeys; k += kThreads) {
    cache::PutRequest request;
    request.value = "v";
    request.new_cas = static_cast<std::uint64_t>(k) + 1;
    const cache::PutResult result = cache::put(*work.store, key(k), 1, request);
    if (result.status != cache::Status::kOk) ++work.refused;
    if (k % 16 < kThreads) cache::grow_table(*work.store);
    if (result.grows) cache::move_buckets(*work.store);
  }
  return nullptr;
}

}  // namespace

int main() {
  int lost = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    cache::StoreOptions options;
    options.memory_bytes = 4u << 20;
    options.buckets = 16;
    const cache::OwnedStore store = cache::make_store(options);
    pthread_t threads[kThreads];
    Work works[kThreads];
    for (int k = 0; k < kThreads; ++k) {
      works[k] = {store.get(), k, 0};
      if (pthread_create(&threads[k], nullptr, put_half, &works[k]) != 0) return 2;
    }
    for (int k = 0; k < kThreads; ++k) {
      pthread_join(threads[k], nullptr);
      refused += works[k].refused;
    }
    for (int k = 0; k < kKeys; ++k) {
      char value[16];
      const auto got = cache::get(*store, key(k), 1, value, sizeof value, nullptr);
      if (got.status != cache::Status::kOk) ++lost;
    }
  }
  std::printf("%d of %d keys lost, %d refused\n", lost, kRounds * kKeys, refused);
}
