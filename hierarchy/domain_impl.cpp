// hierarchy/domain_impl.cpp -- the end of a DomainImpl, and what a domain counts.
#include "hierarchy/domain_impl.h"

#include "hierarchy/actions.h"
#include "hierarchy/opening.h"

namespace tmh::detail {

Errc DomainImpl::close() noexcept { return Opening::close(*this); }

void DomainImpl::destroy(DomainImpl *domain) noexcept {
  if (platform::fork_generation() == domain->fork_generation_) {
    delete domain;
    return;
  }
  // A forked child: mappings and slot are the parent's, and any container may be half changed by a
  // thread that the child does not have.
  static constinit std::atomic<DomainImpl *> newest{nullptr};
  domain->left_before_ = newest.exchange(domain, std::memory_order_relaxed);
}

DomainImpl::~DomainImpl() {
  if (!open_.load(std::memory_order_acquire)) return;
  if (runs_here()) {  // the last handle went inside an instance, e.g. by an exception
    (void)abort();
    run_actions(false);  // or the thread's next instance would
  }
  // what the housekeeper uses goes before it
  if (close() != Errc::kOk && durable_ != nullptr) durable_->stop();
}

Counters DomainImpl::counters() const {
  Counters out;
  const page::DomainState &state = memory_->state();
  for (std::uint32_t i = 0; i < memory_->participants_high(); ++i) {
    const storage::Participant &slot = memory_->participant(i);
    storage::add_counts([&slot](storage::Count which) { return slot.count(which); }, &out);
  }
  if (lines_ != nullptr) lines_->count_in(&out);
  out.participants_reaped = state.reaped;
  if (const storage::LogState *log = memory_->log_state(); log != nullptr) {
    // pairs with LogWriter::publish()
    const std::uint64_t flushes = log->flushes.load(std::memory_order_acquire);
    const storage::LogTotals &totals = log->totals[flushes & 1];
    out.log_bytes = totals.bytes.load(std::memory_order_relaxed);
    out.log_flushes = flushes - totals.empty_flushes.load(std::memory_order_relaxed);
    out.log_commits = totals.commits.load(std::memory_order_relaxed);
    out.checkpoints = log->checkpoints.load(std::memory_order_relaxed);
    out.log_files_made = log->files_made.load(std::memory_order_relaxed);
    out.log_handovers = log->handovers.load(std::memory_order_relaxed);
  }
  out.recalls = state.recalls;  // racy, as every total here
  out.releases = state.releases;
  out.versions_live = memory_->versions_live();
  out.versions_bytes = out.versions_live * (kPageBytes + sizeof(page::VersionHead));
  return out;
}

std::vector<LatencySeries> DomainImpl::latencies() const {
  std::vector<std::uint64_t> incarnations;
  for (std::uint32_t i = 0; i < memory_->participants_high(); ++i) {
    const storage::Participant &record = memory_->participant(i);
    const bool is_here = record.state.load(std::memory_order_acquire) != 0;
    incarnations.push_back(is_here ? record.incarnation.load(std::memory_order_relaxed) : 0);
  }
  return latency_table_->read(incarnations);
}

std::vector<ParticipantInfo> DomainImpl::participants() const {
  using storage::Count;
  std::vector<ParticipantInfo> all;
  const std::uint64_t now = platform::coarse_ns();
  const std::uint64_t clock = memory_->state().clock.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < memory_->participants_high(); ++i) {
    const storage::Participant &record = memory_->participant(i);
    if (record.state.load(std::memory_order_acquire) == 0) continue;
    ParticipantInfo info;
    info.slot = i;
    info.pid = record.pid;
    info.name = record.name;
    info.snapshot = record.pin.load(std::memory_order_relaxed);
    info.active = info.snapshot != storage::kNoPin;
    info.query = record.is_query.load(std::memory_order_relaxed) != 0;
    if (!info.active) info.snapshot = 0;
    const std::uint64_t begin = record.begin_ns.load(std::memory_order_relaxed);
    if (info.active) info.age_us = now > begin ? (now - begin) / 1000 : 0;
    if (info.active && info.snapshot < clock) info.versions_held = memory_->versions_live();
    info.counters.begins = record.own_count(Count::kBegins);
    info.counters.commits = record.own_count(Count::kCommits);
    info.counters.queries = record.own_count(Count::kQueries);
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace tmh::detail
