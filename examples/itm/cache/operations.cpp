#include "examples/itm/cache/operations.h"

#include <cstring>
#include <utility>

#include "examples/itm/support/counts.h"

namespace cache {

namespace {

// Most values are smaller; a larger one costs a second lookup. They go by way of the stack, which
// is the thread's alone: a runtime that gives transactions copies of pages would copy the
// connection's buffers, too.
constexpr std::size_t kSmallBytes = 1024;
// A look at all classes' counters, which other workers write.
constexpr unsigned kNewItemsBetweenLooks = 512;

}  // namespace

Operations::Operations(Shared &shared, unsigned worker)
    : shared_(&shared),
      statistics_(&shared.statistics[worker]),
      worker_(worker),
      workers_(shared.statistics.size()) {}

Got Operations::get(const Key &key, Bytes &out, std::optional<Seconds> touched_until) {
  const Seconds now = shared_->clock.now();
  const Seconds *touched = touched_until ? &*touched_until : nullptr;
  char small[kSmallBytes];
  Got got = cache::get(*shared_->store, key, now, small, sizeof small, touched);
  if (got.status == Status::kOk) out.append({small, got.value_bytes});
  while (got.status == Status::kNoRoom) {
    const std::size_t bytes = got.value_bytes;
    got = cache::get(*shared_->store, key, now, out.room(bytes), bytes, touched);
    if (got.status == Status::kOk) out.added(got.value_bytes);
  }
  const bool is_hit = got.status == Status::kOk;
  statistics_->add(Counter::kGets);
  statistics_->add(is_hit ? Counter::kGetHits : Counter::kGetMisses);
  if (touched != nullptr) {
    statistics_->add(Counter::kTouches);
    statistics_->add(is_hit ? Counter::kTouchHits : Counter::kTouchMisses);
  }
  return got;
}

void Operations::count_put(const PutRequest &request, Status status) {
  statistics_->add(Counter::kSets);
  if (request.is_compared && status == Status::kOk) statistics_->add(Counter::kCasHits);
  if (request.is_compared && status == Status::kExists) statistics_->add(Counter::kCasMismatches);
  if (request.is_compared && status == Status::kNotFound) statistics_->add(Counter::kCasMisses);
}

Status Operations::put(const Key &key, PutRequest request) {
  request.new_cas = new_cas();
  char small[kSmallBytes];
  if (request.value.size() <= sizeof small) {
    if (!request.value.empty()) std::memcpy(small, request.value.data(), request.value.size());
    request.value = {small, request.value.size()};
  }
  const PutResult result = cache::put(*shared_->store, key, shared_->clock.now(), request);
  count_put(request, result.status);
  if (result.status == Status::kOk) last_cas_ = request.new_cas;
  if (result.is_new) {
    statistics_->add(Counter::kNewItems);
    if (++new_items_ == kNewItemsBetweenLooks) {
      new_items_ = 0;
      grow_table(*shared_->store);
    }
  }
  if (result.grows) move_buckets(*shared_->store);
  return result.status;
}

Status Operations::remove(const Key &key, std::uint64_t compared_cas) {
  const Status status = cache::remove(*shared_->store, key, shared_->clock.now(), compared_cas);
  if (status == Status::kOk) statistics_->add(Counter::kDeleteHits);
  if (status == Status::kNotFound) statistics_->add(Counter::kDeleteMisses);
  return status;
}

Counted Operations::count(const Key &key, CountRequest request) {
  request.new_cas = new_cas();
  const Counted counted = cache::count(*shared_->store, key, shared_->clock.now(), request);
  const bool is_miss = counted.status == Status::kNotFound || counted.was_created;
  if (is_miss)
    statistics_->add(request.is_down ? Counter::kDecrMisses : Counter::kIncrMisses);
  else if (counted.status == Status::kOk)
    statistics_->add(request.is_down ? Counter::kDecrHits : Counter::kIncrHits);
  if (counted.was_created) statistics_->add(Counter::kNewItems);
  return counted;
}

Touched Operations::touch(const Key &key, Seconds until) {
  const Touched touched = cache::touch(*shared_->store, key, shared_->clock.now(), until);
  statistics_->add(Counter::kTouches);
  statistics_->add(touched.status == Status::kOk ? Counter::kTouchHits : Counter::kTouchMisses);
  return touched;
}

void Operations::flush(std::int64_t client_time) {
  statistics_->add(Counter::kFlushes);
  const Clock &clock = shared_->clock;
  cache::flush(*shared_->store, clock.flush_time_of(client_time), clock.now());
}

void Operations::count_transactions() {
  const itm::Counts counts = std::exchange(itm::counts, {});
  statistics_->add(Counter::kTransactions, counts.transactions);
  statistics_->add(Counter::kAttempts, counts.attempts);
}

bool Operations::ends_thread() { return std::exchange(ends_thread_, false); }

}  // namespace cache
