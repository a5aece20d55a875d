// observe/perf/refusal.cpp -- see refusal.h.
// Source:    perf_event_open(2), ERRORS; Linux Documentation/admin-guide/perf-security.rst.
#include "observe/perf/refusal.h"

#include <cpuid.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

#include "platform/assert.h"

namespace tmh::perf {

std::string explain(const Refusal &refusal) {
  TMH_ASSERT(refusal.error != 0);
  const std::string reason = std::generic_category().message(refusal.error);
  switch (refusal.error) {
    case EACCES:
    case EPERM:
      if (refusal.needs_kernel && refusal.paranoid >= 2)
        return "perf_event_paranoid is " + std::to_string(refusal.paranoid) +
               ", and this happens in the kernel: needs CAP_PERFMON, or 1 or less";
      if (refusal.paranoid > 2)  // Debian's own level: nothing without the capability
        return "perf_event_paranoid is " + std::to_string(refusal.paranoid) +
               ": needs CAP_PERFMON, or 2 or less";
      return "forbidden (" + reason + ") although perf_event_paranoid is " +
             std::to_string(refusal.paranoid) +
             ": a sandbox's seccomp filter or a security module, or somebody else's process";
    case ENOSYS:
      return "the kernel, or a sandbox's seccomp filter, has no perf_event_open";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      if (!refusal.is_hardware) break;
      if (!refusal.has_pmu)
        return refusal.is_virtual ? "no PMU: the hypervisor does not give this virtual machine one"
                                  : "no PMU: the kernel found none that it knows";
      return "the PMU here cannot count it (" + reason + ")";
    case EINVAL:
      if (refusal.is_hardware && refusal.has_pmu)
        return "the PMU does not take this code (" + reason + ")";
      break;
    case EMFILE:
      return "too many open files (ulimit -n)";
    case ESRCH:
      return "the thread to be watched does not exist";
    default:
      break;
  }
  return "perf_event_open: " + reason;
}

Refusal refusal_here() {
  Refusal refusal;
  for (const char *pmu : {"cpu", "cpu_core"})  // the latter: processors with two kinds of cores
    if (::access((std::string("/sys/bus/event_source/devices/") + pmu).c_str(), F_OK) == 0)
      refusal.has_pmu = true;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kHypervisorBit = 1u << 31;
  refusal.is_virtual = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kHypervisorBit) != 0;
  std::ifstream("/proc/sys/kernel/perf_event_paranoid") >> refusal.paranoid;
  return refusal;
}

}  // namespace tmh::perf
