// tools/doctor/facts.h -- what `tmh doctor` finds out about a machine. Plain values: judge() needs
// nothing else, so a test can describe any machine.
// Units:     an `error` is an errno; 0: it works. kNotTried where the question made no sense.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levels/line/rtm_detection.h"

namespace tmh::tools::doctor {

inline constexpr int kNotTried = -1;
static_assert(kNotTried < 0, "no errno is negative");

// Small transactions that count in memory, until kTrialCommits have committed.
struct RtmTrial {
  bool was_made = false;
  bool was_illegal = false;  // XBEGIN raised SIGILL
  std::uint32_t attempts = 0;
  std::uint32_t commits = 0;
  std::map<std::uint32_t, std::uint32_t> aborts;  // how often, by RTM's status
};

struct RtmPart {
  line::RtmFacts processor;
  RtmTrial trial;
  bool lists_hle = false;
  bool has_force_abort = false;  // CPUID 7.EDX bit 13: the MSR TSX_FORCE_ABORT exists
  // Its bit 0, RTM_FORCE_ABORT; empty: no such MSR, or not readable.
  std::optional<bool> force_aborts;
  // A handler of SIGILL is installed in this process: an emulator.
  bool catches_sigill = false;
  std::uint32_t family = 0, model = 0, stepping = 0;
  std::string microcode;   // of /proc/cpuinfo; empty: not told
  std::string mmio_state;  // vulnerabilities/mmio_stale_data
};

// Each mechanism tried once, as the engine uses it.
struct PageTrials {
  std::int64_t page_bytes = 0;
  int userfaultfd = kNotTried;
  int wp_async = kNotTried;
  int pagemap_scan = kNotTried;
  int guards = kNotTried;           // MADV_GUARD_INSTALL on a private view of a file
  int perf_open = kNotTried;        // page faults with kernel mode
  int perf_ring = kNotTried;        // mapping its ring
  int bpf = kNotTried;              // loading a raw tracepoint program
  std::uint64_t memlock_bytes = 0;  // soft limit; ~0: none
  std::string tracking;             // that a domain opened now uses; empty: none could be opened
  std::string tracking_reason;      // or why no domain could be opened
  std::string key_refusal;          // why the process gets no protection key; empty: it has one
};

struct PagePart {
  PageTrials trials;
  std::string kernel_release;
  // The chosen word of transparent_hugepage/enabled, shmem_enabled; empty: not told.
  std::string huge_pages, shared_huge_pages;
  std::optional<std::int64_t> map_count_max, overcommit, unprivileged_userfaultfd,
      unprivileged_bpf_disabled;
  std::optional<std::int64_t> commit_limit_kib, committed_kib, perf_mlock_kib;
  bool may_perfmon = false, may_bpf = false;  // CAP_PERFMON, CAP_BPF, or CAP_SYS_ADMIN, effective
};

struct TopologyPart {
  std::string error;  // why hwloc has nothing to tell; empty: it has
  std::uint32_t packages = 0, numa_nodes = 0, cores = 0, threads = 0;
  std::uint64_t l1d_bytes = 0;  // 0: unknown, as the next two
  std::uint32_t l1d_ways = 0, line_bytes = 0;
};

struct EventFacts {
  std::string name;     // as libpfm4 spells it
  std::string unknown;  // libpfm4's sentence when it cannot encode it
  int open_error = kNotTried;
};

struct CounterPart {
  std::string library_error;  // libpfm4 could not start
  std::string pmu;            // description of the processor's; empty: not recognised
  std::uint32_t pmu_events = 0;
  bool kernel_has_pmu = false;  // /sys/bus/event_source/devices/cpu*
  std::optional<std::int64_t> paranoid;
  std::vector<EventFacts> events;
};

struct StorageFacts {
  std::string folder;
  int folder_error = kNotTried;  // opening the folder
  std::string file_system;       // name, or "type 0x..."
  bool is_memory = false, is_network = false, is_overlay = false, is_known = false;
  std::uint64_t free_bytes = 0, total_bytes = 0;  // free: to this user
  // Making and filling the probe's file, or syncing it.
  int write_error = kNotTried;
  std::uint32_t rounds = 0;
  // 4 KiB into written space, then fdatasync
  double sync_us_median = 0, sync_us_min = 0, sync_us_max = 0;
  // O_DIRECT | O_DSYNC, as the log writes
  int direct_error = kNotTried;
  double direct_us_median = 0;
};

struct Facts {
  RtmPart rtm;
  PagePart pages;
  TopologyPart topology;
  CounterPart counters;
  StorageFacts storage;
};

}  // namespace tmh::tools::doctor
