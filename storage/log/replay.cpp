// storage/log/replay.cpp -- batches, and the workers that apply them.
#include "storage/log/replay.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_items.h"

namespace tmh::storage {

using platform::fail;

namespace {

// About 0.2 ms of work: long against waking a worker (10 us), short against the whole; fits a
// core's cache with its lists.
constexpr std::size_t kBatchBytes = 1u << 20;
static_assert(kBatchBytes > kRecordBytesAccepted, "a batch has at least one record");

struct Batch {
  std::unique_ptr<std::byte[]> bytes{new std::byte[kBatchBytes]};
  std::vector<std::vector<PageDelta>> shares;  // by worker; differences point into bytes
  unsigned workers_left = 0;                   // that have not finished it
};

// Pages next to each other go to one worker, as far as 16: they share blocks of the file system's
// metadata.
unsigned share_of(PageId page, std::size_t shares) noexcept {
  TMH_ASSERT(shares > 0);
  // Golden ratio.
  const std::uint64_t hash = (static_cast<std::uint64_t>(page) >> 4) * 0x9e37'79b9'7f4a'7c15ull;
  return static_cast<unsigned>((hash >> 32) % shares);
}

void store(const DataFiles &files, const std::vector<PageDelta> &share) noexcept {
  const bool watched = platform::disk_is_watched();
  for (const PageDelta &delta : share) {
    apply_delta(delta, files.page(delta.page));
    if (watched) [[unlikely]]
      for_each_run(delta, [&](std::size_t offset, const std::byte *from, std::size_t bytes) {
        files.stored(delta.page, offset, from, bytes);
      });
  }
}

// A ring of batches between the reading thread and the workers. Every worker goes through every
// batch, in order.
class Crew {
 public:
  Crew(const DataFiles &files, unsigned wanted) : files_(files) {
    threads_.reserve(wanted);  // nothing may throw once a thread runs
    for (Batch &batch : ring_) batch.shares.resize(std::max(wanted, 1u));
    try {
      while (threads_.size() < wanted)
        threads_.emplace_back([this, number = threads_.size()] { work(number); });
    } catch (const std::system_error &) {
      // Fewer threads do as well; shares() says how many there are.
    }
    for (Batch &batch : ring_) batch.shares.resize(shares());
  }
  ~Crew() {
    {
      const std::scoped_lock guard(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;

  [[nodiscard]] std::size_t shares() const noexcept {
    return std::max<std::size_t>(threads_.size(), 1);
  }

  // An empty batch, once the workers are through with what it held.
  [[nodiscard]] Batch &take() {
    Batch &batch = ring_[issued_ % ring_.size()];
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return batch.workers_left == 0; });
    for (auto &share : batch.shares) share.clear();
    return batch;
  }
  void issue(Batch *batch) {
    TMH_ASSERT(batch != nullptr && batch->shares.size() == shares());
    if (threads_.empty()) {
      store(files_, batch->shares.front());
      return;
    }
    {
      const std::scoped_lock guard(mutex_);
      batch->workers_left = static_cast<unsigned>(threads_.size());
      ++issued_;
    }
    changed_.notify_all();
  }
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::all_of(ring_.begin(), ring_.end(),
                         [](const Batch &batch) { return batch.workers_left == 0; });
    });
  }

 private:
  void work(std::size_t number) {
    for (std::uint64_t done = 0;; ++done) {
      Batch &batch = ring_[done % ring_.size()];
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return issued_ > done || closed_; });
      if (issued_ <= done) return;
      lock.unlock();
      TMH_ASSERT(number < batch.shares.size());
      store(files_, batch.shares[number]);
      lock.lock();
      TMH_ASSERT(batch.workers_left > 0);  // this worker is one of them
      if (--batch.workers_left == 0) changed_.notify_all();
    }
  }

  const DataFiles &files_;
  std::array<Batch, 4> ring_;  // one being filled, the others smooth out shares of different size
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t issued_ = 0;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

// Page differences to the workers. What the other items need was there before the first batch:
// LogPlanner noted it.
class Dealer final : public Redo {
 public:
  Dealer(const DataFiles &files, Batch *batch, ReplayCounts *counts) noexcept
      : files_(files), batch_(*batch), counts_(*counts) {}
  bool page_difference(const PageDelta &difference) override {
    if (!files_.is_mapped(difference.page)) return false;
    batch_.shares[share_of(difference.page, batch_.shares.size())].push_back(difference);
    ++counts_.pages;
    counts_.bytes_applied += 8 * std::uint64_t{difference.word_count};
    return true;
  }

 private:
  const DataFiles &files_;
  Batch &batch_;
  ReplayCounts &counts_;
};

// False: it names a page that was not noted.
bool deal(const RecordView &record, const DataFiles &files, Batch *batch, ReplayCounts *counts) {
  ++counts->records;
  counts->log_bytes += record.header.length;
  Dealer dealer(files, batch, counts);
  Item item;
  if (!redo_items(record, dealer, &item)) return false;
  if (!record.ends_transaction()) return true;
  ++counts->transactions;
  counts->last_stamp = record.header.stamp;
  counts->last_time_ns = record.header.time_ns;
  return true;
}

Errc changed_meanwhile(Lsn lsn) noexcept {
  return fail(Errc::kLogDamaged,
              "LSN " + std::to_string(lsn) + " has changed since it was checked");
}

// Fills the batch with the records from *at on, and moves *at behind them.
Errc fill(LogSource *source, const DataFiles &files, Lsn to, Lsn *at, Batch *batch,
          ReplayCounts *counts) {
  TMH_ASSERT(*at < to);
  const std::uint64_t file_bytes = source->log().file_bytes;
  *at = place(*at, kRecordHeaderBytes, file_bytes);
  const Lsn from = *at;
  std::size_t got = 0;
  TMH_TRY(source->read(from, batch->bytes.get(), kBatchBytes, &got));
  while (*at < to && *at - from + kRecordHeaderBytes <= got) {
    RecordView record;
    record.at = batch->bytes.get() + (*at - from);
    std::memcpy(&record.header, record.at, sizeof record.header);
    if (!is_header_sane(record.header, *at, file_bytes - *at % file_bytes))
      return changed_meanwhile(*at);
    if (*at - from + record.header.length > got) break;
    if (!deal(record, files, batch, counts)) return changed_meanwhile(*at);
    *at = record.end();
    if (record.kind() == RecordKind::kFileEnd) {
      *at = (file_of(from, file_bytes) + 1) * file_bytes;
      break;
    }
    // The next one starts the next file.
    if (place(*at, kRecordHeaderBytes, file_bytes) != *at) break;
  }
  return *at > from ? Errc::kOk : changed_meanwhile(from);
}

}  // namespace

Errc replay(LogSource *source, const std::vector<LogSpan> &spans, const DataFiles &files,
            unsigned threads, const std::function<void(std::uint64_t)> &tick,
            ReplayCounts *counts) {
  TMH_ASSERT(source != nullptr && source->is_open() && counts != nullptr && tick != nullptr);
  Crew crew(files, threads > 1 ? threads : 0);
  for (const LogSpan &span : spans) {
    TMH_ASSERT(span.from < span.to);
    for (Lsn at = span.from; at < span.to;) {
      Batch &batch = crew.take();
      TMH_TRY(fill(source, files, span.to, &at, &batch, counts));
      crew.issue(&batch);
      tick(counts->log_bytes);
    }
  }
  crew.finish();
  return Errc::kOk;
}

}  // namespace tmh::storage
