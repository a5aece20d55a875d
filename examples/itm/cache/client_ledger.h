// examples/itm/cache/client_ledger.h -- what each key's value may be, for --verify.
// Shape:     a key is set by one connection only, by ascending sequence. The ledger has the last
//            one that was sent and the last one that was acknowledged.
// Sharing:   written by the key's connection, read by all. Atomic, sequentially consistent: a
//            reader takes acknowledged() before it asks the server and sent() after the answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace cache {

class Ledger {
 public:
  explicit Ledger(std::uint64_t keys) : keys_(keys) {}
  // The next sequence of the key: from 1.
  [[nodiscard]] std::uint64_t send(std::uint64_t key) { return keys_[key].sent.fetch_add(1) + 1; }
  void acknowledge(std::uint64_t key, std::uint64_t sequence) {
    keys_[key].acknowledged.store(sequence);
  }
  [[nodiscard]] std::uint64_t sent(std::uint64_t key) const { return keys_[key].sent.load(); }
  // 0: never set.
  [[nodiscard]] std::uint64_t acknowledged(std::uint64_t key) const {
    return keys_[key].acknowledged.load();
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> sent{0}, acknowledged{0};
  };
  std::vector<Entry> keys_;
};

}  // namespace cache
