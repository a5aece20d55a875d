// hierarchy/transaction/site_impl.cpp -- what a site learns, what it counts, its report.
// Shape:     totals in shards, of which most threads have one to themselves, so that an add is a
//            plain load and store.
#include "hierarchy/transaction/site_impl.h"

#include <bit>
#include <mutex>
#include <set>
#include <utility>

#include <tmh/lab.hpp>

#include "hierarchy/transaction/open_instance.h"
#include "platform/assert.h"
#include "platform/process_object.h"
#include "platform/ticks.h"

namespace tmh::detail {

namespace {

// Shard numbers below kOwnShards belong to one thread at a time.
std::atomic<std::uint32_t> free_shards{~0u};
static_assert(kOwnShards == 32);
struct ShardOfThread {
  std::size_t number = kOwnShards;
  ShardOfThread() noexcept {
    std::uint32_t seen = free_shards.load(std::memory_order_relaxed);
    while (seen != 0) {
      const int bit = std::countr_zero(seen);
      // acquire and release: the next owner goes on from the totals of the one before.
      if (!free_shards.compare_exchange_weak(seen, seen & ~(1u << bit), std::memory_order_acquire))
        continue;
      number = static_cast<std::size_t>(bit);
      return;
    }
  }
  ~ShardOfThread() {
    TMH_ASSERT(number >= kOwnShards ||
               (free_shards.load(std::memory_order_relaxed) & (1u << number)) == 0);
    if (number < kOwnShards) free_shards.fetch_or(1u << number, std::memory_order_release);
    number = current().shard = kOwnShards;
  }
};
thread_local ShardOfThread shard_of_thread;

struct SiteNames {
  std::mutex mutex;
  std::set<std::string> names;
};

}  // namespace

const char *keep_site_name(const std::string &name) {
  auto &kept = platform::ProcessObject<SiteNames>::here();
  const std::scoped_lock guard(kept.mutex);
  return kept.names.insert(name).first->c_str();
}

void unlearn(SiteImpl &site, Attempts::Kind kind, line::LineContextV1 &context) noexcept {
  const hierarchy::Learned learned = site.learned(kind);
  if (learned.own.penalty == 0 && learned.refused.penalty == 0) return;
  site.add(SiteCount::kDeEscalations, 1);
  context.add(line::LineCount::kDeEscalations, 1);
  site.learn(kind, {hierarchy::after_line_commit(learned.own),
                    hierarchy::after_line_commit(learned.refused)});
}

SiteImpl::SiteImpl(std::shared_ptr<DomainImpl> domain, std::string name, Escalation escalation,
                   EscalationRule own_rule, Isolation isolation)
    : domain_(std::move(domain)),
      name_(std::move(name)),
      kept_name_(keep_site_name(name_)),
      escalation_(escalation),
      rule_(own_rule),
      isolation_(isolation),
      line_kinds_{domain_->line_mode().kind(BodyKind::kPlain),
                  domain_->line_mode().kind(BodyKind::kInstrumented)},
      has_seats_(may_have_seats()) {
  abort_open_at_lines();
  if (storage::LatencyTable &table = domain_->latency_table(); table.is_open())
    latency_.use(&table, table.site(name_));
}

bool SiteImpl::may_have_seats() const noexcept {
  return line_kind(BodyKind::kInstrumented) == LineKind::kSoftware &&
         domain_->durable() == nullptr && domain_->capacity() == nullptr &&
         domain_->settings().latency != lab::kEachAttempt && rule_ == nullptr &&
         escalation_.kind != EscalationKind::kAlways &&
         escalation_.kind != EscalationKind::kAfterWasted;
}

void SiteImpl::take_seat() noexcept {
  static std::atomic<std::uint64_t> sitters{kSitsNowhere};
  TMH_ASSERT(current().lines.thread != nullptr && current().lines.domain == domain_->lines());
  if (!has_seats_ || current().shard >= kOwnShards) return;
  if (current().sitter == kSitsNowhere)
    current().sitter = sitters.fetch_add(1, std::memory_order_relaxed) + 1;
  shards_[current().shard].seat = {current().sitter, current().lines.thread};
}

std::uint64_t SiteImpl::add_line_ticks(const observe::Timed &timed) noexcept {
  TMH_ASSERT(timed.count != 0);
  const std::uint64_t now = platform::ticks();
  const std::uint64_t took = now > timed.begin_ticks ? now - timed.begin_ticks : 0;
  add(SiteCount::kLineTicks, took * timed.count);
  return took;
}

void SiteImpl::committed_at_lines(const observe::Timed &timed, LatencyLevel level) noexcept {
  const std::uint64_t took = add_line_ticks(timed);
  latency_.record(level, AbortCause::kNone, platform::ns_of_ticks(took), timed.count);
}

void SiteImpl::add_without_shard(SiteCount which, std::uint64_t amount) noexcept {
  TMH_ASSERT(which < SiteCount::kEnd && current().shard >= kOwnShards);
  if (current().shard == kNoShardYet) {
    current().shard = shard_of_thread.number;
    if (current().shard < kOwnShards) return add(which, amount);
  }
  shards_[kOwnShards].totals[static_cast<std::size_t>(which)].fetch_add(amount,
                                                                        std::memory_order_relaxed);
}

std::uint64_t SiteImpl::total(SiteCount which) const noexcept {
  TMH_ASSERT(which < SiteCount::kEnd);
  std::uint64_t sum = 0;
  for (const SiteShard &shard : shards_)
    sum += shard.totals[static_cast<std::size_t>(which)].load(std::memory_order_relaxed);
  return sum;
}

SiteReport SiteImpl::report() const {
  SiteReport report;
  report.name = name_;
  report.escalation = escalation_;
  report.isolation = isolation_ != Isolation{} ? isolation_ : domain_->runners().policy().isolation;
  report.line_commits = total(SiteCount::kLineCommits) + total(SiteCount::kHardwareCommits);
  report.unlimited_commits = total(SiteCount::kUnlimitedCommits);
  report.page_commits = total(SiteCount::kPageCommits);
  report.line_aborts = total(SiteCount::kLineAborts);
  report.page_aborts = total(SiteCount::kPageAborts);
  report.escalations_capacity = total(SiteCount::kForCapacity);
  report.escalations_attempts = total(SiteCount::kForAttempts);
  report.de_escalations = total(SiteCount::kDeEscalations);
  report.releases = total(SiteCount::kReleases);
  report.recalls = total(SiteCount::kRecalls);
  report.line_ns = platform::ns_of_ticks(total(SiteCount::kLineTicks));
  report.page_ns = platform::ns_of_ticks(total(SiteCount::kPageTicks));
  report.hardware_commits = total(SiteCount::kHardwareCommits);
  report.hardware_conflicts = total(SiteCount::kHardwareConflicts);
  report.hardware_capacity = total(SiteCount::kHardwareCapacity);
  report.hardware_zero = total(SiteCount::kHardwareZero);
  report.hardware_explicit = total(SiteCount::kHardwareExplicit);
  report.hardware_gate = total(SiteCount::kHardwareGate);
  report.hardware_other = total(SiteCount::kHardwareOther);
  report.hardware_findings = total(SiteCount::kHardwareFindings);
  report.hardware_pages = total(SiteCount::kHardwarePages);
  for (std::size_t i = 0; i < kAbortCauseCount; ++i)
    report.line_aborts_by_cause[i] = total(count_of(static_cast<AbortCause>(i)));
  for (std::size_t i = 0; i < kNeedCount; ++i) {
    report.escalations_by_need[i] = total(count_of(static_cast<Need>(i)));
    report.escalations_needs_pages += report.escalations_by_need[i];
  }
  return report;
}

}  // namespace tmh::detail
