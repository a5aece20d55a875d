// levels/line/rtm_detection.cpp -- CPUID, the kernel's word, and a trial of many attempts.
#include "levels/line/rtm_detection.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <fstream>

#include "levels/line/rtm.h"

namespace tmh::line {

namespace {

// A single attempt may meet an interrupt; a machine on which none of 10,000 commits has RTM switched off (STYLE 5).
constexpr std::uint32_t kTrialAttempts = 10'000;
constexpr std::uint32_t kTrialCommits = 10;  // enough: the trial ends

std::string first_line(const char *path) {
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

std::string how_to_turn_on(const RtmFacts &facts) {
  std::string text;
  if (facts.kernel_option == "off" || facts.kernel_option == "auto" || facts.kernel_option.empty()) {
    text = facts.kernel_option.empty() ? "the kernel was started without tsx=, which means off on most distributions"
                                       : "the kernel was started with tsx=" + facts.kernel_option;
    text += "; on a processor that has RTM, start it with tsx=on";
  } else {
    text = "the kernel was started with tsx=" + facts.kernel_option + ", so the processor or its microcode has none";
  }
  if (facts.under_hypervisor) text += ", and this is a virtual machine, whose host must pass RTM on";
  return text;
}

}  // namespace

RtmFacts collect_rtm_facts() {
  RtmFacts facts;
#if defined(__x86_64__)
  facts.is_x86 = true;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) facts.under_hypervisor = (c >> 31 & 1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    facts.is_listed = (b >> 11 & 1) != 0;
    facts.always_aborts = (d >> 11 & 1) != 0;
  }
#endif
  const char *const assumed = std::getenv("TMH_ASSUME_RTM");
  facts.is_assumed = assumed != nullptr && std::string(assumed) == "1";
#if defined(__SANITIZE_THREAD__)
  facts.under_tsan = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  facts.under_tsan = true;
#endif
#endif
  facts.kernel_option = tsx_option(first_line("/proc/cmdline"));
  facts.kernel_state = first_line("/sys/devices/system/cpu/vulnerabilities/tsx_async_abort");
  if (!facts.is_listed && !facts.is_assumed) return facts;
  while (facts.attempts < kTrialAttempts && facts.commits < kTrialCommits) {
    ++facts.attempts;
    if (try_empty_rtm()) ++facts.commits;
  }
  return facts;
}

RtmReport judge_rtm(const RtmFacts &facts) {
  const std::string counted = std::to_string(facts.commits) + " of " + std::to_string(facts.attempts) + " attempts";
  if (!facts.is_x86) return {false, "RTM is not used: this is no x86-64 processor"};
  if (facts.under_tsan) return {false, "RTM is not used: ThreadSanitizer sees no order between hardware transactions"};
  if (!facts.is_listed && !facts.is_assumed)
    return {false, "RTM is not used: the processor does not list it (CPUID 7.EBX bit 11); " + how_to_turn_on(facts)};
  if (facts.commits >= kTrialCommits)
    return {true, std::string("RTM is used: in a trial ") + counted + " committed" +
                      (facts.is_listed ? "" : " (not listed by the processor; TMH_ASSUME_RTM is set)")};
  if (facts.always_aborts)
    return {false, "RTM is not used: the microcode makes every attempt abort (CPUID 7.EDX bit 11, RTM_ALWAYS_ABORT); " +
                       how_to_turn_on(facts)};
  std::string text = "RTM is not used: the processor lists it, but in a trial only " + counted + " committed";
  if (!facts.kernel_state.empty()) text += " (the kernel says \"" + facts.kernel_state + "\")";
  return {false, text + "; " + how_to_turn_on(facts)};
}

const RtmReport &detect_rtm() {
  static const RtmReport report = judge_rtm(collect_rtm_facts());
  return report;
}

}  // namespace tmh::line
