// hierarchy/watch/domain_counts.cpp -- adding up what participants and the log count.
#include "hierarchy/watch/domain_counts.h"

#include <utility>

#include "platform/process.h"

namespace tmh::detail {

Counters counters_of(const page::SharedState &memory) {
  Counters out;
  const page::DomainState &state = memory.state();
  for (std::uint32_t i = 0; i < memory.participants_high(); ++i) {
    const storage::Participant &slot = memory.participant(i);
    storage::add_counts([&slot](storage::Count which) { return slot.count(which); }, &out);
    if (slot.state.load(std::memory_order_relaxed) != 0)
      out.page_cache_pages += slot.shown.page_cache_pages.load(std::memory_order_relaxed);
  }
  out.participants_reaped = state.reaped;
  if (const storage::LogState *log = memory.log_state(); log != nullptr) {
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
  out.versions_live = memory.versions_live();
  out.versions_bytes = out.versions_live * (kPageBytes + sizeof(page::VersionHead));
  out.past_pages = state.past.count.load(std::memory_order_relaxed);
  out.past_bytes = out.past_pages * (kPageBytes + sizeof(page::VersionHead));
  if (state.past.history_slots.load(std::memory_order_relaxed) != 0)
    out.past_horizon = state.past.horizon.load(std::memory_order_relaxed);
  return out;
}

std::vector<LatencySeries> latencies_of(const page::SharedState &memory,
                                        const storage::LatencyTable &table) {
  std::vector<std::uint64_t> incarnations;
  for (std::uint32_t i = 0; i < memory.participants_high(); ++i) {
    const storage::Participant &record = memory.participant(i);
    const bool is_here = record.state.load(std::memory_order_acquire) != 0;
    incarnations.push_back(is_here ? record.incarnation.load(std::memory_order_relaxed) : 0);
  }
  return table.read(incarnations);
}

std::vector<ParticipantInfo> participants_of(const page::SharedState &memory) {
  using storage::Count;
  std::vector<ParticipantInfo> all;
  const std::uint64_t now = platform::coarse_ns();
  const std::uint64_t clock = memory.state().clock.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < memory.participants_high(); ++i) {
    const storage::Participant &record = memory.participant(i);
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
    if (info.active && info.snapshot < clock) info.versions_held = memory.versions_live();
    info.counters.begins = record.own_count(Count::kBegins);
    info.counters.commits = record.own_count(Count::kCommits);
    info.counters.queries = record.own_count(Count::kQueries);
    info.counters.page_cache_pages = record.shown.page_cache_pages.load(std::memory_order_relaxed);
    info.counters.page_cache_evictions = record.own_count(Count::kPageCacheEvictions);
    info.counters.page_cache_replays = record.own_count(Count::kPageCacheReplays);
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace tmh::detail
