// levels/line/rtm_detection.cpp -- CPUID, the kernel's word, and a trial of many attempts.
#include "levels/line/rtm_detection.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <fstream>
#include <utility>

#include "levels/line/rtm.h"

namespace tmh::line {

namespace {

// A single attempt may meet an interrupt; a machine on which none of 10,000 commits has RTM
// switched off (docs/style.md 5).
constexpr std::uint32_t kTrialAttempts = 10'000;
constexpr std::uint32_t kTrialCommits = 10;  // enough: the trial ends

std::string first_line(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of tsx= in a kernel command line.
std::string tsx_option(const std::string &command_line) {
  std::string option;
  for (std::size_t at = 0; at < command_line.size();) {
    const std::size_t end = command_line.find(' ', at);
    const std::string word = command_line.substr(at, end - at);
    if (word.starts_with("tsx=")) option = word.substr(4);  // the last one counts
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return option;
}

RtmReport refuse(std::string cause, std::string remedy) {
  std::string reason = "RTM is not used: " + cause + "; " + remedy;
  return {false, std::move(reason), std::move(cause), std::move(remedy)};
}

std::string how_to_turn_on(const RtmFacts &facts) {
  if (!facts.vendor.empty() && facts.vendor != "GenuineIntel")
    return "no processor of " + facts.vendor + " has RTM, so level 1 runs in software";
  std::string text;
  if (facts.has_switch == false) {
    text =
        "this processor has no switch that tsx= could turn (IA32_ARCH_CAPABILITIES bit 7), so "
        "level 1 runs in software";
  } else if (facts.kernel_option == "off" || facts.kernel_option == "auto" ||
             facts.kernel_option.empty()) {
    text = facts.kernel_option.empty()
               ? "the kernel was started without tsx=, which means off on most distributions"
               : "the kernel was started with tsx=" + facts.kernel_option;
    text +=
        "; on a processor that has RTM, start it with tsx=on (GRUB_CMDLINE_LINUX in "
        "/etc/default/grub, then "
        "update-grub and a restart)";
  } else {
    text = "the kernel was started with tsx=" + facts.kernel_option +
           ", so the processor or its microcode has none";
  }
  if (facts.under_hypervisor)
    text += ", and this is a virtual machine, whose host must pass RTM on";
  return text;
}

}  // namespace

RtmSources this_machines_rtm_sources() {
  RtmSources sources;
#if defined(__x86_64__)
  sources.cpuid = [](std::uint32_t leaf, std::uint32_t subleaf) {
    std::array<std::uint32_t, 4> registers{};
    (void)__get_cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2],
                            &registers[3]);
    return registers;
  };
#endif
  return sources;
}

RtmFacts read_rtm_facts(const RtmSources &sources) {
  RtmFacts facts;
  if (sources.cpuid) {
    facts.is_x86 = true;
    const auto vendor = sources.cpuid(0, 0);
    for (const std::size_t at : {1u, 3u, 2u})  // the name lies in EBX, EDX, ECX
      facts.vendor.append(reinterpret_cast<const char *>(&vendor[at]), sizeof vendor[at]);
    facts.vendor.resize(facts.vendor.find_last_not_of('\0') + 1);
    facts.under_hypervisor = (sources.cpuid(1, 0)[2] >> 31 & 1) != 0;
    const auto features = sources.cpuid(7, 0);
    facts.is_listed = (features[1] >> 11 & 1) != 0;
    facts.always_aborts = (features[3] >> 11 & 1) != 0;
  }
  facts.kernel_option = tsx_option(first_line(sources.root + "/proc/cmdline"));
  facts.kernel_state =
      first_line(sources.root + "/sys/devices/system/cpu/vulnerabilities/tsx_async_abort");
  return facts;
}

RtmFacts collect_rtm_facts() {
  RtmFacts facts = read_rtm_facts(this_machines_rtm_sources());
  const char *const assumed = std::getenv("TMH_ASSUME_RTM");
  facts.is_assumed = assumed != nullptr && std::string(assumed) == "1";
#if defined(__SANITIZE_THREAD__)
  facts.under_tsan = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  facts.under_tsan = true;
#endif
#endif
  if (!facts.is_listed && !facts.is_assumed) return facts;
  while (facts.attempts < kTrialAttempts && facts.commits < kTrialCommits) {
    ++facts.attempts;
    if (try_empty_rtm()) ++facts.commits;
  }
  return facts;
}

RtmReport judge_rtm(const RtmFacts &facts) {
  const std::string counted =
      std::to_string(facts.commits) + " of " + std::to_string(facts.attempts) + " attempts";
  if (!facts.is_x86) return refuse("this is no x86-64 processor", "level 1 runs in software");
  if (facts.under_tsan)
    return refuse("ThreadSanitizer sees no order between hardware transactions",
                  "level 1 runs in software");
  const bool works = facts.commits >= kTrialCommits;
  if (works && facts.is_listed)
    return {true, "RTM is used: in a trial " + counted + " committed", {}, {}};
  if (works && facts.is_assumed)
    return {true,
            "RTM is used: in a trial " + counted +
                " committed (not listed by the processor; TMH_ASSUME_RTM is set)",
            {},
            {}};
  if (works)
    return refuse(
        "the processor does not list it (CPUID 7.EBX bit 11), although in a trial " + counted +
            " committed",
        facts.under_hypervisor
            ? "the host hides it and must list it (QEMU: -cpu host, or rtm=on), or TMH_ASSUME_RTM=1"
            : "something below this program runs RTM without saying so, for instance an emulator; "
              "TMH_ASSUME_RTM=1 uses it");
  // Before the list: a kernel that sees this bit takes RTM off the list, whatever tsx= says.
  if (facts.always_aborts)
    return refuse("the microcode makes every attempt abort (CPUID 7.EDX bit 11, RTM_ALWAYS_ABORT)",
                  "no kernel option changes this, tsx=on neither; level 1 runs in software");
  if (!facts.is_listed)
    return refuse("the processor does not list it (CPUID 7.EBX bit 11)", how_to_turn_on(facts));
  std::string cause = "the processor lists it, but in a trial only " + counted + " committed";
  if (!facts.kernel_state.empty()) cause += " (the kernel says \"" + facts.kernel_state + "\")";
  return refuse(std::move(cause), how_to_turn_on(facts));
}

const RtmReport &detect_rtm() {
  static const RtmReport report = judge_rtm(collect_rtm_facts());
  return report;
}

}  // namespace tmh::line
