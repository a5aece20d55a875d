// tools/doctor/collect.cpp -- the facts: /proc and /sys read, probes asked.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/types.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "platform/assert.h"
#include "platform/files.h"
#include "tools/doctor/machine.h"

namespace tmh::tools::doctor {

namespace {

constexpr std::uint32_t kMsrArchCapabilities = 0x10a;  // bit 7: TSX_CTRL exists
constexpr std::uint32_t kMsrTsxForceAbort = 0x10f;     // bit 0: RTM_FORCE_ABORT
constexpr int kCapSysAdmin = 21, kCapPerfmon = 38, kCapBpf = 39;
constexpr int kSigIll = 4;
static_assert(kCapSysAdmin == CAP_SYS_ADMIN && kCapPerfmon == CAP_PERFMON && kCapBpf == CAP_BPF);
static_assert(kSigIll == SIGILL);

std::string first_line(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> number(const std::string &text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

// Value of the first line "key: value", "key\t: value" or "key:   value unit"; empty: none.
std::string value_of(const std::string &path, const std::string &key) {
  TMH_ASSERT(!key.empty());
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos ||
        line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != key)
      continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

std::uint64_t hexadecimal_of(const std::string &path, const std::string &key) {
  const std::string text = value_of(path, key);
  std::uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

// "always [madvise] never": madvise.
std::string chosen_word(const std::string &line) {
  const std::size_t open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos
             ? line
             : line.substr(open + 1, close - open - 1);
}

RtmPart collect_rtm(const Machine &machine) {
  RtmPart part;
  part.processor = line::read_rtm_facts(machine.rtm);
  if (!part.processor.is_x86) return part;
  TMH_ASSERT(machine.rtm.cpuid != nullptr && machine.msr != nullptr &&
             machine.rtm_trial != nullptr);
  const std::string &root = machine.rtm.root;
  // Intel SDM vol. 2, CPUID: extended fields count in families 6 and 15.
  const auto signature = machine.rtm.cpuid(1, 0)[0];
  const std::uint32_t family = signature >> 8 & 15, model = signature >> 4 & 15;
  part.family = family == 15 ? family + (signature >> 20 & 255) : family;
  part.model = family == 6 || family == 15 ? model + ((signature >> 16 & 15) << 4) : model;
  part.stepping = signature & 15;
  const auto features = machine.rtm.cpuid(7, 0);
  part.lists_hle = (features[1] >> 4 & 1) != 0;
  part.has_force_abort = (features[3] >> 13 & 1) != 0;
  const bool has_capabilities = (features[3] >> 29 & 1) != 0;
  if (!has_capabilities) {
    part.processor.has_switch = false;  // no such MSR: no switch either
  } else if (const auto bits = machine.msr(kMsrArchCapabilities)) {
    part.processor.has_switch = (*bits >> 7 & 1) != 0;
  }
  if (part.has_force_abort)
    if (const auto bits = machine.msr(kMsrTsxForceAbort)) part.force_aborts = (*bits & 1) != 0;
  part.microcode = value_of(root + "/proc/cpuinfo", "microcode");
  part.mmio_state = first_line(root + "/sys/devices/system/cpu/vulnerabilities/mmio_stale_data");
  part.catches_sigill =
      (hexadecimal_of(root + "/proc/self/status", "SigCgt") >> (kSigIll - 1) & 1) != 0;
  part.trial = machine.rtm_trial();
  part.processor.attempts = part.trial.attempts;
  part.processor.commits = part.trial.commits;
  return part;
}

PagePart collect_pages(const Machine &machine) {
  const std::string &root = machine.rtm.root;
  PagePart part;
  part.trials = machine.page_trials();
  part.kernel_release = first_line(root + "/proc/sys/kernel/osrelease");
  part.huge_pages = chosen_word(first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  part.shared_huge_pages =
      chosen_word(first_line(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  part.map_count_max = number(first_line(root + "/proc/sys/vm/max_map_count"));
  part.overcommit = number(first_line(root + "/proc/sys/vm/overcommit_memory"));
  part.unprivileged_userfaultfd =
      number(first_line(root + "/proc/sys/vm/unprivileged_userfaultfd"));
  part.unprivileged_bpf_disabled =
      number(first_line(root + "/proc/sys/kernel/unprivileged_bpf_disabled"));
  part.perf_mlock_kib = number(first_line(root + "/proc/sys/kernel/perf_event_mlock_kb"));
  part.commit_limit_kib = number(value_of(root + "/proc/meminfo", "CommitLimit"));
  part.committed_kib = number(value_of(root + "/proc/meminfo", "Committed_AS"));
  const std::uint64_t capabilities = hexadecimal_of(root + "/proc/self/status", "CapEff");
  const auto may = [capabilities](int capability) {
    return (capabilities >> capability & 1) != 0 || (capabilities >> kCapSysAdmin & 1) != 0;
  };
  part.may_perfmon = may(kCapPerfmon);
  part.may_bpf = may(kCapBpf);
  return part;
}

CounterPart collect_counters(const Machine &machine) {
  CounterPart part = machine.counters();
  part.paranoid = number(first_line(machine.rtm.root + "/proc/sys/kernel/perf_event_paranoid"));
  // "cpu", or "cpu_core" and "cpu_atom" on processors with two kinds of cores.
  for (const char *name : {"cpu", "cpu_core"}) {
    std::error_code ignored;
    part.kernel_has_pmu |= std::filesystem::exists(
        machine.rtm.root + "/sys/bus/event_source/devices/" + name, ignored);
  }
  return part;
}

std::optional<std::uint64_t> read_msr(std::uint32_t number) {
  const platform::FileDescriptor file(::open("/dev/cpu/0/msr", O_RDONLY | O_CLOEXEC));
  std::uint64_t value = 0;
  if (!file ||
      ::pread(file.get(), &value, sizeof value, static_cast<off_t>(number)) != sizeof value)
    return std::nullopt;
  return value;
}

}  // namespace

Machine this_machine() {
  return {line::this_machines_rtm_sources(),
          read_msr,
          try_rtm,
          try_pages,
          ask_hwloc,
          ask_libpfm,
          try_storage};
}

Facts collect(const Machine &machine, const std::string &folder) {
  TMH_ASSERT(machine.page_trials != nullptr && machine.counters != nullptr);
  TMH_ASSERT(machine.topology != nullptr && machine.storage != nullptr);
  return {collect_rtm(machine), collect_pages(machine), machine.topology(),
          collect_counters(machine), machine.storage(folder)};
}

}  // namespace tmh::tools::doctor
