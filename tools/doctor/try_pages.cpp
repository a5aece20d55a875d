// tools/doctor/try_pages.cpp -- each mechanism of level 2 tried once, and a domain asked which
// tracking it uses.
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <tmh/domain.hpp>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/fault_ring.h"
#include "platform/files.h"
#include "platform/page_tables.h"
#include "platform/protection_keys.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/temporary_folder.h"

namespace tmh::tools::doctor {

namespace {

constexpr std::size_t kTrialPages = 4;

int error_unless(bool works) { return works ? 0 : errno; }

// Two system calls apart, to tell "not permitted" from "too old"; platform::StoreFaults makes
// both.
void try_userfaultfd(PageTrials *trials) {
  TMH_ASSERT(trials != nullptr);
  constexpr int kUserModeOnly = 1;                     // UFFD_USER_MODE_ONLY, Linux 5.11
  constexpr std::uint64_t kFeatureWpAsync = 1u << 15;  // Linux 6.7
  const platform::FileDescriptor file(
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly)));
  trials->userfaultfd = error_unless(static_cast<bool>(file));
  if (!file) return;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatureWpAsync;
  trials->wp_async = error_unless(::ioctl(file.get(), UFFDIO_API, &api) == 0);
}

void try_view(PageTrials *trials) {
  TMH_ASSERT(trials != nullptr && trials->page_bytes > 0);
  const platform::FileDescriptor file(::memfd_create("tmh-doctor", MFD_CLOEXEC));
  const std::size_t bytes = kTrialPages * static_cast<std::size_t>(trials->page_bytes);
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return;
  void *view = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  if (view == MAP_FAILED) return;
  trials->guards =
      error_unless(platform::guard_install(view, bytes) && platform::guard_remove(view, bytes));
  platform::PageMap map;
  const auto ignore = [](void *, const platform::PageMap::Run &) {};
  trials->pagemap_scan =
      error_unless(map.open() == Errc::kOk &&
                   map.scan(reinterpret_cast<std::uintptr_t>(view), bytes, ignore, nullptr));
  ::munmap(view, bytes);
}

void try_perf(PageTrials *trials) {
  TMH_ASSERT(trials != nullptr);
  platform::FaultRing ring;
  const int error = error_unless(ring.open() == Errc::kOk);
  const bool was_opened = error == 0 || platform::failure_detail().starts_with("mapping");
  trials->perf_open = was_opened ? 0 : error;
  if (was_opened) trials->perf_ring = error;
}

// r0 = 0; exit. What a program on the page-fault tracepoints needs permission for.
int try_bpf() {
  const bpf_insn program[] = {{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0},
                              {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  static constexpr char kLicense[] = "MIT";
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
  attributes.insn_cnt = 2;
  attributes.insns = reinterpret_cast<std::uintptr_t>(program);
  attributes.license = reinterpret_cast<std::uintptr_t>(kLicense);
  const platform::FileDescriptor file(
      static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes)));
  return error_unless(static_cast<bool>(file));
}

// The library's own answer, with the environment's choices: nobody can know it better.
void ask_library(PageTrials *trials) {
  TMH_ASSERT(trials != nullptr && trials->tracking.empty());
  std::string folder;
  try {
    folder = make_temporary_folder("tmh-doctor-");
    const Domain domain = Domain::open(folder + "/domain");
    const TrackingReport report = domain.tracking();
    trials->tracking = to_string(report.tracking);
    trials->tracking_reason = report.reason;
  } catch (const std::exception &error) {
    trials->tracking_reason = error.what();
  }
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
}

}  // namespace

PageTrials try_pages() {
  PageTrials trials;
  trials.page_bytes = ::sysconf(_SC_PAGESIZE);
  try_userfaultfd(&trials);
  try_view(&trials);
  try_perf(&trials);
  if (!platform::has_keys()) trials.key_refusal = platform::key_refusal();
  trials.bpf = try_bpf();
  rlimit limit{};
  (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
  trials.memlock_bytes = limit.rlim_cur;
  ask_library(&trials);
  return trials;
}

}  // namespace tmh::tools::doctor
