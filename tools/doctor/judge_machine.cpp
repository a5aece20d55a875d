// tools/doctor/judge_machine.cpp -- topology and performance counters.
#include <fmt/format.h>

#include <cerrno>

#include <tmh/options.hpp>

#include "platform/assert.h"
#include "tools/doctor/finding.h"

namespace tmh::tools::doctor {

namespace {

void judge_caches(Judge *judge, const TopologyPart &facts) {
  TMH_ASSERT(judge != nullptr && facts.error.empty());
  if (facts.line_bytes == kLineBytes) {
    judge->yes("64-byte cache lines", "64 bytes");
  } else {
    judge->limited("64-byte cache lines",
                   facts.line_bytes == 0 ? "not told" : fmt::format("{} bytes", facts.line_bytes),
                   "blocks of level 1 and what must not share a line are laid out for 64 bytes",
                   "none: correct anyway, but neighbours may slow each other down");
  }
  const std::uint64_t set_bytes = static_cast<std::uint64_t>(facts.l1d_ways) * facts.line_bytes;
  if (facts.l1d_bytes != 0 && set_bytes != 0)
    return judge->yes("first-level data cache",
                      fmt::format("{} KiB: {} sets x {} ways x {} bytes", facts.l1d_bytes / 1024,
                                  facts.l1d_bytes / set_bytes, facts.l1d_ways, facts.line_bytes));
  judge->limited("first-level data cache",
                 facts.l1d_bytes == 0 ? "not told" : fmt::format("{} KiB", facts.l1d_bytes / 1024),
                 "the hypervisor or the kernel does not tell its sets and ways",
                 "give TMH_CAPACITY in numbers, as 32KiB/8/64, where it is wanted");
}

void judge_paranoid(Judge *judge, const CounterPart &facts, bool may_perfmon) {
  TMH_ASSERT(judge != nullptr);
  if (!facts.paranoid)
    return judge->no("permission to count", "kernel.perf_event_paranoid absent",
                     "the kernel was built without perf events", "a distribution's kernel");
  const std::string found = fmt::format("kernel.perf_event_paranoid {}", *facts.paranoid);
  const char *const remedy =
      "sysctl kernel.perf_event_paranoid=1 (to stay: a file in /etc/sysctl.d), or setcap "
      "cap_perfmon+ep PROGRAM";
  if (may_perfmon)
    return judge->yes("permission to count", found + "; this process has CAP_PERFMON");
  if (*facts.paranoid >= 3)  // 3 and 4 exist in Debian's, Ubuntu's and Android's kernels
    return judge->no("permission to count", found,
                     "with 3 or more only CAP_PERFMON may count anything", remedy);
  if (*facts.paranoid == 2)
    return judge->limited("permission to count", found, "only what happens in user mode", remedy);
  judge->yes("permission to count", found);
}

void judge_event(Judge *judge, const EventFacts &event, const CounterPart &facts, bool is_virtual) {
  TMH_ASSERT(judge != nullptr && !event.name.empty());
  if (event.open_error == 0) return judge->yes(event.name, "counts");
  if (!event.unknown.empty())
    return judge->no(event.name, "libpfm4: " + event.unknown,
                     facts.pmu.empty() ? "libpfm4 does not recognise this processor"
                                       : facts.pmu + " has no such event, as far as libpfm4 knows",
                     facts.pmu.empty() ? "a newer libpfm4; LIBPFM_FORCE_PMU names a PMU by hand"
                                       : "another processor, or another event");
  const std::string found = error_text(event.open_error);
  switch (event.open_error) {
    case EACCES:
    case EPERM:
      return judge->no(event.name, found, "not permitted",
                       "see \"permission to count\"; a sandbox may refuse, too");
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      if (facts.kernel_has_pmu)
        return judge->no(event.name, found, "the kernel's PMU driver does not have it",
                         "another event");
      return judge->no(event.name, found,
                       is_virtual ? "the hypervisor gives this machine no PMU"
                                  : "the kernel has no driver for this processor's PMU",
                       is_virtual ? "a host that passes it on (QEMU: -cpu host,pmu=on), or bare "
                                    "metal; software events work without"
                                  : "a newer kernel");
    default:
      return judge->no(event.name, found, "the kernel refuses it",
                       "see perf_event_open(2), ERRORS");
  }
}

}  // namespace

Findings judge_topology(const TopologyPart &facts) {
  Judge judge("topology");
  if (!facts.error.empty()) {
    judge.no("topology", "unknown", facts.error,
             "lstopo shows what hwloc sees; /sys must be mounted");
    return judge.take();
  }
  judge_caches(&judge, facts);
  const std::string found =
      fmt::format("{} package(s), {} NUMA node(s), {} cores, {} hardware threads", facts.packages,
                  facts.numa_nodes, facts.cores, facts.threads);
  if (facts.packages > 1 || facts.numa_nodes > 1)
    judge.limited("one package", found,
                  "lines that processes share travel between packages or NUMA nodes",
                  "keep the processes of one domain together: numactl --cpunodebind=0 --membind=0, "
                  "or taskset");
  else
    judge.yes("one package", found);
  if (facts.threads == 1)
    judge.limited("several hardware threads", found, "one thread runs at a time",
                  "more processors, if speed is wanted");
  return judge.take();
}

Findings judge_counters(const CounterPart &facts, bool may_perfmon, bool is_virtual) {
  Judge judge("counters");
  judge_paranoid(&judge, facts, may_perfmon);
  if (!facts.library_error.empty()) {
    judge.no("libpfm4", "did not start", facts.library_error, "a newer libpfm4");
    return judge.take();
  }
  if (facts.pmu.empty())
    judge.no("PMU recognised", "none",
             "this libpfm4 does not know the processor's family and model",
             "a newer libpfm4; LIBPFM_FORCE_PMU names a PMU by hand");
  else
    judge.yes(
        "PMU recognised",
        fmt::format("{}, {} events, by family and model; the kernel {} a driver for it", facts.pmu,
                    facts.pmu_events, facts.kernel_has_pmu ? "has" : "does not offer"));
  for (const EventFacts &event : facts.events) judge_event(&judge, event, facts, is_virtual);
  return judge.take();
}

}  // namespace tmh::tools::doctor
