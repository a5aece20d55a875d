// hierarchy/watch/slow_readers.cpp -- looking for slow readers, and what is done about them.
#include "hierarchy/watch/slow_readers.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "hierarchy/exchange/exchange.h"
#include "platform/assert.h"
#include "platform/failure.h"

namespace tmh::detail {

namespace {
// A look reads each participant's line: 10 times a second is nothing.
constexpr std::uint64_t kLookPeriodNs = 100'000'000;
constexpr std::uint64_t kVersionBytes = kPageBytes + sizeof(page::VersionHead);

// For each of `stamps`, which ascend, how many versions are younger and not home: about, for
// commits go on meanwhile. Looks at every slot that was ever used. Under the lock, in pieces: a
// collector cuts free slots off the store's files, and a load behind their end raises SIGBUS.
std::vector<std::uint64_t> versions_after(page::Engine &engine, const page::SharedState &memory,
                                          const std::vector<std::uint64_t> &stamps) {
  TMH_ASSERT(std::is_sorted(stamps.begin(), stamps.end()));
  // 10 to 30 us.
  constexpr page::Slot kSlotsAtOnce = 1024;
  std::vector<std::uint64_t> counts(stamps.size());
  for (page::Slot slot = 1;;) {
    const page::DomainLock::Held held = engine.lock_domain();
    const page::Slot capacity = memory.state().version_capacity.load(std::memory_order_relaxed);
    const page::Slot end = std::min(capacity, slot + kSlotsAtOnce);
    if (slot >= end) break;
    for (; slot < end; ++slot) {
      const std::uint64_t stamp = memory.version(slot).stamp.load(std::memory_order_relaxed);
      if (stamp == 0 || stamp == page::kReservedStamp || page::is_past(stamp)) continue;
      const auto not_older = std::lower_bound(stamps.begin(), stamps.end(), stamp);
      const auto older = static_cast<std::size_t>(not_older - stamps.begin());
      if (older > 0) ++counts[older - 1];
    }
  }
  // What is younger than a stamp is younger than those before it.
  for (std::size_t i = counts.size(); i > 1; --i) counts[i - 2] += counts[i - 1];
  return counts;
}
}  // namespace

void SlowReaders::use(const page::SharedState &memory, const DomainOptions &options,
                      const hierarchy::SlowReaderRule &rule,
                      const std::shared_ptr<SlowReaders> &self) {
  TMH_ASSERT(self.get() == this);
  memory_ = &memory;
  self_ = self;
  options_ = &options;
  rule_ = rule;
  const bool has_function = options.on_slow_reader != nullptr;
  is_watched_ = has_function || rule.what != SlowReader{};
  slow_after_ns_ = std::uint64_t{has_function ? options.slow_reader_ms : rule.after_ms} * 1'000'000;
  look_period_ns_ = std::min(kLookPeriodNs, slow_after_ns_);
}

// Of a record that its owner and its successors may change meanwhile: the instance's number is
// looked at before and after. A number never comes again.
bool SlowReaders::read(std::uint32_t slot, std::uint64_t now_ns, Reader *out) const {
  TMH_ASSERT(slot < storage::kParticipantsMax && out != nullptr);
  const storage::Participant &record = memory_->participant(slot);
  if (record.state.load(std::memory_order_acquire) != 1) return false;
  out->incarnation = record.incarnation.load(std::memory_order_acquire);
  out->instance = record.instance.load(std::memory_order_acquire);
  const std::uint64_t pin = record.pin.load(std::memory_order_acquire);
  const std::uint64_t begin_ns = record.begin_ns.load(std::memory_order_relaxed);
  out->info.slot = slot;
  out->info.pid = record.pid;
  char name[sizeof record.name + 1] = {};
  std::copy(std::begin(record.name), std::end(record.name), name);
  out->info.name = name;
  out->info.active = true;
  out->info.query = record.is_query.load(std::memory_order_relaxed) != 0;
  out->info.snapshot = pin;
  out->process = {record.pid, record.start_time, record.stack_start};
  out->age_ns = now_ns > begin_ns ? now_ns - begin_ns : 0;
  out->info.age_us = out->age_ns / 1000;
  platform::fence(std::memory_order_acquire);  // all that was read before these two
  return out->instance != 0 && pin != storage::kNoPin &&
         record.instance.load(std::memory_order_relaxed) == out->instance &&
         record.incarnation.load(std::memory_order_relaxed) == out->incarnation;
}

bool SlowReaders::was_told(const Reader &reader, std::uint64_t now_ns) const noexcept {
  return std::any_of(told_.begin(), told_.end(), [&](const Told &one) {
    return one.slot == reader.info.slot && one.instance == reader.instance &&
           now_ns - one.at_ns < slow_after_ns_;
  });
}

// REQUIRES that the domain stays open.
void SlowReaders::note_told(const Reader &reader, std::uint64_t now_ns) {
  TMH_ASSERT(is_looking_.load(std::memory_order_relaxed));
  for (Told &one : told_) {
    if (one.slot != reader.info.slot || one.instance != reader.instance) continue;
    one.at_ns = now_ns;
    return;
  }
  told_.push_back({reader.info.slot, reader.instance, now_ns});
  memory_->participant(threads_.runners.process().slot)
      .add_from_any_thread(storage::Count::kSlowReaders, 1);
}

// REQUIRES that the domain stays open.
void SlowReaders::forget_ended() {
  std::erase_if(told_, [this](const Told &one) {
    return memory_->participant(one.slot).instance.load(std::memory_order_relaxed) != one.instance;
  });
}

// REQUIRES that the domain stays open.
std::vector<SlowReaders::Reader> SlowReaders::find(std::uint64_t now_ns) {
  TMH_ASSERT(is_watched_ && is_looking_.load(std::memory_order_relaxed));
  forget_ended();
  const std::uint64_t live_bytes = memory_->versions_live() * kVersionBytes;
  std::vector<Reader> found;
  if (live_bytes == 0) return found;
  const bool is_much = live_bytes >= options_->slow_reader_bytes;
  for (std::uint32_t slot = 0; slot < memory_->participants_high(); ++slot) {
    if (memory_->participant(slot).pin.load(std::memory_order_relaxed) == storage::kNoPin) continue;
    Reader reader;
    if (!read(slot, now_ns, &reader) || was_told(reader, now_ns)) continue;
    if (reader.age_ns >= slow_after_ns_ || (is_much && reader.age_ns >= look_period_ns_))
      found.push_back(std::move(reader));
  }
  if (found.empty()) return found;
  std::sort(found.begin(), found.end(),
            [](const Reader &a, const Reader &b) { return a.info.snapshot < b.info.snapshot; });
  std::vector<std::uint64_t> snapshots;
  for (const Reader &reader : found) snapshots.push_back(reader.info.snapshot);
  snapshots.erase(std::unique(snapshots.begin(), snapshots.end()), snapshots.end());
  const std::vector<std::uint64_t> versions = versions_after(engine(), *memory_, snapshots);
  for (Reader &reader : found) {
    const auto at = std::lower_bound(snapshots.begin(), snapshots.end(), reader.info.snapshot);
    TMH_ASSERT(at != snapshots.end() && *at == reader.info.snapshot);
    reader.info.versions_held = versions[static_cast<std::size_t>(at - snapshots.begin())];
    reader.held_bytes = reader.info.versions_held * kVersionBytes;
  }
  std::erase_if(found, [this](const Reader &reader) {
    return reader.held_bytes == 0 ||
           (reader.age_ns < slow_after_ns_ && reader.held_bytes < options_->slow_reader_bytes);
  });
  for (const Reader &reader : found) note_told(reader, now_ns);
  return found;
}

void SlowReaders::look() noexcept {
  if (platform::coarse_ns() < next_look_ns_.load(std::memory_order_relaxed)) return;
  // Before the lock, too: a forked child may have inherited it locked.
  if (threads_.open.usable() != Errc::kOk) return;
  // Also the program's function in this thread.
  if (is_looking_.exchange(true, std::memory_order_acquire)) return;
  // Behind it: another thread may have looked meanwhile.
  const std::uint64_t now_ns = platform::coarse_ns();
  if (now_ns >= next_look_ns_.load(std::memory_order_relaxed)) look_at(now_ns);
  is_looking_.store(false, std::memory_order_release);
}

void SlowReaders::look_at(std::uint64_t now_ns) noexcept {
  next_look_ns_.store(now_ns + look_period_ns_, std::memory_order_relaxed);
  std::vector<Reader> found;
  try {
    const auto open = threads_.open.keep_open();
    if (threads_.open.usable() == Errc::kOk) found = find(now_ns);
  } catch (const std::bad_alloc &) {  // the next look may find memory
    found.clear();
  }
  for (const Reader &reader : found) {
    switch (ask_program(reader)) {
      case SlowReader::kEndProcess:
        if (!end_process(reader)) ask_to_end(reader);
        break;
      case SlowReader::kAskToEnd:
        ask_to_end(reader);
        break;
      default:
        break;
    }
  }
}

SlowReader SlowReaders::ask_program(const Reader &reader) const noexcept {
  if (options_->on_slow_reader == nullptr) {
    report(reader);
    return rule_.what;
  }
  try {
    return options_->on_slow_reader(reader.held_bytes, static_cast<double>(reader.age_ns) / 1e9,
                                    reader.info);
  } catch (...) {
    return SlowReader::kReport;
  }
}

void SlowReaders::report(const Reader &reader) const noexcept {
  TMH_ASSERT(rule_.what != SlowReader{});
  const char *what = "";
  if (rule_.what == SlowReader::kAskToEnd) what = "; it is asked to end";
  if (rule_.what == SlowReader::kEndProcess) what = "; its process is ended";
  char text[512];
  const int length = std::snprintf(
      text, sizeof text,
      "tmh: %.200s: slow reader: process %d (%.40s), %s for %.1f s, holds %llu KiB%s\n",
      memory_->folder().c_str(), reader.info.pid, reader.info.name.c_str(),
      reader.info.query ? "a query" : "an update", static_cast<double>(reader.age_ns) / 1e9,
      static_cast<unsigned long long>(reader.held_bytes / 1024), what);
  const auto bytes = std::min(sizeof text - 1, static_cast<std::size_t>(std::max(length, 0)));
  if (::write(STDERR_FILENO, text, bytes) < 0) return;  // nothing can be done about it here
}

// The domain may have been closed by the program's function.
void SlowReaders::ask_to_end(const Reader &reader) noexcept {
  if (threads_.open.usable() != Errc::kOk) return;
  const auto open = threads_.open.keep_open();
  if (threads_.open.usable() != Errc::kOk) return;
  (void)hierarchy::ask_to_abort(engine(), reader.info.slot, reader.incarnation, reader.instance);
}

bool SlowReaders::end_process(const Reader &reader) noexcept {
  TMH_ASSERT(reader.process.pid > 0);
  if (reader.process.pid == ::getpid()) return false;
  if (threads_.open.usable() != Errc::kOk) return true;
  const auto open = threads_.open.keep_open();
  if (threads_.open.usable() != Errc::kOk) return true;
  const storage::Participant &record = memory_->participant(reader.info.slot);
  const bool still_runs =
      record.incarnation.load(std::memory_order_acquire) == reader.incarnation &&
      record.instance.load(std::memory_order_acquire) == reader.instance;
  return !still_runs || platform::kill_exactly(reader.process);
}

}  // namespace tmh::detail
