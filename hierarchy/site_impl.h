// hierarchy/site_impl.h -- one site in one process: its policy, what it has learned, its totals.
// Sharing:   threads: totals are sharded by thread, so that counting costs no shared line; `learned` is read by all and seldom written.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <tmh/site.hpp>

#include "hierarchy/domain_impl.h"
#include "hierarchy/escalation.h"

namespace tmh::detail {

enum class SiteCount : std::uint32_t {
  kLineCommits,
  kPageCommits,
  kLineAborts,
  kPageAborts,
  kForCapacity,
  kForPages,
  kForAttempts,
  kDeEscalations,
  kReleases,
  kRecalls,
  kLineTicks,
  kPageTicks,
  kEnd
};

class SiteImpl {
 public:
  SiteImpl(std::shared_ptr<DomainImpl> domain, std::string name, Escalation escalation)
      : domain_(std::move(domain)), name_(std::move(name)), escalation_(escalation) {}

  [[nodiscard]] DomainImpl &domain() const noexcept { return *domain_; }
  [[nodiscard]] const std::string &name() const noexcept { return name_; }
  [[nodiscard]] const Escalation &escalation() const noexcept { return escalation_; }

  // What it has learned. Races lose a step of learning, nothing else: relaxed.
  [[nodiscard]] hierarchy::SiteState learned() const noexcept {
    return std::bit_cast<hierarchy::SiteState>(learned_.load(std::memory_order_relaxed));
  }
  void learn(hierarchy::SiteState state) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(state);
    if (learned_.load(std::memory_order_relaxed) != word) learned_.store(word, std::memory_order_relaxed);
  }

  void add(SiteCount which, std::uint64_t amount) noexcept;
  [[nodiscard]] SiteReport report() const;

 private:
  static constexpr std::size_t kShards = 33;  // the last one is shared by whoever comes too late for one of its own
  struct alignas(64) Shard {
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(SiteCount::kEnd)> totals{};
  };

  const std::shared_ptr<DomainImpl> domain_;
  const std::string name_;
  const Escalation escalation_;
  alignas(64) std::atomic<std::uint32_t> learned_{0};
  std::array<Shard, kShards> shards_;
};
static_assert(sizeof(hierarchy::SiteState) == 4);

// In a body that runs at level 1: ends the attempt, because what it is about to do needs level 2. Throws LineAbort. Else nothing.
void need_pages();
// After the outermost instance of this thread has ended: runs its actions.
void run_actions(bool committed);
// Does this thread run an instance at level 1 of that domain?
[[nodiscard]] bool runs_at_lines(const LineDomain *domain) noexcept;

}  // namespace tmh::detail
