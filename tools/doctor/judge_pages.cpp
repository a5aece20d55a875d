// tools/doctor/judge_pages.cpp -- what level 2 stands on: userfaultfd, PAGEMAP_SCAN, guards, perf,
// limits; and what the engine makes of it.
#include <fmt/format.h>

#include <cerrno>

#include <tmh/options.hpp>

#include "platform/assert.h"
#include "tools/doctor/finding.h"

namespace tmh::tools::doctor {

namespace {

constexpr const char *kNewerKernel =
    "a newer kernel (Debian 12: apt install -t bookworm-backports linux-image-amd64); until then "
    "signal tracking does "
    "the work";
constexpr const char *kSandbox =
    "run outside the sandbox, or let its seccomp profile permit the call (docker: --security-opt "
    "seccomp=PROFILE)";

std::string text_of(const std::optional<std::int64_t> &value) {
  return value ? std::to_string(*value) : "absent";
}

class Pages {
 public:
  Pages(const PagePart &facts, const CounterPart &counters) : facts_(facts), counters_(counters) {}

  Findings all() {
    tracking();
    page_size();
    userfaultfd();
    pagemap_scan();
    guards();
    perf();
    protection_keys();
    bpf();
    huge_pages();
    map_count();
    overcommit();
    return judge_.take();
  }

 private:
  // The sum of the others, in the engine's own words.
  void tracking() {
    const std::string found = facts_.trials.tracking + ": " + facts_.trials.tracking_reason;
    if (facts_.trials.tracking.empty())
      return judge_.no(
          "page tracking", "no domain could be opened", facts_.trials.tracking_reason,
          "mend what the sentence names; TMPDIR says where the trial's folder is made");
    if (facts_.trials.tracking.starts_with("kernel")) return judge_.yes("page tracking", found);
    judge_.limited("page tracking", facts_.trials.tracking, facts_.trials.tracking_reason,
                   "see the findings below that are not yes, and TMH_TRACKING, TMH_DETECTION in "
                   "the environment");
  }

  void page_size() {
    const std::string found = fmt::format("{} bytes", facts_.trials.page_bytes);
    if (facts_.trials.page_bytes == static_cast<std::int64_t>(kPageBytes))
      return judge_.yes("4 KiB pages", found);
    judge_.no("4 KiB pages", found, "blocks of level 2 are pages of 4096 bytes",
              "a kernel built with 4 KiB pages");
  }

  void userfaultfd() {
    const int error = facts_.trials.userfaultfd;
    const std::string setting =
        "vm.unprivileged_userfaultfd " + text_of(facts_.unprivileged_userfaultfd);
    if (error == 0) {
      judge_.yes("userfaultfd", "permitted; " + setting);
      const int wp = facts_.trials.wp_async;
      if (wp == 0) return judge_.yes("userfaultfd WP_ASYNC", "Linux " + facts_.kernel_release);
      return judge_.no("userfaultfd WP_ASYNC",
                       "Linux " + facts_.kernel_release + ": " + error_text(wp),
                       "it came with Linux 6.7", kNewerKernel);
    }
    const std::string found = error_text(error) + "; " + setting;
    if (error == EPERM || error == EACCES)
      return judge_.no("userfaultfd", found,
                       "a sandbox refuses it: the user-mode form needs no privilege", kSandbox);
    if (error == ENOSYS)
      return judge_.no("userfaultfd", found,
                       "the kernel was built without CONFIG_USERFAULTFD, or a sandbox hides it",
                       std::string("a distribution's kernel; ") + kSandbox);
    if (error == EINVAL)
      return judge_.no("userfaultfd", found,
                       "its user-mode form (UFFD_USER_MODE_ONLY) came with Linux 5.11",
                       kNewerKernel);
    judge_.no("userfaultfd", found, "the kernel refuses it", "see userfaultfd(2), ERRORS");
  }

  void pagemap_scan() {
    const int error = facts_.trials.pagemap_scan;
    if (error == 0) return judge_.yes("PAGEMAP_SCAN", "Linux " + facts_.kernel_release);
    if (error == kNotTried) return not_tried("PAGEMAP_SCAN");
    const std::string found = "Linux " + facts_.kernel_release + ": " + error_text(error);
    if (error == ENOTTY || error == EINVAL)
      return judge_.no("PAGEMAP_SCAN", found, "it came with Linux 6.7", kNewerKernel);
    judge_.no("PAGEMAP_SCAN", found,
              "/proc/self/pagemap cannot be read: the process is not dumpable, or a sandbox",
              "run without set-user-ID and file capabilities, and with /proc mounted");
  }

  void guards() {
    const int error = facts_.trials.guards;
    if (error == 0)
      return judge_.yes("guard pages (MADV_GUARD_INSTALL on files)",
                        "Linux " + facts_.kernel_release);
    if (error == kNotTried) return not_tried("guard pages (MADV_GUARD_INSTALL on files)");
    judge_.no("guard pages (MADV_GUARD_INSTALL on files)",
              "Linux " + facts_.kernel_release + ": " + error_text(error),
              "they came with Linux 6.15 (6.13: not on files)", kNewerKernel);
  }

  void not_tried(const char *subject) {
    TMH_ASSERT(subject != nullptr);
    judge_.no(subject, "not tried", "no view of a memory file could be made",
              "see ulimit -v and the overcommit finding");
  }

  void perf() {
    const PageTrials &trials = facts_.trials;
    const std::string setting = "kernel.perf_event_paranoid " + text_of(counters_.paranoid);
    if (trials.perf_open != 0) {
      const std::string found = error_text(trials.perf_open) + "; " + setting;
      if (trials.perf_open == EACCES || trials.perf_open == EPERM)
        return facts_.may_perfmon
                   ? judge_.no("perf page-fault events", found,
                               "refused in spite of CAP_PERFMON: a sandbox", kSandbox)
                   : judge_.no("perf page-fault events", found,
                               "events of kernel mode (read(2) into a segment faults there) need 1 "
                               "or less, or CAP_PERFMON",
                               "sysctl kernel.perf_event_paranoid=1 (to stay: a file in "
                               "/etc/sysctl.d), or setcap "
                               "cap_perfmon+ep PROGRAM");
      return judge_.no("perf page-fault events", found,
                       "the kernel has no perf events, or a sandbox hides them", kSandbox);
    }
    if (trials.perf_ring != 0)
      return judge_.no(
          "perf page-fault events",
          fmt::format("opened; mapping the ring: {}; kernel.perf_event_mlock_kb {}, ulimit -l {}",
                      error_text(trials.perf_ring), text_of(facts_.perf_mlock_kib), memlock()),
          "each thread's ring takes 516 KiB of locked memory",
          "sysctl kernel.perf_event_mlock_kb=516 or more, or a larger ulimit -l");
    judge_.yes("perf page-fault events",
               fmt::format("permitted{}; {}; ring of 516 KiB per thread "
                           "(kernel.perf_event_mlock_kb {}, ulimit -l {})",
                           facts_.may_perfmon ? " (CAP_PERFMON)" : "", setting,
                           text_of(facts_.perf_mlock_kib), memlock()));
  }

  std::string memlock() const {
    return facts_.trials.memlock_bytes == ~0ull
               ? "unlimited"
               : fmt::format("{} KiB", facts_.trials.memlock_bytes / 1024);
  }

  void protection_keys() {
    const std::string &refusal = facts_.trials.key_refusal;
    if (refusal.empty())
      return judge_.yes("protection keys",
                        "an access outside any instance faults (TMH_STRAY=fault)");
    judge_.limited("protection keys",
                   "an access outside any instance may pass unnoticed (TMH_STRAY=allow)", refusal,
                   "a processor that has them (Intel's servers since 2017, AMD's since Zen 3) and "
                   "a hypervisor that passes "
                   "them on; elsewhere TMH_TRACKING=signal finds such accesses");
  }

  void bpf() {
    const std::string setting =
        "kernel.unprivileged_bpf_disabled " + text_of(facts_.unprivileged_bpf_disabled);
    const int error = facts_.trials.bpf;
    if (error == 0)
      return judge_.yes("BPF tracepoint programs",
                        "permitted; " + setting + "; tmh does not need them");
    judge_.limited("BPF tracepoint programs",
                   error_text(error) + "; " + setting + "; tmh does not need them",
                   error == ENOSYS  ? "the kernel has no bpf(2), or a sandbox hides it"
                   : facts_.may_bpf ? "refused in spite of CAP_BPF: a sandbox, or kernel lockdown"
                                    : "they need CAP_BPF and CAP_PERFMON",
                   "for bpftrace and the like: run them as root");
  }

  void huge_pages() {
    const std::string found =
        fmt::format("transparent_hugepage/enabled: {}, shmem_enabled: {}",
                    facts_.huge_pages.empty() ? "absent" : facts_.huge_pages,
                    facts_.shared_huge_pages.empty() ? "absent" : facts_.shared_huge_pages);
    const bool is_shared = facts_.shared_huge_pages == "always" ||
                           facts_.shared_huge_pages == "within_size" ||
                           facts_.shared_huge_pages == "force";
    if (is_shared)
      return judge_.limited(
          "no huge pages in the way", found,
          "on tmpfs a first touch may map 2 MiB at once, which the engine then has to look through",
          "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, or domains on a disk's "
          "file system");
    if (facts_.huge_pages == "always")
      return judge_.limited("no huge pages in the way", found,
                            "memory of programs comes 2 MiB at a time: more of it, and slower "
                            "first touches; segments and the "
                            "engine's page lists keep 4 KiB pages",
                            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
    judge_.yes("no huge pages in the way", found);
  }

  void map_count() {
    // Linux's; bench/large_transaction uses 24,633 with 200,000 pages
    constexpr std::int64_t kDefault = 65'530;
    const std::string found = "vm.max_map_count " + text_of(facts_.map_count_max);
    if (facts_.map_count_max && *facts_.map_count_max < kDefault)
      return judge_.limited("memory areas", found,
                            "signal tracking splits a segment into up to 25,000 areas per process",
                            fmt::format("sysctl vm.max_map_count={}", kDefault));
    judge_.yes("memory areas", found);
  }

  void overcommit() {
    const std::string found = fmt::format(
        "vm.overcommit_memory {}; committed {} of {} MiB", text_of(facts_.overcommit),
        facts_.committed_kib.value_or(0) / 1024, facts_.commit_limit_kib.value_or(0) / 1024);
    if (facts_.overcommit == 2)
      return judge_.no("address space for segments", found,
                       "with 2 the kernel counts a segment's whole private view (max_bytes, 64 GiB "
                       "by default) as used memory",
                       "sysctl vm.overcommit_memory=0, or a small SegmentOptions::max_bytes");
    judge_.yes("address space for segments", found);
  }

  const PagePart &facts_;
  const CounterPart &counters_;
  Judge judge_{"pages"};
};

}  // namespace

Findings judge_pages(const PagePart &facts, const CounterPart &counters) {
  return Pages(facts, counters).all();
}

}  // namespace tmh::tools::doctor
