// hierarchy/durability/line_log.cpp -- waiting until level 1's commits are decided; their records.
#include "hierarchy/durability/line_log.h"

#include <immintrin.h>

#include <new>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/patience.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::detail {

namespace {
// From the stamp to home a commit of a few lines takes 0.2 to 5 us. What takes longer was
// preempted, stopped or killed.
constexpr std::uint64_t kSpinNs = 20'000, kSuspectNs = 1'000'000;

bool concerns(std::uint64_t in_flight, std::uint64_t line) noexcept {
  return in_flight != 0 && (in_flight == line::kStamping || in_flight <= line);
}
}  // namespace

std::uint64_t LineLog::clock() const noexcept {
  return lines_.state().clock.load(std::memory_order_seq_cst);
}

bool LineLog::is_owner_gone(const line::LineContextV1 &context) const noexcept {
  if (releaser_ == nullptr) return true;
  // acquire: pairs with take_context()
  const line::Owner owner = context.owner.load(std::memory_order_acquire);
  // just recovered, or ended: the word is about to say so
  if (owner == line::Owner{}) return false;
  const storage::Participant &record = memory_.participant(line::slot_of(owner));
  return record.incarnation.load(std::memory_order_relaxed) != line::incarnation_of(owner) ||
         record.state.load(std::memory_order_acquire) == 0 || record.is_gone();
}

void LineLog::settle(const page::LogLock::Held &held, std::uint64_t line) noexcept {
  TMH_ASSERT(held.is_valid());
  for (std::uint32_t i = 0; i < lines_.contexts_high(); ++i) (void)settle_context(i, line);
}

// Usually one load. A living instance goes on by itself; a dead one's context is recovered, or,
// where its writes must wait for a participant that knows their segment, at least decided.
bool LineLog::settle_context(std::uint32_t number, std::uint64_t line) noexcept {
  TMH_ASSERT(number < line::kContextsMax);
  line::LineContextV1 &context = lines_.context(number);
  std::uint64_t began_ns = 0;
  bool suspected = false;
  platform::Patience patience;
  // seq_cst: after the clock; pairs with the store before line-stamp
  while (concerns(context.in_flight.load(std::memory_order_seq_cst), line)) {
    if (releaser_ == nullptr) {
      line::settle_redo(context);
      return false;
    }
    _mm_pause();
    const std::uint64_t now = platform::monotonic_ns();
    if (began_ns == 0) began_ns = now;
    if (now - began_ns < kSpinNs) continue;
    patience.pause(now - began_ns);
    if (now - began_ns < kSuspectNs || !is_owner_gone(context)) continue;
    if (suspected) return false;  // recovered as far as its segments are known here
    const line::Owner owner = context.owner.load(std::memory_order_acquire);
    if (owner != line::Owner{})
      releaser_->suspect(line::slot_of(owner), line::incarnation_of(owner));
    suspected = true;
  }
  return true;
}

Errc LineLog::gather(const page::LogLock::Held &held, std::uint64_t after, std::uint64_t up_to,
                     std::vector<page::GatheredCommit> *commits) noexcept try {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(commits != nullptr);
  // The caller has the log's lock, but a thread with views of its own has it in a mapping of its
  // own, which ThreadSanitizer takes for another lock. So nothing is kept here; a write of the log
  // costs more than the allocation by far.
  std::vector<line::RedoRecord> records;
  TMH_TRY(line::gather_redo(lines_, after, up_to, &records));
  commits->clear();
  commits->reserve(records.size());
  for (const line::RedoRecord &record : records)
    commits->push_back({record.header.stamp, record.header.time_ns, record.header.reserved_bytes,
                        record.deltas, record.header.bytes - sizeof record.header});
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the redo log's records of level 1");
}

bool LineLog::is_home(std::uint64_t line) noexcept {
  bool is_home = true;
  for (std::uint32_t i = 0; i < lines_.contexts_high(); ++i)
    is_home = settle_context(i, line) && is_home;
  return is_home;
}

}  // namespace tmh::detail
