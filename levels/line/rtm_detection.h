// levels/line/rtm_detection.h -- can this machine run RTM transactions, and if not, why not and
// what would help?
// Override:  TMH_ASSUME_RTM=1 skips the look at CPUID, for machines where XBEGIN raises SIGILL and
//            an emulator in this process answers it. The trial decides as ever.
// Shape:     facts are collected (CPUID, kernel, a trial), then judged by a pure function, which
//            tests give facts of other machines. What is read is injected (RtmSources): tests and
//            `tmh doctor` share the reading and the judgement with the library.
// Source:    Intel SDM vol. 1, chapter 16; Linux admin-guide/hw-vuln/tsx_async_abort.rst.
//            docs/design.md 4: only a trial commit proves RTM.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tmh::line {

struct RtmSources {
  // EAX, EBX, ECX, EDX; all 0 where there is no such leaf. Empty: no x86-64 processor.
  std::function<std::array<std::uint32_t, 4>(std::uint32_t leaf, std::uint32_t subleaf)> cpuid;
  std::string root;  // stands before /proc and /sys; empty: this machine's
};
[[nodiscard]] RtmSources this_machines_rtm_sources();

struct RtmFacts {
  bool is_x86 = false;
  std::string vendor;             // "GenuineIntel"; empty: not known
  bool is_listed = false;         // CPUID 7.EBX bit 11
  bool is_assumed = false;        // TMH_ASSUME_RTM is set: an emulator executes the instructions
  bool under_tsan = false;        // the library is built with ThreadSanitizer
  bool always_aborts = false;     // CPUID 7.EDX bit 11, RTM_ALWAYS_ABORT
  bool under_hypervisor = false;  // CPUID 1.ECX bit 31
  // IA32_ARCH_CAPABILITIES bit 7, TSX_CTRL: what tsx= works through. Not known where nobody has
  // read the MSR.
  std::optional<bool> has_switch;
  std::string kernel_option;  // of tsx= in /proc/cmdline; empty: not given
  // /sys/devices/system/cpu/vulnerabilities/tsx_async_abort; empty: the kernel does not tell
  std::string kernel_state;
  // Of the trial; 0: not made, because XBEGIN would be an illegal instruction.
  std::uint32_t attempts = 0;
  std::uint32_t commits = 0;
};

struct RtmReport {
  bool is_usable = false;
  std::string reason;  // one sentence: why it is or is not used, and how to turn it on
  std::string cause;   // its two halves; empty when RTM is usable
  std::string remedy;
};

// NOT async-signal-safe. Without a trial.
[[nodiscard]] RtmFacts read_rtm_facts(const RtmSources &sources);
// This machine's, with a trial, which takes less than a millisecond.
[[nodiscard]] RtmFacts collect_rtm_facts();
[[nodiscard]] RtmReport judge_rtm(const RtmFacts &facts);
// Both, once per process.
[[nodiscard]] const RtmReport &detect_rtm();

}  // namespace tmh::line
