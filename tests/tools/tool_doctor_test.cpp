// tests/tools/tool_doctor_test.cpp -- tmh doctor: facts read from faked CPUID bits and kernel
// files, and their judgement.
// Invariants: (1) each state of RTM has its one right answer. (2) whatever is not yes has a cause
//             and a remedy, for any facts. (3) the command says yes to what this machine does and
//             never fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "programs/json.h"
#include "tests/support/program.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace tmh::test {
namespace {

using namespace tools::doctor;

constexpr std::uint32_t kHypervisor = 1u << 31;           // CPUID 1.ECX
constexpr std::uint32_t kRtm = 1u << 11, kHle = 1u << 4;  // CPUID 7.EBX
constexpr std::uint32_t kAlwaysAbort = 1u << 11;          // CPUID 7.EDX
constexpr std::uint32_t kForceAbort = 1u << 13, kCapabilities = 1u << 29;

const Finding &find(const Findings &findings, const std::string &subject) {
  const auto at = std::find_if(findings.begin(), findings.end(),
                               [&](const auto &one) { return one.subject == subject; });
  static const Finding kNone{"", "", Verdict::kNo, "no such finding", "", ""};
  EXPECT_NE(at, findings.end()) << subject;
  return at == findings.end() ? kNone : *at;
}

void expect_explained(const Findings &findings) {
  for (const Finding &one : findings) {
    EXPECT_FALSE(one.subject.empty());
    EXPECT_FALSE(one.found.empty()) << one.subject;
    EXPECT_EQ(one.cause.empty(), one.verdict == Verdict::kYes) << one.subject;
    EXPECT_EQ(one.remedy.empty(), one.verdict == Verdict::kYes) << one.subject;
  }
}

// A machine of this test's making: a Xeon on bare metal with a kernel of today, on which everything
// works.
class FakeMachine {
 public:
  FakeMachine() {
    write("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet");
    write("/proc/cpuinfo", "processor\t: 0\nmicrocode\t: 0xd0003e7\n");
    write("/proc/self/status",
          "Name:\ttmh\nSigCgt:\t0000000000000400\nCapEff:\t0000000000000000\n");
    write("/proc/meminfo", "CommitLimit:    8000000 kB\nCommitted_AS:    1000000 kB\n");
    write("/proc/sys/kernel/osrelease", "6.18.0");
    write("/proc/sys/kernel/perf_event_paranoid", "1");
    write("/proc/sys/kernel/perf_event_mlock_kb", "516");
    write("/proc/sys/kernel/unprivileged_bpf_disabled", "0");
    write("/proc/sys/vm/max_map_count", "65530");
    write("/proc/sys/vm/overcommit_memory", "0");
    write("/proc/sys/vm/unprivileged_userfaultfd", "0");
    write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    write("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
          "always within_size advise [never] deny force");
    write("/sys/devices/system/cpu/vulnerabilities/tsx_async_abort", "Not affected");
    write("/sys/devices/system/cpu/vulnerabilities/mmio_stale_data", "Not affected");
    write("/sys/bus/event_source/devices/cpu/type", "4");
    trial = {true, false, kTrialCommits, kTrialCommits, {}};
    pages = {4096, 0, 0, 0, 0, 0, 0, 0, 8u << 20, "kernel-hot", "the cheapest way", ""};
    topology = {"", 1, 1, 8, 16, 48u << 10, 12, 64};
    counters.pmu = "Intel Icelake";
    counters.pmu_events = 70;
    counters.events = {{"perf::CPU-CYCLES", "", 0}, {"RTM_RETIRED:START", "", 0}};
    storage = {"/srv",       0, "ext4", false, false, false, true, 100ull << 30,
               200ull << 30, 0, 21,     90,    80,    120,   0,    70};
  }

  void write(const std::string &path, const std::string &text) {
    const std::filesystem::path file = root_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  [[nodiscard]] Findings findings() const {
    const Findings found = judge(collect(machine(), storage.folder));
    expect_explained(found);
    return found;
  }
  [[nodiscard]] Machine machine() const {
    Machine machine;
    machine.rtm.root = root_.path();
    machine.rtm.cpuid = [this](std::uint32_t leaf, std::uint32_t) -> std::array<std::uint32_t, 4> {
      if (leaf == 0) return {0x1f, 0x756e6547, 0x6c65746e, 0x49656e69};  // "Genu", "ntel", "ineI"
      if (leaf == 1) return {0x000606a6, 0, leaf1_ecx, 0};               // Ice Lake server
      if (leaf == 7) return {0, leaf7_ebx, 0, leaf7_edx};
      return {};
    };
    machine.msr = [this](std::uint32_t number) -> std::optional<std::uint64_t> {
      const auto at = msrs.find(number);
      return at == msrs.end() ? std::nullopt : std::optional(at->second);
    };
    machine.rtm_trial = [this] { return trial; };
    machine.page_trials = [this] { return pages; };
    machine.topology = [this] { return topology; };
    machine.counters = [this] { return counters; };
    machine.storage = [this](const std::string &) { return storage; };
    return machine;
  }

  std::uint32_t leaf1_ecx = 0, leaf7_ebx = kRtm | kHle, leaf7_edx = kCapabilities;
  std::map<std::uint32_t, std::uint64_t> msrs = {{0x10a, 1u << 7}};
  RtmTrial trial;
  PageTrials pages;
  TopologyPart topology;
  CounterPart counters;
  StorageFacts storage;

 private:
  TempFolder root_;
};

const RtmTrial kIllegal{true, true, 0, 0, {}};

TEST(ToolDoctor, RtmThatWorks) {
  FakeMachine fake;
  fake.trial = {true, false, 1'003, kTrialCommits, {{0, 2}, {6, 1}}};
  const Findings found = fake.findings();
  for (const Finding &one : found)
    EXPECT_EQ(one.verdict, Verdict::kYes) << one.subject << ": " << one.cause;
  EXPECT_NE(find(found, "RTM").found.find("1000 of 1003"), std::string::npos)
      << find(found, "RTM").found;
  EXPECT_NE(find(found, "RTM").found.find("retry+conflict: 1"), std::string::npos)
      << find(found, "RTM").found;
  EXPECT_NE(find(found, "RTM listed by CPUID")
                .found.find("family 6 model 106 stepping 6, microcode 0xd0003e7"),
            std::string::npos)
      << find(found, "RTM listed by CPUID").found;
}

TEST(ToolDoctor, TsxOffByBootNamesTheLineToChange) {
  FakeMachine fake;
  fake.leaf7_ebx = 0;
  fake.trial = kIllegal;
  fake.write("/proc/cmdline", "root=/dev/sda1 tsx=on quiet tsx=off");  // the last one counts
  fake.write("/sys/devices/system/cpu/vulnerabilities/tsx_async_abort", "Mitigation: TSX disabled");
  Findings found = fake.findings();
  EXPECT_EQ(find(found, "RTM").verdict, Verdict::kNo);
  EXPECT_NE(find(found, "RTM").remedy.find("tsx=on (GRUB_CMDLINE_LINUX in /etc/default/grub"),
            std::string::npos);
  EXPECT_EQ(find(found, "kernel leaves TSX on").verdict, Verdict::kNo);
  EXPECT_NE(find(found, "kernel leaves TSX on").found.find("tsx=off"), std::string::npos);
  EXPECT_NE(find(found, "kernel leaves TSX on").remedy.find("put tsx=on"), std::string::npos);
  EXPECT_EQ(find(found, "no TSX asynchronous abort").verdict, Verdict::kYes);
  // Without permission to read MSRs nobody can tell whether the processor has any: said, not
  // guessed.
  fake.msrs.clear();
  found = fake.findings();
  EXPECT_EQ(find(found, "kernel leaves TSX on").verdict, Verdict::kLimited);
  // A processor without the switch: tsx= has no part in it, and nobody is sent to the boot loader.
  fake.msrs[0x10a] = 0;
  found = fake.findings();
  EXPECT_EQ(find(found, "RTM").remedy.find("tsx=on"), std::string::npos)
      << find(found, "RTM").remedy;
  EXPECT_EQ(find(found, "kernel leaves TSX on").verdict, Verdict::kYes);
}

TEST(ToolDoctor, AlwaysAbortIsNotMendedByTheKernel) {
  for (const bool is_listed : {false, true}) {  // Linux takes RTM off the list then; others do not
    FakeMachine fake;
    fake.leaf7_ebx = is_listed ? kRtm : 0;
    fake.leaf7_edx = kCapabilities | kAlwaysAbort | kForceAbort;
    fake.trial = {true, false, 20 * kTrialCommits, 0, {{0, 20 * kTrialCommits}}};
    fake.write("/proc/cmdline", "tsx=off");
    const Findings found = fake.findings();
    EXPECT_EQ(find(found, "RTM").verdict, Verdict::kNo);
    EXPECT_NE(find(found, "RTM").cause.find("RTM_ALWAYS_ABORT"), std::string::npos);
    EXPECT_NE(find(found, "RTM").remedy.find("no kernel option"), std::string::npos);
    EXPECT_EQ(find(found, "microcode lets RTM commit").verdict, Verdict::kNo);
    EXPECT_EQ(find(found, "kernel leaves TSX on").verdict, Verdict::kYes);
  }
}

TEST(ToolDoctor, ForceAbortIsThePerformanceCountersFault) {
  FakeMachine fake;
  fake.leaf7_edx = kCapabilities | kForceAbort;
  fake.msrs[0x10f] = 1;
  fake.trial = {true, false, 20 * kTrialCommits, 0, {{0, 20 * kTrialCommits}}};
  Findings found = fake.findings();
  EXPECT_EQ(find(found, "RTM").verdict, Verdict::kNo);
  EXPECT_NE(find(found, "microcode lets RTM commit").remedy.find("allow_tsx_force_abort"),
            std::string::npos);
  fake.msrs[0x10f] = 0;
  found = fake.findings();
  EXPECT_EQ(find(found, "microcode lets RTM commit").verdict, Verdict::kYes);
}

TEST(ToolDoctor, RtmHiddenByTheHypervisorButWorking) {
  FakeMachine fake;
  fake.leaf1_ecx = kHypervisor;
  fake.leaf7_ebx = 0;
  fake.leaf7_edx = 0;
  fake.msrs.clear();
  const Findings found = fake.findings();
  EXPECT_EQ(find(found, "RTM").verdict, Verdict::kLimited);
  EXPECT_NE(find(found, "RTM").cause.find("does not list it"), std::string::npos);
  EXPECT_NE(find(found, "RTM").cause.find("1000 of 1000"), std::string::npos);
  EXPECT_NE(find(found, "RTM").remedy.find("-cpu host"), std::string::npos);
  EXPECT_EQ(find(found, "no hypervisor in RTM's way").verdict, Verdict::kLimited);
}

TEST(ToolDoctor, AnEmulatorIsNoProcessor) {
  FakeMachine fake;
  fake.leaf7_ebx = 0;
  fake.write("/proc/self/status", "SigCgt:\t0000000000000408\nCapEff:\t0000000000000000\n");
  const Findings found = fake.findings();
  EXPECT_EQ(find(found, "RTM").verdict, Verdict::kLimited);
  EXPECT_NE(find(found, "RTM").cause.find("emulator"), std::string::npos);
}

TEST(ToolDoctor, VulnerableProcessorsAreLimited) {
  FakeMachine fake;
  fake.write("/sys/devices/system/cpu/vulnerabilities/tsx_async_abort", "Vulnerable");
  fake.write("/sys/devices/system/cpu/vulnerabilities/mmio_stale_data",
             "Vulnerable: Clear CPU buffers attempted, no microcode");
  const Findings found = fake.findings();
  EXPECT_EQ(find(found, "RTM").verdict, Verdict::kYes);
  EXPECT_EQ(find(found, "no TSX asynchronous abort").verdict, Verdict::kLimited);
  EXPECT_EQ(find(found, "no MMIO stale data").verdict, Verdict::kLimited);
}

TEST(ToolDoctor, UserfaultfdRefusedMissingOrOld) {
  FakeMachine fake;
  fake.pages.userfaultfd = EPERM;
  fake.pages.wp_async = kNotTried;
  fake.pages.tracking = "signal-hot";
  fake.pages.tracking_reason =
      "kernel tracking is not permitted here: userfaultfd: Operation not permitted";
  Findings found = fake.findings();
  EXPECT_EQ(find(found, "userfaultfd").verdict, Verdict::kNo);
  EXPECT_NE(find(found, "userfaultfd").remedy.find("seccomp"), std::string::npos);
  EXPECT_EQ(find(found, "page tracking").verdict, Verdict::kLimited);
  EXPECT_NE(find(found, "page tracking").cause.find("userfaultfd"), std::string::npos);
  fake.pages.userfaultfd = ENOSYS;
  found = fake.findings();
  EXPECT_NE(find(found, "userfaultfd").cause.find("CONFIG_USERFAULTFD"), std::string::npos);
  fake.pages.userfaultfd = EINVAL;
  found = fake.findings();
  EXPECT_NE(find(found, "userfaultfd").cause.find("5.11"), std::string::npos);
}

TEST(ToolDoctor, OldKernelsAreToldApart) {
  FakeMachine fake;  // Debian 12
  fake.write("/proc/sys/kernel/osrelease", "6.1.0-28-amd64");
  fake.pages.wp_async = EINVAL;
  fake.pages.pagemap_scan = ENOTTY;
  fake.pages.guards = EINVAL;
  const Findings found = fake.findings();
  for (const char *subject :
       {"userfaultfd WP_ASYNC", "PAGEMAP_SCAN", "guard pages (MADV_GUARD_INSTALL on files)"}) {
    EXPECT_EQ(find(found, subject).verdict, Verdict::kNo) << subject;
    EXPECT_NE(find(found, subject).found.find("6.1.0"), std::string::npos) << subject;
    EXPECT_NE(find(found, subject).remedy.find("newer kernel"), std::string::npos) << subject;
  }
  EXPECT_NE(find(found, "guard pages (MADV_GUARD_INSTALL on files)").cause.find("6.15"),
            std::string::npos);
}

TEST(ToolDoctor, PerfEventParanoid) {
  FakeMachine fake;
  struct Case {
    const char *paranoid;
    Verdict verdict;
  };
  for (const Case &one :
       {Case{"-1", Verdict::kYes}, Case{"1", Verdict::kYes}, Case{"2", Verdict::kLimited},
        Case{"3", Verdict::kNo}, Case{"4", Verdict::kNo}}) {
    fake.write("/proc/sys/kernel/perf_event_paranoid", one.paranoid);
    fake.pages.perf_open = one.verdict == Verdict::kYes ? 0 : EACCES;
    fake.counters.events[0].open_error = one.verdict == Verdict::kNo ? EACCES : 0;
    const Findings found = fake.findings();
    EXPECT_EQ(find(found, "permission to count").verdict, one.verdict) << one.paranoid;
    const Finding &ring = find(found, "perf page-fault events");
    EXPECT_EQ(ring.verdict, one.verdict == Verdict::kYes ? Verdict::kYes : Verdict::kNo)
        << one.paranoid;
    if (ring.verdict != Verdict::kYes) {
      EXPECT_NE(ring.remedy.find("perf_event_paranoid=1"), std::string::npos);
    }
    EXPECT_EQ(find(found, "perf::CPU-CYCLES").verdict,
              one.verdict == Verdict::kNo ? Verdict::kNo : Verdict::kYes);
  }
  // CAP_PERFMON (bit 38) permits whatever the number says.
  fake.write("/proc/self/status", "CapEff:\t0000004000000000\n");
  fake.pages.perf_open = 0;
  EXPECT_EQ(find(fake.findings(), "permission to count").verdict, Verdict::kYes);
  // In spite of it: a sandbox, and no sysctl helps.
  fake.pages.perf_open = EPERM;
  EXPECT_EQ(find(fake.findings(), "perf page-fault events").remedy.find("sysctl"),
            std::string::npos);
  fake.pages.perf_open = 0;
  fake.pages.perf_ring = EPERM;
  EXPECT_NE(find(fake.findings(), "perf page-fault events").remedy.find("mlock"),
            std::string::npos);
}

TEST(ToolDoctor, ProtectionKeysSayWhatTheirAbsenceCosts) {
  FakeMachine fake;
  EXPECT_EQ(find(fake.findings(), "protection keys").verdict, Verdict::kYes);
  fake.pages.key_refusal = "the processor has no protection keys";
  const Findings found = fake.findings();
  EXPECT_EQ(find(found, "protection keys").verdict, Verdict::kLimited);
  EXPECT_EQ(find(found, "protection keys").cause, fake.pages.key_refusal);
  EXPECT_NE(find(found, "protection keys").remedy.find("TMH_TRACKING=signal"), std::string::npos);
}

TEST(ToolDoctor, HugePagesOvercommitAndAreas) {
  FakeMachine fake;
  fake.write("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never");
  fake.write("/proc/sys/vm/overcommit_memory", "2");
  fake.write("/proc/sys/vm/max_map_count", "10000");
  Findings found = fake.findings();
  EXPECT_EQ(find(found, "no huge pages in the way").verdict, Verdict::kLimited);
  EXPECT_NE(find(found, "no huge pages in the way").remedy.find("madvise >"), std::string::npos);
  EXPECT_EQ(find(found, "address space for segments").verdict, Verdict::kNo);
  EXPECT_NE(find(found, "address space for segments").remedy.find("vm.overcommit_memory=0"),
            std::string::npos);
  EXPECT_EQ(find(found, "memory areas").verdict, Verdict::kLimited);
  fake.write("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
             "[always] within_size advise never deny force");
  found = fake.findings();
  EXPECT_NE(find(found, "no huge pages in the way").cause.find("tmpfs"), std::string::npos);
}

TEST(ToolDoctor, CountersThatAHypervisorKeeps) {
  FakeMachine fake;
  fake.leaf1_ecx = kHypervisor;
  Machine machine = fake.machine();
  machine.counters = [&] {
    CounterPart part = fake.counters;
    part.events[0].open_error = ENOENT;
    part.events[1] = {"RTM_RETIRED:START", "event not found", kNotTried};
    return part;
  };
  Facts facts = collect(machine, "/srv");
  EXPECT_TRUE(facts.counters.kernel_has_pmu);
  facts.counters.kernel_has_pmu = false;
  Findings found = judge(facts);
  expect_explained(found);
  EXPECT_NE(find(found, "perf::CPU-CYCLES").cause.find("hypervisor"), std::string::npos);
  EXPECT_NE(find(found, "RTM_RETIRED:START").cause.find("Intel Icelake"), std::string::npos);
  facts.counters.pmu.clear();
  found = judge(facts);
  EXPECT_EQ(find(found, "PMU recognised").verdict, Verdict::kNo);
  EXPECT_NE(find(found, "RTM_RETIRED:START").remedy.find("newer libpfm4"), std::string::npos);
}

TEST(ToolDoctor, FoldersInMemoryAndFullDisks) {
  FakeMachine fake;
  fake.storage.is_memory = true;
  fake.storage.file_system = "tmpfs";
  Findings found = fake.findings();
  EXPECT_EQ(find(found, "file system").verdict, Verdict::kLimited);
  EXPECT_EQ(find(found, "fdatasync").verdict, Verdict::kLimited);
  fake.storage.free_bytes = 0;
  fake.storage.write_error = ENOSPC;
  found = fake.findings();
  EXPECT_EQ(find(found, "free space").verdict, Verdict::kNo);
  EXPECT_NE(find(found, "free space").remedy.find("kDiskFull"), std::string::npos);
  EXPECT_EQ(find(found, "writing").verdict, Verdict::kNo);
  EXPECT_TRUE(std::none_of(found.begin(), found.end(),
                           [](const auto &one) { return one.subject == "fdatasync"; }));
  fake.storage.write_error = EROFS;
  EXPECT_NE(find(fake.findings(), "writing").cause.find("read-only"), std::string::npos);
  fake.storage.folder_error = ENOENT;
  EXPECT_EQ(find(fake.findings(), "folder").verdict, Verdict::kNo);
}

TEST(ToolDoctor, DisksThatAreTooFastTooSlowOrNotDirect) {
  FakeMachine fake;
  fake.storage.direct_error = EINVAL;
  fake.storage.sync_us_median = 1;
  Findings found = fake.findings();
  EXPECT_EQ(find(found, "O_DIRECT").verdict, Verdict::kLimited);
  EXPECT_NE(find(found, "fdatasync").cause.find("acknowledges"), std::string::npos);
  fake.storage.sync_us_median = 9'000;
  found = fake.findings();
  EXPECT_EQ(find(found, "fdatasync").verdict, Verdict::kLimited);
}

// Whatever the facts are, nothing is refused without a cause and a remedy, and nothing crashes.
TEST(ToolDoctor, EveryNoIsExplained) {
  std::mt19937_64 random(seed());
  const auto flip = [&] { return (random() & 1) != 0; };
  const auto error = [&] {
    static constexpr int kErrors[] = {kNotTried, 0,      EPERM,  EACCES, ENOSYS, EINVAL,
                                      ENOTTY,    ENOENT, ENOSPC, EROFS,  EIO};
    return kErrors[random() % std::size(kErrors)];
  };
  for (int round = 0; round < 2'000; ++round) {
    Facts facts;
    line::RtmFacts &cpu = facts.rtm.processor;
    cpu.is_x86 = flip();
    cpu.vendor = flip() ? "GenuineIntel" : flip() ? "AuthenticAMD" : "";
    cpu.is_listed = flip();
    cpu.always_aborts = flip();
    cpu.under_hypervisor = flip();
    cpu.kernel_option = flip() ? "" : flip() ? "on" : "off";
    if (flip()) cpu.has_switch = flip();
    facts.rtm.trial.was_made = flip();
    facts.rtm.trial.was_illegal = flip();
    facts.rtm.trial.attempts = cpu.attempts = static_cast<std::uint32_t>(random() % 20'000);
    facts.rtm.trial.commits = cpu.commits =
        flip() ? static_cast<std::uint32_t>(random() % 1'001) : 0;
    if (flip()) facts.rtm.trial.aborts[static_cast<std::uint32_t>(random())] = 1;
    if (flip()) facts.rtm.force_aborts = flip();
    facts.rtm.has_force_abort = flip();
    facts.rtm.catches_sigill = flip();
    facts.rtm.mmio_state = flip() ? "" : "Vulnerable";
    PageTrials &trials = facts.pages.trials;
    trials = {flip() ? 4096 : 16384,
              error(),
              error(),
              error(),
              error(),
              error(),
              error(),
              error(),
              random(),
              "",
              "why",
              ""};
    if (flip()) trials.tracking = flip() ? "kernel-hot" : "signal";
    if (flip()) trials.key_refusal = "the processor has none";
    facts.pages.huge_pages = flip() ? "" : "always";
    facts.pages.shared_huge_pages = flip() ? "never" : "force";
    if (flip()) facts.pages.map_count_max = static_cast<std::int64_t>(random() % 100'000);
    if (flip()) facts.pages.overcommit = static_cast<std::int64_t>(random() % 3);
    facts.pages.may_perfmon = flip();
    facts.pages.may_bpf = flip();
    facts.topology = {
        flip() ? "" : "no", flip() ? 1u : 2u,   1, 2, flip() ? 1u : 2u, flip() ? 32768u : 0,
        flip() ? 8u : 0,    flip() ? 64u : 128u};
    facts.counters.pmu = flip() ? "" : "Intel Icelake";
    facts.counters.library_error = flip() ? "" : "not supported";
    facts.counters.kernel_has_pmu = flip();
    if (flip()) facts.counters.paranoid = static_cast<std::int64_t>(random() % 6) - 1;
    facts.counters.events = {{"cycles", flip() ? "" : "not found", error()}};
    StorageFacts &storage = facts.storage;
    storage = {"/srv",   error(), "xfs",   flip(),
               flip(),   flip(),  flip(),  random() % (1u << 30),
               1u << 30, error(), 21,      static_cast<double>(random() % 10'000),
               0,        0,       error(), 1};
    expect_explained(judge(facts));
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(ToolDoctor, TheCommandTellsWhatThisMachineDoes) {
  const TempFolder folder;
  const ProgramEnd end = run_program({TMH_TOOL, "doctor", folder.path(), "--json"});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const auto document = programs::Json::parse(end.out);
  EXPECT_EQ(document.at("document"), "tmh-doctor-1");
  EXPECT_GT(document.at("storage").at("free_bytes"), 0);
  const bool commits = document.at("rtm_trial").at("commits") == kTrialCommits;
  EXPECT_EQ(commits, try_rtm().commits == kTrialCommits);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // the probe's file is gone
  const ProgramEnd text = run_program({TMH_TOOL, "doctor", folder / "nowhere"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("ENOENT"), std::string::npos) << text.out;
}

}  // namespace
}  // namespace tmh::test
