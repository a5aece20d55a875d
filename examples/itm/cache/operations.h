// examples/itm/cache/operations.h -- one worker's operations on the store, for both protocols.
// Shape:     calls the store's transactions and counts what came of them.
// Sharing:   of one worker. When its thread dies in a transaction, the next thread goes on with
//            the same object: nothing here is half done then.
#pragma once

#include <optional>

#include "examples/itm/cache/bytes.h"
#include "examples/itm/cache/shared.h"

namespace cache {

class Operations {
 public:
  Operations(Shared &shared, unsigned worker);

  // Appends the value to the bytes. `touched_until`: also the item's new end.
  Got get(const Key &key, Bytes &out, std::optional<Seconds> touched_until = {});
  Status put(const Key &key, PutRequest request);
  Status remove(const Key &key, std::uint64_t compared_cas);
  Counted count(const Key &key, CountRequest request);
  Touched touch(const Key &key, Seconds until);
  void flush(std::int64_t client_time);

  [[nodiscard]] Seconds end_of(std::int64_t client_time) const {
    return shared_->clock.end_of(client_time);
  }
  [[nodiscard]] Shared &shared() { return *shared_; }
  [[nodiscard]] Statistics &statistics() { return *statistics_; }
  // The mark that the last put() that succeeded gave its item.
  [[nodiscard]] std::uint64_t last_cas() const { return last_cas_; }

  // Counts the transactions that the thread has run since the last call.
  void count_transactions();

  // For tests, `fault thread`: the worker's thread ends as if it had died.
  void end_thread() { ends_thread_ = true; }
  [[nodiscard]] bool ends_thread();

 private:
  // Unlike any other worker's, without a counter that all share.
  std::uint64_t new_cas() { return ++last_sequence_ * workers_ + worker_; }
  void count_put(const PutRequest &request, Status status);

  Shared *shared_;
  Statistics *statistics_;
  std::uint64_t worker_, workers_, last_sequence_ = 0, last_cas_ = 0;
  // Since the last look at the table's size.
  unsigned new_items_ = 0;
  bool ends_thread_ = false;
};

}  // namespace cache
