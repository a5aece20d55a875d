// levels/line/rtm_detection.h -- can this machine run RTM transactions, and if not, why not and what would help?
// Override:  TMH_ASSUME_RTM=1 skips the look at CPUID, for machines where XBEGIN raises SIGILL and an emulator in this process answers it.
//            The trial decides as ever.
// Shape:     facts are collected (CPUID, kernel, a trial), then judged by a pure function, which tests give facts of other machines.
// Source:    Intel SDM vol. 1, chapter 16; Linux admin-guide/hw-vuln/tsx_async_abort.rst. DESIGN 4: only a trial commit proves RTM.
#pragma once

#include <cstdint>
#include <string>

namespace tmh::line {

struct RtmFacts {
  bool is_x86 = false;
  bool is_listed = false;         // CPUID 7.EBX bit 11
  bool is_assumed = false;        // TMH_ASSUME_RTM is set: somebody else executes the instructions
  bool under_tsan = false;        // the library is built with ThreadSanitizer
  bool always_aborts = false;     // CPUID 7.EDX bit 11, RTM_ALWAYS_ABORT
  bool under_hypervisor = false;  // CPUID 1.ECX bit 31
  std::string kernel_option;      // of tsx= in /proc/cmdline; empty: not given
  std::string kernel_state;  // /sys/devices/system/cpu/vulnerabilities/tsx_async_abort; empty: the kernel does not tell
  std::uint32_t attempts = 0;  // of the trial; 0: not made, because XBEGIN would be an illegal instruction
  std::uint32_t commits = 0;
};

struct RtmReport {
  bool is_usable = false;
  std::string reason;  // one sentence: why it is or is not used, and how to turn it on
};

// NOT async-signal-safe. The trial takes less than a millisecond.
[[nodiscard]] RtmFacts collect_rtm_facts();
[[nodiscard]] RtmReport judge_rtm(const RtmFacts &facts);
// Both, once per process.
[[nodiscard]] const RtmReport &detect_rtm();

}  // namespace tmh::line
