// compat/libitm/hardware_method.cpp -- attempts in RTM, their end, and line words in them.
#include "compat/libitm/hardware_method.h"

#include "compat/libitm/abi.h"
#include "levels/line/rtm.h"

namespace tmh::itm {

namespace {

// A transaction that aborts so often runs in software; one that does not fit, or that a system call
// has ended, at once.
constexpr std::uint32_t kAttempts = 4;

}  // namespace

std::uint32_t HardwareMethod::begin(std::uint32_t properties) {
  TMH_ASSERT(lines_.is_usable() && (properties & kHasInstrumented) != 0);
  TMH_ASSERT(stored_words_.empty());
  const bool may_be_plain = (properties & kHasUninstrumented) != 0;
  lines_.level_1.shut();
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    if (process_.gate.is_anyone_alone()) process_.gate.wait_until_nobody_is_alone();
    const bool is_beside = !may_be_plain || process_.gate.has_software();
    const std::uint32_t status = line::rtm_begin();
    if (status == line::kRtmStarted) {
      // Both words are in the read set from here on: who changes them aborts this transaction.
      if (process_.gate.is_anyone_alone()) line::rtm_abort(line::AbortCode::kExclusiveHeld);
      if (!is_beside && process_.gate.has_software()) line::rtm_abort(line::AbortCode::kUpperRuns);
      is_beside_ = is_beside;
      return is_beside ? kRunInstrumented : kRunUninstrumented;
    }
    auto &totals = process_.totals;
    const bool is_explicit = (status & line::kStatusExplicit) != 0;
    ((status & line::kStatusConflict) != 0   ? totals.hardware_conflicts
     : (status & line::kStatusCapacity) != 0 ? totals.hardware_capacity
                                             : totals.hardware_other)
        .fetch_add(1, std::memory_order_relaxed);
    if (is_explicit ? (status >> 24) == static_cast<std::uint32_t>(line::AbortCode::kNeedsPages)
                    : (status & line::kStatusRetry) == 0)
      return 0;
  }
  return 0;
}

bool HardwareMethod::commit() {
  std::uint64_t stamp = 0;
  std::atomic<std::uint64_t> &clock = process_.memory.state().clock;
  if (!stored_words_.empty()) {
    // As a software commit, but at one instant. relaxed, all: the processor publishes them at once.
    stamp = clock.load(std::memory_order_relaxed) + 1;
    clock.store(stamp, std::memory_order_relaxed);
    for (line::LineWord *const word : stored_words_) word->store(stamp, std::memory_order_relaxed);
    stored_words_.clear();
  }
  lines_.level_1.context().add(line::LineCount::kHardwareCommits, 1);
  line::rtm_end();
  if (stamp != 0) {
    process_.gate.wait_for_readers(lines_.slot(), stamp);
  } else if (is_beside_) {
    // acquire: what it has read was committed before
    process_.gate.wait_for_older(lines_.slot(), clock.load(std::memory_order_acquire));
  }
  return true;
}

void HardwareMethod::abort_hardware(line::AbortCode code) noexcept { line::rtm_abort(code); }

bool HardwareMethod::go_alone(AloneMethod &) noexcept {
  line::rtm_abort(line::AbortCode::kNeedsPages);
  return false;
}

void HardwareMethod::open(std::uint32_t properties) noexcept {
  const bool has_no_abort = (properties & kHasNoAbort) != 0;
  const bool has_plain = (properties & kHasUninstrumented) != 0;
  if (!has_no_abort || (!is_beside_ && !has_plain)) line::rtm_abort(line::AbortCode::kNeedsPages);
}

// A line that a commit in software has locked is half written.
void HardwareMethod::look_at_words(std::uintptr_t at, std::size_t bytes, bool is_store) {
  if (!is_beside_ || bytes == 0) return;
  for (std::uintptr_t line = at / kLineBytes; line <= (at + bytes - 1) / kLineBytes; ++line) {
    line::LineWord *const word = process_.memory.segment(0).word_at(line * kLineBytes);
    if (line::is_locked(word->load(std::memory_order_relaxed)))
      line::rtm_abort(line::AbortCode::kUpperHolds);
    if (is_store && (stored_words_.empty() || stored_words_.back() != word))
      stored_words_.push_back(word);
  }
}

}  // namespace tmh::itm
