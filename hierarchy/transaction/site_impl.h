// hierarchy/transaction/site_impl.h -- one site in one process: its policy, what it has learned,
// its totals.
// Sharing:   threads: totals are sharded by thread, so that counting costs no shared line;
//            `learned` is read by all and seldom written.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>

#include <tmh/site.hpp>

#include "hierarchy/domain/domain.h"
#include "hierarchy/transaction/beyond_capacity.h"
#include "hierarchy/transaction/escalation.h"
#include "observe/counting.h"
#include "observe/latency_sampler.h"

namespace tmh::detail {

enum class SiteCount : std::uint32_t {
  kLineCommits,       // in software
  kUnlimitedCommits,  // of these, without the capacity model
  kPageCommits,
  kLineAborts,
  kPageAborts,
  kForCapacity,
  kForAttempts,
  kDeEscalations,
  kReleases,
  kRecalls,
  kLineTicks,
  kPageTicks,
  kHardwareCommits,
  kHardwareConflicts,
  kHardwareCapacity,
  kHardwareZero,
  kHardwareExplicit,
  kHardwareGate,
  kHardwareOther,
  kHardwareFindings,
  kHardwarePages,
  kCauses,  // of attempts that software lines aborted, from here on by AbortCause
  kForNeeds = kCauses + kAbortCauseCount,  // instances that went up, from here on by Need
  kEnd = kForNeeds + kNeedCount
};
[[nodiscard]] constexpr SiteCount count_of(AbortCause cause) noexcept {
  return static_cast<SiteCount>(static_cast<std::uint32_t>(SiteCount::kCauses) +
                                static_cast<std::uint32_t>(cause));
}
[[nodiscard]] constexpr SiteCount count_of(Need need) noexcept {
  return static_cast<SiteCount>(static_cast<std::uint32_t>(SiteCount::kForNeeds) +
                                static_cast<std::uint32_t>(need));
}

// For messages: the name of a site, kept for good.
[[nodiscard]] const char *keep_site_name(const std::string &name);

// What a thread keeps at a site: shared by those that come too late for one of their own.
struct alignas(64) SiteShard {
  Seat seat;  // of the thread whose own it is
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(SiteCount::kEnd)> totals{};

  // Of one's own.
  void add(SiteCount which, std::uint64_t amount) noexcept {
    if constexpr (!observe::kCounts) return;
    auto &cell = totals[static_cast<std::size_t>(which)];
    // single writer
    cell.store(cell.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
};

class SiteImpl {
 public:
  // own_rule: null, but with EscalationKind::kOwn. isolation: unset: the domain's.
  SiteImpl(std::shared_ptr<DomainImpl> domain, std::string name, Escalation escalation,
           EscalationRule own_rule, Isolation isolation);

  [[nodiscard]] DomainImpl &domain() const noexcept { return *domain_; }
  [[nodiscard]] const std::string &name() const noexcept { return name_; }
  [[nodiscard]] const char *kept_name() const noexcept { return kept_name_; }
  // Of its updates; unset: the domain's.
  [[nodiscard]] Isolation isolation() const noexcept { return isolation_; }
  // What runs its instances with such a body at level 1.
  [[nodiscard]] LineKind line_kind(BodyKind body) const noexcept {
    return line_kinds_[static_cast<std::size_t>(body)];
  }
  [[nodiscard]] const Escalation &escalation() const noexcept { return escalation_; }
  // Of the program; null: it has none.
  [[nodiscard]] EscalationRule rule() const noexcept { return rule_; }

  // The calling thread's shard, if it has a seat there; else null.
  [[nodiscard]] SiteShard *seat_here() noexcept {
    const std::size_t shard = current().shard;
    if (shard >= kOwnShards || shards_[shard].seat.sitter != current().sitter) return nullptr;
    return &shards_[shard];
  }
  // Gives the calling thread a seat, if it has a shard of its own and nothing but what the site has
  // learned keeps instrumented instances from beginning on software lines. REQUIRES: the thread's
  // instance runs at level 1 of the domain.
  void take_seat() noexcept;

  // What it has learned, of its updates and of its queries: a large query is no evidence about a
  // small update, nor the other way round. Races lose a step of learning, nothing else: relaxed.
  [[nodiscard]] hierarchy::Learned learned(Attempts::Kind kind) const noexcept {
    return std::bit_cast<hierarchy::Learned>(learned_of(kind).load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool has_learned(Attempts::Kind kind) const noexcept {
    return learned_of(kind).load(std::memory_order_relaxed) != 0;
  }
  void learn(Attempts::Kind kind, hierarchy::Learned state) noexcept {
    const auto word = std::bit_cast<std::uint64_t>(state);
    auto &learned = learned_[static_cast<std::size_t>(kind)];
    if (learned.load(std::memory_order_relaxed) != word)
      learned.store(word, std::memory_order_relaxed);
  }

  // Do its updates stay at level 1 when they exceed the capacity model? That of hardware cannot be
  // left out.
  [[nodiscard]] bool runs_unlimited(Attempts::Kind kind, BodyKind body) const noexcept {
    return kind == Attempts::Kind::kUpdate && escalation_.kind == EscalationKind::kAdaptive &&
           line_kind(body) == LineKind::kSoftware && domain_->capacity() != nullptr;
  }
  [[nodiscard]] hierarchy::BeyondCapacity &beyond() noexcept { return beyond_; }

  // Does the next update beside software lines begin in RTM? After one that RTM could not run so
  // many do not, as SiteState says. Races lose a step of learning: relaxed.
  [[nodiscard]] bool begins_in_rtm() noexcept {
    auto learned = std::bit_cast<hierarchy::SiteState>(rtm_.load(std::memory_order_relaxed));
    if (learned.page_runs == 0) return true;
    --learned.page_runs;
    rtm_.store(std::bit_cast<std::uint32_t>(learned), std::memory_order_relaxed);
    return false;
  }
  void learn_rtm(bool has_run) noexcept {
    const std::uint32_t before = rtm_.load(std::memory_order_relaxed);
    const auto learned = std::bit_cast<hierarchy::SiteState>(before);
    const auto after = std::bit_cast<std::uint32_t>(has_run ? hierarchy::after_line_commit(learned)
                                                            : hierarchy::after_escalation(learned));
    if (after != before) rtm_.store(after, std::memory_order_relaxed);
  }

  void add(SiteCount which, std::uint64_t amount) noexcept {
    if constexpr (!observe::kCounts) return;
    const std::size_t shard = current().shard;
    if (shard >= kOwnShards) [[unlikely]]
      return add_without_shard(which, amount);
    shards_[shard].add(which, amount);
  }
  // May the next instance try a thread's view? A body that allocates ends its attempt there; after
  // that so many instances do not try.
  [[nodiscard]] bool wants_thread_view(BodyKind body) noexcept {
    if (body == BodyKind::kPlain) return false;
    const std::uint32_t ahead = plain_ahead_.load(std::memory_order_relaxed);
    if (ahead != 0) plain_ahead_.store(ahead - 1, std::memory_order_relaxed);
    return ahead == 0;
  }
  void needed_process_view() noexcept {
    plain_ahead_.store(kPlainAhead, std::memory_order_relaxed);
  }
  [[nodiscard]] SiteReport report() const;
  [[nodiscard]] std::uint64_t total(SiteCount which) const noexcept;
  [[nodiscard]] storage::LatencySite &latency() noexcept { return latency_; }
  // An attempt at level 1 has ended; the first returns what it took. REQUIRE: it is timed.
  std::uint64_t add_line_ticks(const observe::Timed &timed) noexcept;
  void committed_at_lines(const observe::Timed &timed, LatencyLevel level) noexcept;
  void record(const observe::Timed &timed, LatencyLevel level, AbortCause outcome) noexcept {
    if (timed.count != 0) latency_.record(level, outcome, observe::timed_ns(timed), timed.count);
  }

 private:
  [[nodiscard]] const std::atomic<std::uint64_t> &learned_of(Attempts::Kind kind) const noexcept {
    return learned_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] bool may_have_seats() const noexcept;
  void add_without_shard(SiteCount which, std::uint64_t amount) noexcept;
  static constexpr std::uint32_t kPlainAhead = 32;  // a lost attempt then costs 3 % of an instance
  static constexpr std::size_t kShards = kOwnShards + 1;
  const std::shared_ptr<DomainImpl> domain_;
  const std::string name_;
  const char *const kept_name_;
  const Escalation escalation_;
  const EscalationRule rule_;
  const Isolation isolation_;
  const std::array<LineKind, 2> line_kinds_;  // by BodyKind
  const bool has_seats_;
  alignas(64) std::array<std::atomic<std::uint64_t>, 2> learned_{};  // by Attempts::Kind
  hierarchy::BeyondCapacity beyond_;
  std::atomic<std::uint32_t> rtm_{0};  // a SiteState
  std::atomic<std::uint32_t> plain_ahead_{
      0};  // instances that are not tried in a thread's view, see wants_thread_view()
  std::array<SiteShard, kShards> shards_;
  storage::LatencySite latency_;
};
static_assert(sizeof(hierarchy::Learned) == sizeof(std::uint64_t) &&
              sizeof(hierarchy::SiteState) == sizeof(std::uint32_t));
static_assert(sizeof(SiteShard) % 64 == 0);

// An instance committed at level 1.
void unlearn(SiteImpl &site, Attempts::Kind kind, line::LineContextV1 &context) noexcept;
inline void learn_line_commit(SiteImpl &site, Attempts::Kind kind,
                              line::LineContextV1 &context) noexcept {
  if (site.has_learned(kind)) [[unlikely]]
    unlearn(site, kind, context);
}

}  // namespace tmh::detail
