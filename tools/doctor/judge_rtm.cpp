// tools/doctor/judge_rtm.cpp -- RTM: the library's own sentence (levels/line/rtm_detection.h), and
// what stands behind it, one by one.
// Source:    Linux arch/x86/kernel/cpu/tsx.c (RTM_ALWAYS_ABORT is looked at before tsx=; tsx= works
//            through the MSR TSX_CTRL alone); Intel 000059422 (RTM_ALWAYS_ABORT); Linux
//            admin-guide/hw-vuln/tsx_async_abort.rst, processor_mmio_stale_data.rst.
#include <fmt/format.h>

#include "levels/line/abort_status.h"
#include "platform/assert.h"
#include "tools/doctor/finding.h"

namespace tmh::tools::doctor {

namespace {

constexpr const char *kNoRemedy =
    "none on this machine: level 1 runs in software, which needs no RTM";

std::string status_text(std::uint32_t status) {
  if (status == 0) return "no cause told (interrupt, fault)";
  std::string text;
  const auto add = [&](std::uint32_t bit, const char *name) {
    if ((status & bit) != 0) text += (text.empty() ? "" : "+") + std::string(name);
  };
  add(line::kStatusExplicit, "explicit");
  add(line::kStatusRetry, "retry");
  add(line::kStatusConflict, "conflict");
  add(line::kStatusCapacity, "capacity");
  add(line::kStatusDebug, "debug");
  add(line::kStatusNested, "nested");
  if ((status & line::kStatusExplicit) != 0)
    text += fmt::format(" (code {})", status >> line::kStatusCodeShift);
  return text;
}

std::string trial_text(const RtmTrial &trial) {
  if (!trial.was_made) return "no trial was made";
  if (trial.was_illegal) return "XBEGIN is an illegal instruction";
  std::string text = fmt::format("{} of {} attempts committed", trial.commits, trial.attempts);
  std::string aborts;
  for (const auto &[status, count] : trial.aborts)
    aborts += fmt::format("{}{}: {}", aborts.empty() ? "" : ", ", status_text(status), count);
  return text + (aborts.empty() ? "; no abort" : "; aborts by status: " + aborts);
}

// A kernel's line about TAA or MMIO stale data.
void judge_mitigation(Judge *judge, const char *subject, const std::string &state,
                      const char *remedy) {
  TMH_ASSERT(judge != nullptr && subject != nullptr && remedy != nullptr);
  if (state.empty())
    return judge->yes(subject, "the kernel does not tell: older than the problem, or not x86");
  if (!state.starts_with("Vulnerable")) return judge->yes(subject, state);
  judge->limited(subject, state,
                 "another program on this core may sample data that transactions touch", remedy);
}

void judge_cpuid(Judge *judge, const RtmPart &facts) {
  TMH_ASSERT(judge != nullptr && facts.processor.vendor == "GenuineIntel");
  const line::RtmFacts &cpu = facts.processor;
  const std::string found =
      fmt::format("{} family {} model {} stepping {}, microcode {}; CPUID lists RTM: {}, HLE: {}",
                  cpu.vendor, facts.family, facts.model, facts.stepping,
                  facts.microcode.empty() ? "not told" : facts.microcode,
                  cpu.is_listed ? "yes" : "no", facts.lists_hle ? "yes" : "no");
  if (cpu.is_listed) return judge->yes("RTM listed by CPUID", found);
  const line::RtmReport report = line::judge_rtm(cpu);
  judge->no("RTM listed by CPUID", found,
            cpu.always_aborts
                ? "the kernel takes RTM off the list when the microcode makes it abort"
                : report.cause,
            report.remedy);
}

void judge_microcode(Judge *judge, const RtmPart &facts) {
  TMH_ASSERT(judge != nullptr && facts.processor.vendor == "GenuineIntel");
  const line::RtmFacts &cpu = facts.processor;
  const std::string found = fmt::format(
      "RTM_ALWAYS_ABORT: {}, RTM_FORCE_ABORT: {}", cpu.always_aborts ? "set" : "not set",
      !facts.has_force_abort            ? "this processor has no such switch"
      : !facts.force_aborts.has_value() ? "not readable (needs root and the module msr)"
      : *facts.force_aborts             ? "set"
                                        : "not set");
  if (cpu.always_aborts)
    return judge->no("microcode lets RTM commit", found,
                     "Intel's microcode since 2021 makes every transaction of this processor abort",
                     kNoRemedy);
  if (facts.force_aborts == true)
    return judge->no(
        "microcode lets RTM commit", found,
        "RTM is switched off while the fourth performance counter is in use (Skylake's erratum)",
        "echo 0 > /sys/devices/cpu/allow_tsx_force_abort, or end the profiler that uses the "
        "counter");
  judge->yes("microcode lets RTM commit", found);
}

void judge_kernel(Judge *judge, const RtmPart &facts) {
  TMH_ASSERT(judge != nullptr && facts.processor.vendor == "GenuineIntel");
  const line::RtmFacts &cpu = facts.processor;
  const std::string found =
      (cpu.kernel_option.empty() ? std::string("no tsx= on the kernel's command line")
                                 : "tsx=" + cpu.kernel_option + " on the kernel's command line") +
      (cpu.has_switch.has_value()
           ? *cpu.has_switch ? "; the processor has the switch (TSX_CTRL)"
                             : "; the processor has no switch (TSX_CTRL)"
           : "; whether the processor has the switch (TSX_CTRL) is not readable");
  if (cpu.is_listed || cpu.always_aborts || cpu.has_switch == false || cpu.kernel_option == "on")
    return judge->yes("kernel leaves TSX on", found);  // or has no part in it
  const line::RtmReport report = line::judge_rtm(cpu);
  if (cpu.has_switch == true)
    return judge->no(
        "kernel leaves TSX on", found, "the kernel has switched TSX off at boot",
        "put tsx=on into GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub, restart");
  judge->limited("kernel leaves TSX on", found,
                 "it may have switched TSX off at boot; that cannot be seen from here",
                 report.remedy);
}

void judge_hypervisor(Judge *judge, const RtmPart &facts) {
  TMH_ASSERT(judge != nullptr && facts.processor.vendor == "GenuineIntel");
  const line::RtmFacts &cpu = facts.processor;
  if (!cpu.under_hypervisor) return judge->yes("no hypervisor below", "CPUID tells of none");
  if (cpu.is_listed && facts.trial.commits > 0)
    return judge->yes("no hypervisor in RTM's way", "there is a hypervisor, and it passes RTM on");
  judge->limited(
      "no hypervisor in RTM's way", "CPUID tells of a hypervisor",
      facts.trial.commits > 0 ? "it hides RTM, which works nevertheless"
                              : "it decides what CPUID lists and may have switched RTM off",
      "ask for an instance type or a host setting with RTM (QEMU: -cpu host, or rtm=on)");
}

void judge_whole(Judge *judge, const RtmPart &facts) {
  TMH_ASSERT(judge != nullptr);
  const line::RtmReport report = line::judge_rtm(facts.processor);
  const std::string found = trial_text(facts.trial);
  if (facts.trial.commits > 0 && facts.catches_sigill)
    return judge->limited("RTM", found,
                          "this process catches SIGILL: an emulator runs the transactions, slowly",
                          "measure without the emulator");
  if (report.is_usable) return judge->yes("RTM", found);
  if (facts.trial.commits > 0) return judge->limited("RTM", found, report.cause, report.remedy);
  judge->no("RTM", found, report.cause, report.remedy);
}

}  // namespace

Findings judge_rtm(const RtmPart &facts) {
  Judge judge("rtm");
  judge_whole(&judge, facts);
  // The rest is about Intel's switches.
  if (facts.processor.vendor != "GenuineIntel") return judge.take();
  judge_cpuid(&judge, facts);
  judge_microcode(&judge, facts);
  judge_kernel(&judge, facts);
  judge_hypervisor(&judge, facts);
  judge_mitigation(&judge, "no TSX asynchronous abort", facts.processor.kernel_state,
                   "update the microcode; or tsx=off where programs do not trust each other");
  judge_mitigation(&judge, "no MMIO stale data", facts.mmio_state,
                   "update the microcode; mmio_stale_data=full,nosmt on the kernel's command line");
  return judge.take();
}

}  // namespace tmh::tools::doctor
