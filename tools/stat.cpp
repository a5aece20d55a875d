// tools/stat.cpp -- tmh stat: the counters of a domain, once or again and again.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "platform/assert.h"
#include "platform/process.h"
#include "tools/commands.h"
#include "tools/lock_totals.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/shared_counters.h"
#include "tools/shared_latency.h"

namespace tmh::tools {

namespace {

std::uint64_t clock_ns(clockid_t which) {
  timespec now{};
  (void)clock_gettime(which, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

struct Sample {
  std::uint64_t time_ns = 0;       // since the epoch
  std::uint64_t monotonic_ns = 0;  // for rates
  SharedCounters shared;
  LockTotals locks;
};

Sample take(const std::string &folder) {
  Sample sample{clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC), read_counters(folder), {}};
  sample.locks = read_lock_totals(folder, sample.shared.has_state);
  return sample;
}

Json aborts_json(const std::uint64_t (&aborts)[kAbortCauseCount]) {
  static_assert(AbortCause::kNone == AbortCause{0}, "causes begin at 1");
  Json json;
  for (std::size_t i = 1; i < kAbortCauseCount; ++i)  // 0: no cause
    json[cause_name(static_cast<AbortCause>(i))] = aborts[i];
  return json;
}

Json needs_json(const std::uint64_t (&escalations)[kNeedCount]) {
  Json json;
  for (std::size_t i = 0; i < kNeedCount; ++i)
    json[need_key(static_cast<Need>(i))] = escalations[i];
  return json;
}

// One order for JSON, CSV and text.
Json counters_json(const Counters &counters) {
  Json json{
      {"begins", counters.begins}, {"commits", counters.commits}, {"queries", counters.queries}};
  json["aborts"] = aborts_json(counters.aborts);
  json["pages_read"] = counters.pages_read;
  json["pages_written"] = counters.pages_written;
  json["lines_written"] = counters.lines_written;
  json["line_commits"] = counters.line_commits;
  json["line_aborts"] = aborts_json(counters.line_aborts);
  json["faults_signal"] = counters.faults_signal;
  json["faults_kernel"] = counters.faults_kernel;
  json["lock_recoveries"] = counters.lock_recoveries;
  json["starvation_turns"] = counters.starvation_turns;
  json["snapshot_commits"] = counters.snapshot_commits;
  json["page_cache_pages"] = counters.page_cache_pages;
  json["page_cache_evictions"] = counters.page_cache_evictions;
  json["page_cache_replays"] = counters.page_cache_replays;
  json["slow_readers"] = counters.slow_readers;
  json["retry_sleeps"] = counters.retry_sleeps;
  json["retry_wakes"] = counters.retry_wakes;
  return json;
}

Json total_json(const Counters &total) {
  Json json = counters_json(total);
  json["participants_reaped"] = total.participants_reaped;
  json["line_begins"] = total.line_begins;
  json["escalations_capacity"] = total.escalations_capacity;
  json["escalations_needs_pages"] = total.escalations_needs_pages;
  json["escalations_by_need"] = needs_json(total.escalations_by_need);
  json["escalations_attempts"] = total.escalations_attempts;
  json["de_escalations"] = total.de_escalations;
  json["unlimited_commits"] = total.unlimited_commits;
  json["versions_live"] = total.versions_live;
  json["versions_bytes"] = total.versions_bytes;
  json["past_pages"] = total.past_pages;
  json["past_bytes"] = total.past_bytes;
  json["past_horizon"] = total.past_horizon;
  json["rtm"] = {
      {"commits", total.hardware_commits},          {"aborts_conflict", total.hardware_conflicts},
      {"aborts_capacity", total.hardware_capacity}, {"aborts_zero", total.hardware_zero},
      {"aborts_explicit", total.hardware_explicit}, {"aborts_other", total.hardware_other},
      {"mode_switches", total.mode_switches}};
  json["recalls"] = total.recalls;
  json["releases"] = total.releases;
  json["log_bytes"] = total.log_bytes;
  json["log_flushes"] = total.log_flushes;
  json["log_commits"] = total.log_commits;
  json["checkpoints"] = total.checkpoints;
  json["log_files_made"] = total.log_files_made;
  json["log_handovers"] = total.log_handovers;
  return json;
}

Json latencies_json(const SharedCounters &shared) {
  Json all = Json::array();
  for (const LatencySeries &one : shared.latencies) {
    Json json{{"participant", nullptr}, {"site", one.site}, {"level", to_string(one.level)}};
    if (one.slot != LatencySeries::kGone) json["participant"] = one.slot;
    json["outcome"] = one.outcome == AbortCause::kNone ? "committed" : cause_name(one.outcome);
    json.update(latency_json(one.histogram));
    all.push_back(std::move(json));
  }
  return all;
}

// Of committed instances, by level, and of waits for locks; each with the same columns, whatever
// ran.
Json levels_json(const Sample &sample) {
  static_assert(LatencyLevel::kLines == LatencyLevel{1} &&
                LatencyLevel::kLog == LatencyLevel{kLatencyLevelCount - 1});
  Json levels;
  for (std::size_t i = 1; i < kLatencyLevelCount; ++i) {
    const auto level = static_cast<LatencyLevel>(i);
    levels[to_string(level)] =
        latency_json(sum_of(sample.shared.latencies, [level](const LatencySeries &one) {
          return one.level == level && one.outcome == AbortCause::kNone;
        }));
  }
  levels["locks"] = latency_json(sample.locks.wait_times);
  return levels;
}

// Versions that are perhaps younger than the participant's snapshot; others may hold them, too.
std::uint64_t held_bytes(const SharedCounters &shared, const ParticipantCounters &one) {
  const bool is_behind = one.instance_us != 0 && one.snapshot < shared.clock;
  return is_behind ? shared.total.versions_bytes : 0;
}

Json json_of(const std::string &folder, const Sample &sample) {
  Json participants = Json::array();
  for (const ParticipantCounters &one : sample.shared.participants)
    participants.push_back({{"slot", one.slot},
                            {"pid", one.pid},
                            {"name", one.name},
                            {"alive", one.is_alive},
                            {"stopped", one.is_stopped},
                            {"instance_us", one.instance_us},
                            {"query", one.is_query},
                            {"held_bytes", held_bytes(sample.shared, one)},
                            {"counters", counters_json(one.counters)}});
  return {{"document", "tmh-stat-1"},
          {"domain", folder},
          {"time_ns", sample.time_ns},
          {"open", sample.shared.is_open()},
          {"shared_memory", sample.shared.has_state},
          {"clock", sample.shared.clock},
          {"total", total_json(sample.shared.total)},
          {"participants", std::move(participants)},
          {"lock_table", sample.locks.is_there},
          {"locks", lock_totals_json(sample.locks)},
          {"latency", levels_json(sample)},
          {"latencies", latencies_json(sample.shared)},
          {"latencies_refused", sample.shared.latency_refused}};
}

// "aborts" of a nested document become "aborts_user" and so on.
template <class Visit>
void visit_flat(const Json &json, const std::string &prefix, Visit &&visit) {
  for (const auto &[key, value] : json.items()) {
    if (value.is_object())
      visit_flat(value, prefix + key + "_", visit);
    else
      visit(prefix + key, value.template get<std::uint64_t>());
  }
}

std::string csv_of(const Sample &sample, bool with_header) {
  std::string header = "time_ns,open,participants,clock";
  std::string row = fmt::format("{},{},{},{}", sample.time_ns, sample.shared.is_open() ? 1 : 0,
                                sample.shared.participants.size(), sample.shared.clock);
  const auto column = [&](const std::string &name, std::uint64_t value) {
    header += "," + name;
    row += fmt::format(",{}", value);
  };
  visit_flat(total_json(sample.shared.total), "", column);
  visit_flat(lock_totals_json(sample.locks), "locks_", column);
  visit_flat(levels_json(sample), "latency_", column);
  return (with_header ? header + "\n" : "") + row + "\n";
}

std::string text_of(const std::string &folder, const Sample &sample) {
  if (!sample.shared.has_state)
    return folder + ": closed, so there is no shared memory with counters\n";
  std::string out = fmt::format("{}: {}, {}\n", folder,
                                sample.shared.is_open() ? "open" : "not open: everybody died",
                                counted(sample.shared.participants.size(), "participant"));
  Json total = total_json(sample.shared.total);
  total.erase("escalations_by_need");
  visit_flat(total, "", [&](const std::string &name, std::uint64_t value) {
    if (value != 0) out += fmt::format("{:>20} {}\n", value, name);
    if (name != "escalations_needs_pages") return;
    for (std::size_t i = 0; i < kNeedCount; ++i)
      if (const std::uint64_t count = sample.shared.total.escalations_by_need[i]; count != 0)
        out += fmt::format("{:>20}   {}\n", count, to_string(static_cast<Need>(i)));
  });
  if (sample.locks.is_there) out += "locks, and transactions that lock:\n";
  visit_flat(lock_totals_json(sample.locks), "", [&](const std::string &name, std::uint64_t value) {
    if (value != 0) out += fmt::format("{:>20} {}\n", value, name);
  });
  for (const ParticipantCounters &one : sample.shared.participants) {
    out += fmt::format("process {} ({}){}: {} commits, {} aborts, {} queries", one.pid, one.name,
                       sample.shared.is_elsewhere ? ", in another pid namespace"
                       : !one.is_alive            ? ", dead"
                       : one.is_stopped           ? ", stopped"
                                                  : "",
                       one.counters.commits, one.counters.aborts_total(), one.counters.queries);
    if (one.instance_us != 0)
      out += fmt::format("; {} runs for {}", one.is_query ? "a query" : "an instance",
                         duration_text(one.instance_us));
    if (const std::uint64_t held = held_bytes(sample.shared, one); held != 0)
      out += ", holds up to " + bytes_text(held);
    out += "\n";
  }
  return out + latency_table_text(sample.shared.latencies, sample.locks.wait_times);
}

constexpr const char *kRateHeader =
    "participants   commits/s    aborts/s   queries/s     log B/s   flushes/s  versions\n";

std::string rates_of(const Sample &before, const Sample &now) {
  const double seconds =
      static_cast<double>(std::max<std::uint64_t>(1, now.monotonic_ns - before.monotonic_ns)) / 1e9;
  // A total shrinks when everybody has left.
  const auto rate = [seconds](std::uint64_t from, std::uint64_t to) {
    return to > from ? static_cast<double>(to - from) / seconds : 0;
  };
  const Counters &a = before.shared.total, &b = now.shared.total;
  return fmt::format("{:>12} {:>11.0f} {:>11.0f} {:>11.0f} {:>11.0f} {:>11.0f} {:>9}\n",
                     now.shared.participants.size(), rate(a.commits, b.commits),
                     rate(a.aborts_total(), b.aborts_total()), rate(a.queries, b.queries),
                     rate(a.log_bytes, b.log_bytes), rate(a.log_flushes, b.log_flushes),
                     b.versions_live);
}

void sleep_seconds(double seconds) {
  TMH_ASSERT(seconds > 0);
  timespec wait{};
  wait.tv_sec = static_cast<time_t>(seconds);
  wait.tv_nsec = static_cast<long>((seconds - static_cast<double>(wait.tv_sec)) * 1e9);
  (void)nanosleep(&wait, nullptr);
}

}  // namespace

Exit run(const StatCommand &command) {
  TMH_ASSERT(!(command.json && command.csv));
  TMH_ASSERT(command.count == 0 || command.interval_s > 0);
  Sample before;
  for (std::uint64_t number = 0;; ++number) {
    const Sample sample = take(command.domain);
    if (command.json)
      command.interval_s == 0 ? print(json_of(command.domain, sample))
                              : print_line(json_of(command.domain, sample));
    else if (command.csv)
      print(csv_of(sample, number == 0));
    else if (number == 0)
      print(text_of(command.domain, sample) + (command.interval_s == 0 ? "" : kRateHeader));
    else
      print(rates_of(before, sample));
    flush_output();
    // A domain that closes ends the list: what opens it later counts from zero.
    if (command.interval_s == 0 || number + 1 == command.count || !sample.shared.is_open())
      return Exit::kOk;
    before = sample;
    sleep_seconds(command.interval_s);
  }
}

}  // namespace tmh::tools
