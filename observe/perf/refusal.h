// observe/perf/refusal.h -- why the kernel opened no counter, as a sentence.
#pragma once

#include <cstdint>
#include <string>

namespace tmh::perf {

struct Refusal {
  int error = 0;              // errno of perf_event_open
  bool is_hardware = false;   // the event needs a PMU
  bool needs_kernel = false;  // it happens in the kernel only, like a context switch
  bool has_pmu = false;       // the kernel lists a PMU of the processor
  bool is_virtual = false;    // CPUID tells of a hypervisor
  int paranoid = 0;           // /proc/sys/kernel/perf_event_paranoid
};
[[nodiscard]] std::string explain(const Refusal &refusal);  // pure

// The facts of this machine; error, is_hardware and needs_kernel are the caller's.
[[nodiscard]] Refusal refusal_here();

}  // namespace tmh::perf
