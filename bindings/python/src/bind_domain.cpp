#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>

#include <tmh/instance.hpp>

#include "bindings/python/src/domain_core.h"
#include "bindings/python/src/errors.h"
#include "bindings/python/src/instance.h"
#include "bindings/python/src/module.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {

// values: the right ones, for the message.
template <class Value>
Value parsed(const std::string &spec, const char *what, const char *values) {
  TMH_ASSERT(what != nullptr && values != nullptr);
  Value value{};
  if (spec.empty()) return value;
  if (parse(std::string_view(spec), &value) != Errc::kOk)
    raise(PyExc_ValueError, std::string(what) + "='" + spec + "': one of " + values);
  return value;
}

Policies parsed_policies(const std::string &spec) {
  Policies policies;
  std::string why;
  if (!spec.empty() && parse(std::string_view(spec), &policies, &why) != Errc::kOk)
    raise(PyExc_ValueError, "policies='" + spec + "': " + why);
  // The GIL lets one thread of Python run at a time: views for each would cost, and give nothing.
  if (policies.thread_views == ThreadViewUse{}) policies.thread_views = ThreadViewUse::kNever;
  return policies;
}

DomainOptions options_of(const std::string &durability, const std::string &levels,
                         const std::string &policies, const std::string &tracking,
                         const std::string &name, std::uint32_t flush_interval_ms, bool keep_log,
                         double history_s, std::uint64_t history_bytes) {
  DomainOptions options;
  options.name = name;
  options.durability = parsed<Durability>(durability, "durability", durability_values());
  options.levels = parsed<Levels>(levels, "levels", levels_values());
  options.tracking = parsed<Tracking>(tracking, "tracking", tracking_values());
  // No access of Python code may end the interpreter.
  options.stray = Stray::kAllow;
  // RTM runs what Python's bodies are not: code without system calls.
  options.line = LineChoice::kSoftware;
  if (flush_interval_ms != 0) options.flush_interval_ms = flush_interval_ms;
  options.keep_log = keep_log;
  options.history = {std::chrono::milliseconds(std::llround(history_s * 1000)), history_bytes};
  options.policies = parsed_policies(policies);
  return options;
}

void map_segment(DomainCore &self, const std::string &file, std::uint64_t size_bytes,
                 std::uint64_t max_bytes) {
  SegmentOptions options;
  options.size_bytes = size_bytes;
  options.max_bytes = max_bytes;
  self.map(file, options);
}

template <class Call>
auto unlocked(DomainCore &self, Call &&call) {
  Domain &domain = self.domain();
  const Unlocked others(true);
  return call(domain);
}

nb::dict by_cause(const std::uint64_t (&counts)[kAbortCauseCount]) {
  constexpr const char *kNames[kAbortCauseCount] = {
      "none", "validation", "conflict_self", "conflict_other", "user",     "query_wrote",
      "died", "no_space",   "capacity",      "cross_level",    "spurious", "needs_pages"};
  static_assert(kNames[kAbortCauseCount - 1] != nullptr, "each cause has a name");
  nb::dict causes;
  for (std::size_t i = 1; i < kAbortCauseCount; ++i) causes[kNames[i]] = counts[i];
  return causes;
}

nb::dict as_dict(const Counters &counters) {
  nb::dict all;
#define TMH_COUNT(name) all[#name] = counters.name
  TMH_COUNT(begins);
  TMH_COUNT(commits);
  TMH_COUNT(queries);
  all["aborts"] = by_cause(counters.aborts);
  TMH_COUNT(pages_read);
  TMH_COUNT(pages_written);
  TMH_COUNT(lines_written);
  TMH_COUNT(faults_signal);
  TMH_COUNT(faults_kernel);
  TMH_COUNT(versions_live);
  TMH_COUNT(versions_bytes);
  TMH_COUNT(past_pages);
  TMH_COUNT(past_bytes);
  TMH_COUNT(past_horizon);
  TMH_COUNT(log_bytes);
  TMH_COUNT(log_flushes);
  TMH_COUNT(log_commits);
  TMH_COUNT(checkpoints);
  TMH_COUNT(recalls);
  TMH_COUNT(releases);
  TMH_COUNT(line_begins);
  TMH_COUNT(line_commits);
  all["line_aborts"] = by_cause(counters.line_aborts);
  TMH_COUNT(escalations_capacity);
  TMH_COUNT(escalations_needs_pages);
  TMH_COUNT(escalations_attempts);
  TMH_COUNT(de_escalations);
  TMH_COUNT(unlimited_commits);
  TMH_COUNT(lock_recoveries);
  TMH_COUNT(participants_reaped);
  TMH_COUNT(starvation_turns);
  TMH_COUNT(irrevocables);
  TMH_COUNT(snapshot_commits);
  TMH_COUNT(page_cache_pages);
  TMH_COUNT(page_cache_evictions);
  TMH_COUNT(page_cache_replays);
  TMH_COUNT(slow_readers);
  TMH_COUNT(retry_sleeps);
  TMH_COUNT(retry_wakes);
#undef TMH_COUNT
  return all;
}

nb::list participants(DomainCore &self) {
  const auto infos = unlocked(self, [](Domain &domain) { return domain.participants(); });
  nb::list all;
  for (const ParticipantInfo &info : infos) {
    nb::dict one;
    one["slot"] = info.slot;
    one["pid"] = info.pid;
    one["name"] = info.name;
    one["active"] = info.active;
    one["query"] = info.query;
    one["age_us"] = info.age_us;
    one["versions_held"] = info.versions_held;
    one["counters"] = as_dict(info.counters);
    all.append(one);
  }
  return all;
}

nb::dict recovery(DomainCore &self) {
  const RecoveryInfo info = self.domain().recovery();
  nb::dict all;
  all["ran"] = info.ran;
  all["was_clean"] = info.was_clean;
  all["transactions"] = info.transactions;
  all["salvaged"] = info.salvaged;
  all["log_bytes"] = info.log_bytes;
  all["tail_was_torn"] = info.tail_was_torn;
  all["total_us"] = info.total_us;
  return all;
}

nb::dict past(DomainCore &self) {
  const PastInfo info = unlocked(self, [](Domain &domain) { return domain.past(); });
  nb::dict all;
  all["oldest"] = info.oldest;
  all["now"] = info.now;
  all["pages"] = info.pages;
  all["bytes"] = info.bytes;
  nb::list moments;
  for (const NamedMoment &moment : info.moments) {
    nb::dict one;
    one["name"] = nb::bytes(moment.name.data(), moment.name.size());
    one["clock"] = moment.clock;
    one["time_ns"] = std::chrono::nanoseconds(moment.time.time_since_epoch()).count();
    one["lsn"] = moment.lsn;
    one["is_held"] = moment.is_held;
    moments.append(one);
  }
  all["moments"] = moments;
  return all;
}

void require_outside(const DomainCore &core, const char *call) {
  TMH_ASSERT(call != nullptr);
  if (running().core == &core)
    raise(Errc::kInstanceRunning, std::string(call) + ": call it outside of the instance");
}

}  // namespace

void bind_domain(nb::module_ &module) {
  nb::class_<DomainOptions>(module, "Settings")
      .def("__init__", [](DomainOptions *self, const std::string &durability,
                          const std::string &levels, const std::string &policies,
                          const std::string &tracking, const std::string &name,
                          std::uint32_t flush_interval_ms, bool keep_log, double history_s,
                          std::uint64_t history_bytes) {
        new (self) DomainOptions(options_of(durability, levels, policies, tracking, name,
                                            flush_interval_ms, keep_log, history_s, history_bytes));
      });
  nb::class_<DomainCore>(module, "Domain", nb::is_weak_referenceable())
      .def(nb::init<std::string, const DomainOptions &>())
      .def("open_again", &DomainCore::require_options)
      .def_prop_ro("folder", [](const DomainCore &self) { return self.folder(); })
      .def_prop_ro("is_closed", [](const DomainCore &self) { return self.is_closed(); })
      .def("close", &DomainCore::close)
      .def("close_at_exit", &DomainCore::close_at_exit)
      .def("map", &map_segment)
      .def("unmap", &DomainCore::unmap)
      .def("size_bytes", [](DomainCore &self,
                            const std::string &file) { return self.segment(file)->size_bytes(); })
      .def("durability",
           [](DomainCore &self) { return std::string(to_string(self.domain().durability())); })
      .def("flush",
           [](DomainCore &self) {
             require_outside(self, "flush()");
             unlocked(self, [](Domain &domain) { domain.flush(); });
           })
      .def("checkpoint",
           [](DomainCore &self) {
             require_outside(self, "checkpoint()");
             unlocked(self, [](Domain &domain) { domain.checkpoint(); });
           })
      .def("backup",
           [](DomainCore &self, const std::string &folder) {
             require_outside(self, "backup()");
             unlocked(self, [&](Domain &domain) { domain.backup(folder); });
           })
      .def("keep",
           [](DomainCore &self, const std::string &name) {
             require_outside(self, "keep()");
             return unlocked(self, [&](Domain &domain) { return domain.keep(name); });
           })
      .def("forget",
           [](DomainCore &self, const std::string &name) {
             require_outside(self, "forget()");
             unlocked(self, [&](Domain &domain) { domain.forget(name); });
           })
      .def("past", &past)
      .def("stats",
           [](DomainCore &self) {
             return as_dict(unlocked(self, [](Domain &domain) { return domain.counters(); }));
           })
      .def("participants", &participants)
      .def("recovery", &recovery)
      .def("allocate",
           [](DomainCore &self, const std::string &file, std::size_t bytes) {
             require_update(self, "allocate()");
             const Segment segment = self.segment(file)->segment;
             need_plain();
             // A line's alignment: a number never lies in two lines.
             return reinterpret_cast<std::uintptr_t>(segment.allocate(bytes, kLineBytes));
           })
      .def("clear_memory", [](DomainCore &self, std::uintptr_t address, std::size_t bytes) {
        require_update(self, "clear_memory()");
        need_plain();
        // Pages of zeros stay unwritten: a large array costs no versions and no log.
        auto *at = reinterpret_cast<char *>(address);
        for (std::size_t done = 0; done < bytes;) {
          const std::size_t part = std::min<std::size_t>(bytes - done, kPageBytes);
          if (std::any_of(at + done, at + done + part, [](char byte) { return byte != 0; }))
            std::fill_n(at + done, part, '\0');
          done += part;
        }
      });
}

}  // namespace tmh::python
