// tools/shared_counters.cpp -- tmh.state, tmh.participants and tmh.log.state, read as bytes.
#include "tools/shared_counters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "storage/log/log_state.h"
#include "storage/participants.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/print.h"
#include "tools/shared_file.h"
#include "tools/shared_latency.h"
#include "tools/shared_lines.h"
#include "tools/watched_work.h"

namespace tmh::tools {

using page::DomainState;
using storage::Count;
using storage::LogState;
using storage::Participant;

namespace {

using Counts = std::array<std::uint64_t, storage::kCountsMax>;
static_assert(sizeof(Counts) == sizeof(Participant::counts) &&
              sizeof(Counts) == sizeof(Participant::counts_before));

void add(const Counts &counts, Counters *to) {
  TMH_ASSERT(to != nullptr);
  storage::add_counts([&counts](Count which) { return counts[static_cast<std::size_t>(which)]; },
                      to);
}

// The record of one slot; false when the slot is free.
bool read_participant(const std::byte *record, bool is_elsewhere, ParticipantCounters *out) {
  TMH_ASSERT(out != nullptr);
  if (field<std::uint32_t>(record, offsetof(Participant, state)) == 0) return false;
  out->pid = field<std::int32_t>(record, offsetof(Participant, pid));
  const platform::ProcessId process{
      out->pid, field<std::uint64_t>(record, offsetof(Participant, start_time)),
      field<std::uint64_t>(record, offsetof(Participant, stack_start))};
  out->start_time = process.start_time;
  out->stack_start = process.stack_start;
  out->incarnation = field<std::uint64_t>(record, offsetof(Participant, incarnation));
  out->is_alive = process.pid > 0 && (is_elsewhere || platform::alive(process));
  out->is_stopped = out->is_alive && !is_elsewhere && is_stopped(out->pid);
  const auto name =
      field<std::array<char, sizeof Participant::name>>(record, offsetof(Participant, name));
  out->name = printable({name.begin(), std::find(name.begin(), name.end(), '\0')});
  out->in_line_mode = field<std::uint32_t>(record, offsetof(Participant, shown.in_line_mode)) != 0;
  if (const auto pin = field<std::uint64_t>(record, offsetof(Participant, pin));
      pin != storage::kNoPin) {
    out->snapshot = pin;
    const std::uint64_t now = platform::coarse_ns();
    const auto began = field<std::uint64_t>(record, offsetof(Participant, begin_ns));
    out->instance_us = now > began ? std::max<std::uint64_t>(1, (now - began) / 1000) : 1;
    out->is_query = field<std::uint32_t>(record, offsetof(Participant, is_query)) != 0;
  }
  auto own = field<Counts>(record, offsetof(Participant, counts));
  const auto before = field<Counts>(record, offsetof(Participant, counts_before));
  for (std::size_t i = 0; i < own.size(); ++i) own[i] -= before[i];
  add(own, &out->counters);
  out->counters.page_cache_pages =
      field<std::uint32_t>(record, offsetof(Participant, shown.page_cache_pages));
  return true;
}

// Returns their incarnations, by slot.
std::vector<std::uint64_t> read_participants(const std::string &folder, std::uint32_t high,
                                             SharedCounters *out) {
  TMH_ASSERT(out != nullptr);
  const std::size_t slots = std::min(high, storage::kParticipantsMax);
  const std::vector<std::byte> table =
      read_some(folder + "/tmh.participants", slots * sizeof(Participant));
  std::vector<std::uint64_t> incarnations;
  for (std::size_t slot = 0; slot < table.size() / sizeof(Participant); ++slot) {
    const std::byte *record = table.data() + slot * sizeof(Participant);
    // The list belongs to the slot and stays when its process has gone.
    constexpr std::size_t kLive =
        offsetof(Participant, versions) + offsetof(storage::VersionList, live_count);
    out->total.versions_live += field<std::uint32_t>(record, kLive);
    add(field<Counts>(record, offsetof(Participant, counts)), &out->total);
    ParticipantCounters one;
    one.slot = static_cast<std::uint32_t>(slot);
    incarnations.push_back(0);
    if (!read_participant(record, out->is_elsewhere, &one)) continue;
    incarnations.back() = one.incarnation;
    out->total.page_cache_pages += one.counters.page_cache_pages;
    out->participants.push_back(std::move(one));
  }
  out->total.versions_bytes = out->total.versions_live * (kPageBytes + sizeof(page::VersionHead));
  return incarnations;
}

void read_log_counters(const std::string &folder, Counters *total) {
  TMH_ASSERT(total != nullptr);
  const std::vector<std::byte> log = read_some(folder + "/tmh.log.state", sizeof(LogState));
  if (log.size() < sizeof(LogState)) return;  // not durable, or being made
  const auto at = [&log](std::size_t offset) { return field<std::uint64_t>(log.data(), offset); };
  if (at(offsetof(LogState, magic)) != storage::kLogStateMagic ||
      field<std::uint32_t>(log.data(), offsetof(LogState, version)) != storage::kLogStateVersion)
    refuse(Errc::kForeignVersion, folder + "/tmh.log.state is of another version, or damaged");
  const std::uint64_t flushes = at(offsetof(LogState, flushes));
  const std::size_t totals =
      offsetof(LogState, totals) + (flushes & 1) * sizeof(storage::LogTotals);
  total->log_bytes = at(totals + offsetof(storage::LogTotals, bytes));
  total->log_commits = at(totals + offsetof(storage::LogTotals, commits));
  total->log_flushes = flushes - at(totals + offsetof(storage::LogTotals, empty_flushes));
  total->checkpoints = at(offsetof(LogState, checkpoints));
  total->log_files_made = at(offsetof(LogState, files_made));
  total->log_handovers = at(offsetof(LogState, handovers));
}

}  // namespace

bool SharedCounters::is_open() const noexcept {
  return std::any_of(participants.begin(), participants.end(),
                     [](const auto &one) { return one.is_alive; });
}

namespace {

// The first time noted at that clock, or later: all moments since are held. 0: none is.
std::uint64_t time_of(const std::byte *samples, std::uint64_t clock) noexcept {
  static_assert(sizeof(page::PastState::samples) == page::kSamplesMax * sizeof(page::PastSample));
  TMH_ASSERT(samples != nullptr);
  std::uint64_t first_clock = ~0ull, time_ns = 0;
  for (std::size_t i = 0; i < page::kSamplesMax; ++i) {
    page::PastSample sample;
    std::memcpy(&sample, samples + i * sizeof sample, sizeof sample);
    if (sample.clock == 0 || sample.clock < clock || sample.clock >= first_clock) continue;
    first_clock = sample.clock;
    time_ns = sample.wall_ns;
  }
  return time_ns;
}

}  // namespace

SharedCounters read_counters(const std::string &folder) {
  const auto control = read_control(folder);  // is it a domain, and of this version?
  SharedCounters out;
  const std::string path = folder + "/tmh.state";
  const std::vector<std::byte> state = read_some(path, sizeof(DomainState));
  if (state.size() < offsetof(DomainState, incarnation_next)) return out;
  // What tells versions apart comes before it.
  static_assert(offsetof(DomainState, boot_id) < offsetof(DomainState, incarnation_next) &&
                offsetof(DomainState, version) < offsetof(DomainState, incarnation_next) &&
                offsetof(DomainState, state_bytes) < offsetof(DomainState, incarnation_next));
  const platform::BootId boot = platform::this_boot();
  // Damaged, being made, or of another boot: the next open makes it anew.
  if (field<std::uint64_t>(state.data(), offsetof(DomainState, magic)) != page::kStateMagic ||
      std::memcmp(state.data() + offsetof(DomainState, boot_id), boot.text, sizeof boot.text) != 0)
    return out;
  if (field<std::uint32_t>(state.data(), offsetof(DomainState, version)) != page::kStateVersion ||
      field<std::uint32_t>(state.data(), offsetof(DomainState, state_bytes)) !=
          sizeof(DomainState) ||
      state.size() < sizeof(DomainState))
    refuse(Errc::kForeignVersion,
           path + " is of another version that is, or was, in use since this boot");
  if (std::memcmp(state.data() + offsetof(DomainState, domain_id), control->header.domain_id,
                  sizeof control->header.domain_id) != 0 ||
      field<std::uint64_t>(state.data(), offsetof(DomainState, life)) != control->header.life)
    return out;  // of files that were here before these
  out.has_state = true;
  out.is_elsewhere = is_elsewhere(state.data());
  out.clock = field<std::uint64_t>(state.data(), offsetof(DomainState, clock));
  out.attaches = field<std::uint64_t>(state.data(), offsetof(DomainState, incarnation_next));
  out.total.participants_reaped = field<std::uint64_t>(state.data(), offsetof(DomainState, reaped));
  constexpr std::size_t kPast = offsetof(DomainState, past);
  const auto of_past = [&](std::size_t offset) {
    return field<std::uint64_t>(state.data(), kPast + offset);
  };
  out.total.past_pages = of_past(offsetof(page::PastState, count));
  out.total.past_bytes = out.total.past_pages * (kPageBytes + sizeof(page::VersionHead));
  if (of_past(offsetof(page::PastState, history_slots)) != 0) {
    out.total.past_horizon = of_past(offsetof(page::PastState, horizon));
    out.past_since_ns =
        time_of(state.data() + kPast + offsetof(page::PastState, samples), out.total.past_horizon);
  }
  out.total.recalls = field<std::uint64_t>(state.data(), offsetof(DomainState, recalls));
  out.total.releases = field<std::uint64_t>(state.data(), offsetof(DomainState, releases));
  const auto high = field<std::uint32_t>(state.data(), offsetof(DomainState, participants_high));
  const std::vector<std::uint64_t> incarnations = read_participants(folder, high, &out);
  out.is_hybrid = field<std::uint64_t>(state.data(), offsetof(DomainState, levels)) ==
                  static_cast<std::uint64_t>(Levels::kHybrid);
  if (out.is_hybrid) read_line_counters(folder, incarnations, &out);
  out.latencies = read_latencies(folder, incarnations, &out.latency_refused);
  if (control->header.durability != 0) read_log_counters(folder, &out.total);
  return out;
}

const char *cause_name(AbortCause cause) noexcept {
  switch (cause) {
    case AbortCause::kNone:
      return "none";
    case AbortCause::kValidation:
      return "validation";
    case AbortCause::kConflictSelf:
      return "conflict_self";
    case AbortCause::kConflictOther:
      return "conflict_other";
    case AbortCause::kUser:
      return "user";
    case AbortCause::kQueryWrote:
      return "query_wrote";
    case AbortCause::kDied:
      return "died";
    case AbortCause::kNoSpace:
      return "no_space";
    case AbortCause::kCapacity:
      return "capacity";
    case AbortCause::kCrossLevel:
      return "cross_level";
    case AbortCause::kSpurious:
      return "spurious";
    case AbortCause::kNeedsPages:
      return "needs_pages";
  }
  return "unknown";
}

std::string need_key(Need need) {
  std::string_view name = to_string(need);
  if (name.starts_with("tmh::")) name.remove_prefix(5);
  std::string key;
  bool is_between = false;
  for (const char c : name) {
    const bool is_letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_letter && is_between && !key.empty()) key += '_';
    if (is_letter) key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    is_between = !is_letter;
  }
  TMH_ASSERT(!key.empty());
  return key;
}

}  // namespace tmh::tools
