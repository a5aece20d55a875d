// tools/doctor/ask_libpfm.cpp -- which PMU libpfm4 recognises, and which events this process may
// count.
#include <perfmon/pfmlib_perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "platform/assert.h"
#include "platform/files.h"
#include "tools/doctor/machine.h"

namespace tmh::tools::doctor {

namespace {

// What the questions of a transactional memory need: time, misses, faults; and on processors with
// RTM its own events.
constexpr const char *kEvents[] = {
    "perf::CPU-CYCLES",       "perf::INSTRUCTIONS", "perf::CACHE-MISSES",
    "perf::DTLB-LOAD-MISSES", "perf::PAGE-FAULTS",  "perf::CONTEXT-SWITCHES",
    "RTM_RETIRED:START",      "RTM_RETIRED:COMMIT", "RTM_RETIRED:ABORTED"};

EventFacts try_event(const char *name) {
  TMH_ASSERT(name != nullptr);
  EventFacts event;
  event.name = name;
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  pfm_perf_encode_arg_t argument{};
  argument.attr = &attributes;
  argument.size = sizeof argument;
  const int error = ::pfm_get_os_event_encoding(name, PFM_PLM3, PFM_OS_PERF_EVENT, &argument);
  if (error != PFM_SUCCESS) {
    event.unknown = ::pfm_strerror(error);
    return event;
  }
  attributes.disabled = 1;
  const platform::FileDescriptor file(static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  event.open_error = file ? 0 : errno;
  return event;
}

}  // namespace

CounterPart ask_libpfm() {
  CounterPart part;
  if (const int error = ::pfm_initialize(); error != PFM_SUCCESS) {
    part.library_error = ::pfm_strerror(error);
    return part;
  }
  for (int i = PFM_PMU_NONE; i < PFM_PMU_MAX; ++i) {
    pfm_pmu_info_t info{};
    info.size = sizeof info;
    // The last: Intel's common subset, not a model.
    if (::pfm_get_pmu_info(static_cast<pfm_pmu_t>(i), &info) != PFM_SUCCESS ||
        info.is_present == 0 || info.type != PFM_PMU_TYPE_CORE || i == PFM_PMU_INTEL_X86_ARCH)
      continue;
    part.pmu = info.desc;
    part.pmu_events = static_cast<std::uint32_t>(info.nevents);
  }
  for (const char *name : kEvents) part.events.push_back(try_event(name));
  ::pfm_terminate();
  return part;
}

}  // namespace tmh::tools::doctor
