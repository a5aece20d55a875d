// storage/log/log_writer.cpp -- placing records, writing blocks.
#include "storage/log/log_writer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/log/log_sink_maker.h"

namespace tmh::storage {

using observe::Step;
using observe::step;

namespace {
// One write of 1 MiB costs little more per byte than larger ones; a record, the block before it and
// padding must fit.
constexpr std::uint64_t kBufferBytes = 1u << 20;
static_assert(kBufferBytes >= kRecordBytesMax + 3 * kLogBlockBytes);

Lsn block_of(Lsn lsn) noexcept { return lsn & ~(kLogBlockBytes - 1); }
}  // namespace

// Where one record ends the difference that begins the next did not fit: two neighbours hold more
// than one can.
void RecordPlan::reserve(std::uint64_t delta_bytes) {
  sizes_.reserve(2 * delta_bytes / kRecordBytesMax + 2);
}

bool RecordPlan::add(std::uint64_t delta_bytes) {
  TMH_ASSERT(delta_bytes % 8 == 0 && delta_bytes <= kDeltaBytesMax);
  const bool is_new = sizes_.empty() || sizes_.back() + delta_bytes > kRecordBytesMax;
  if (is_new) sizes_.push_back(sizeof(RecordHeaderV1));
  sizes_.back() += static_cast<std::uint32_t>(delta_bytes);
  return is_new && sizes_.size() > 1;
}

std::uint64_t RecordPlan::total_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const std::uint32_t size : sizes_) sum += size;
  return sum;
}

Lsn RecordPlan::end_behind(Lsn end, std::uint64_t file_bytes) const noexcept {
  for (const std::uint32_t size : sizes_) end = place(end, size, file_bytes) + size;
  return end;
}

LogWriter::LogWriter()
    : buffer_(static_cast<std::byte *>(std::aligned_alloc(kLogBlockBytes, kBufferBytes)),
              &std::free) {
  if (buffer_ == nullptr) throw std::bad_alloc();
}

void LogWriter::attach(const std::string &folder, const std::uint64_t (&domain_id)[2],
                       LogState *state, std::byte *tails) noexcept {
  TMH_ASSERT(state != nullptr && tails != nullptr);
  folder_ = folder;
  std::copy(std::begin(domain_id), std::end(domain_id), std::begin(domain_id_));
  state_ = state;
  tails_ = tails;
  sink_.reset();
}

void LogWriter::start() noexcept {
  TMH_ASSERT(state_ != nullptr && tails_ != nullptr);
  const std::uint64_t flushes = state_->flushes.load(std::memory_order_acquire);
  is_own_trouble_ = false;
  start_ = end_ = state_->point[flushes & 1].lsn;
  block_ = block_of(end_);
  std::memcpy(buffer_.get(), tails_ + (flushes & 1) * kLogBlockBytes, end_ - block_);
}

RecordHeaderV1 LogWriter::placed(RecordHeaderV1 fields) const noexcept {
  fields.lsn = end_;
  fields.generation = state_->generation;
  fields.durable_before = start_;
  return fields;
}

// Moves to where `bytes` fit. A gap at the end of a file, of 64 bytes or more, gets a record that
// says so.
Errc LogWriter::make_place(std::size_t bytes) noexcept {
  TMH_ASSERT(bytes >= kRecordHeaderBytes && bytes <= kRecordBytesMax);
  const Lsn lsn = place(end_, bytes, state_->file_bytes);
  if (lsn != end_) {
    const std::uint64_t rest =
        (state_->file_bytes - end_ % state_->file_bytes) % state_->file_bytes;
    if (rest >= kFileEndRecordBytes) {
      if (end_ - block_ + kFileEndRecordBytes > kBufferBytes) {
        TMH_TRY(write());
      }
      RecordHeaderV1 fields{};
      fields.stamp = state_->point[state_->flushes.load(std::memory_order_relaxed) & 1].stamp();
      end_ += write_file_end_record(cursor(), placed(fields));
    }
    TMH_TRY(write());
    end_ = lsn;
    block_ = block_of(lsn);
  }
  return end_ - block_ + bytes > kBufferBytes ? write() : Errc::kOk;
}

Errc LogWriter::append(RecordBuilder *record, RecordHeaderV1 fields) noexcept {
  TMH_ASSERT(state_ != nullptr && record != nullptr);
  TMH_TRY(make_place(record->bytes()));
  const std::size_t bytes = record->finish(placed(fields));
  TMH_ASSERT(end_ - block_ + bytes <= kBufferBytes);
  std::memcpy(cursor(), record->buffer(), bytes);
  end_ += bytes;
  return Errc::kOk;
}

Errc LogWriter::append_open(std::uint64_t stamp, std::uint64_t time_ns,
                            const OpenPayloadV1 &payload) noexcept {
  TMH_ASSERT(state_ != nullptr && payload.reserved_zero == 0);
  TMH_TRY(make_place(kOpenRecordBytes));
  RecordHeaderV1 fields{};
  fields.stamp = stamp;
  fields.time_ns = time_ns;
  end_ += write_open_record(cursor(), placed(fields), payload);
  return Errc::kOk;
}

// The log's files have their size from the first participant on.
Errc LogWriter::find_place() noexcept try {
  if (sink_ == nullptr)
    sink_ = make_log_sink(folder_, {{domain_id_[0], domain_id_[1]}, state_->file_bytes});
  const Errc error = sink_->find_place(block_);
  if (error != Errc::kOk) is_own_trouble_ = sink_->is_own_trouble();
  return error;
} catch (const std::bad_alloc &) {
  is_own_trouble_ = true;
  return platform::fail_for_memory("the log's sink");
}

// Also keeps the last, partly filled block as the buffer's first.
Errc LogWriter::write() noexcept {
  TMH_ASSERT(end_ >= block_ && block_ % kLogBlockBytes == 0);
  const std::uint64_t bytes = end_ - block_;
  if (bytes == 0) return Errc::kOk;
  TMH_TRY(find_place());
  const std::uint64_t padded = (bytes + kLogBlockBytes - 1) & ~(kLogBlockBytes - 1);
  TMH_ASSERT(padded <= kBufferBytes);
  std::memset(buffer_.get() + bytes, 0, padded - bytes);
  step(Step::kLogWrite);
  const std::uint64_t began_ns = platform::monotonic_ns();
  if (const Errc error = sink_->write_durable(block_, buffer_.get(), padded); error != Errc::kOk) {
    is_own_trouble_ = sink_->is_own_trouble();
    return error;
  }
  step(Step::kLogWritten);
  if (times_ != nullptr)
    times_->record(LatencyLevel::kLog, AbortCause::kNone, platform::monotonic_ns() - began_ns, 1);
  const Lsn last = block_of(end_);
  std::memmove(buffer_.get(), buffer_.get() + (last - block_), end_ - last);
  block_ = last;
  return Errc::kOk;
}

// The totals as they are once `flushes` says so.
void LogWriter::count(std::uint64_t flushes, std::uint64_t commits) noexcept {
  const LogTotals &before = state_->totals[(flushes - 1) & 1];
  LogTotals &after = state_->totals[flushes & 1];
  const auto store = [](std::atomic<std::uint64_t> *to, const std::atomic<std::uint64_t> &from,
                        std::uint64_t more) {
    // `flushes` releases it
    to->store(from.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  };
  store(&after.bytes, before.bytes, end_ - start_);
  store(&after.commits, before.commits, commits);
  store(&after.empty_flushes, before.empty_flushes, end_ == start_ ? 1 : 0);
}

void LogWriter::publish(FlushPoint point, std::uint64_t commits,
                        std::uint64_t reserved_bytes) noexcept {
  const std::uint64_t flushes = state_->flushes.load(std::memory_order_relaxed) + 1;
  TMH_ASSERT(start_ <= end_ && end_ - block_ <= kLogBlockBytes);
  point.lsn = end_;
  state_->point[flushes & 1] = point;
  state_->batch_bytes[flushes & 1] = reserved_bytes;
  std::memcpy(tails_ + (flushes & 1) * kLogBlockBytes, buffer_.get(), end_ - block_);
  count(flushes, commits);
  step(Step::kLogPointFilled);
  // The heir of the lock sees point and tail.
  state_->flushes.store(flushes, std::memory_order_release);
  step(Step::kLogPointCounted);
  const std::uint64_t count = state_->passed_count;
  constexpr std::uint64_t kPassed = sizeof state_->passed / sizeof state_->passed[0];
  if (count == 0 || end_ - state_->passed[(count - 1) % kPassed].lsn >= state_->file_bytes / 8) {
    FlushPoint &passed = state_->passed[count % kPassed];
    passed.clock = ~0ull;  // half an entry, left by a death, is no point that a checkpoint takes
    std::atomic_signal_fence(std::memory_order_seq_cst);
    passed.position = point.position;
    passed.lsn = end_;
    passed.line = point.line;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    passed.clock = point.clock;
    state_->passed_count = count + 1;
  }
  announce();
  step(Step::kLogPublished);
  start_ = end_;
}

void LogWriter::announce() noexcept {
  const FlushPoint &point = state_->point[state_->flushes.load(std::memory_order_relaxed) & 1];
  // The ring's entries have been read.
  state_->durable_position.store(point.position, std::memory_order_release);
  state_->durable_lsn.store(point.lsn, std::memory_order_relaxed);
  state_->durable_line.store(point.line, std::memory_order_release);
  // Homes and acknowledgements may follow.
  state_->durable_clock.store(point.clock, std::memory_order_release);
}

}  // namespace tmh::storage
