// bench/support/primitives.cpp -- primitive costs of this machine.
// Shape: one function per primitive; it returns the microseconds of one operation, averaged over
//        `repeats`. Every run maps afresh, so that no primitive inherits the page tables of the one
//        before.
#include "bench/support/primitives.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <system_error>

#include <tmh/options.hpp>

#include "bench/support/clock.h"
#include "bench/support/options.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

// Newer than the headers of Debian 12 (6.1): Linux 6.13 guard pages, Linux 6.7 PAGEMAP_SCAN and
// asynchronous write protection. Numbers and layout are the kernel's interface and do not change.
constexpr int kMadvGuardInstall = 102, kMadvGuardRemove = 103;
struct PageRegion {
  std::uint64_t start, end, categories;
};
struct PagemapScan {
  std::uint64_t bytes, flags, start, end, walk_end, regions, region_count, pages_max,
      category_inverted, category_mask, category_anyof_mask, return_mask;
};
static_assert(sizeof(PageRegion) == 24 && sizeof(PagemapScan) == 96);
constexpr unsigned long kPagemapScan = _IOWR('f', 16, PagemapScan);
constexpr std::uint64_t kPageIsWritten = 1U << 1;
constexpr std::uint64_t kFeatureWpUnpopulated = 1U << 13, kFeatureWpAsync = 1U << 15;

// Of the file that the primitives map; the largest n of figures 4-1 and 4-3.
constexpr std::size_t kPages = 1024;
static_assert(kPages % 4 == 0, "primitives use every second or fourth page");

// What cannot be measured here, with the reason.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void unavailable(const std::string &what) {
  throw Unavailable(what + ": " + std::strerror(errno));
}

// A mapping of the scratch file (or of nothing), gone at the end of its scope.
class Mapping {
 public:
  Mapping(int fd, int protection, int flags, std::size_t pages = kPages)
      : bytes_(pages * kPageBytes) {
    TMH_ASSERT(pages > 0 && (fd >= 0 || (flags & MAP_ANONYMOUS) != 0));
    void *address = ::mmap(nullptr, bytes_, protection, flags, fd, 0);
    if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    data_ = static_cast<std::byte *>(address);
    (void)::madvise(address, bytes_, MADV_NOHUGEPAGE);
  }
  ~Mapping() { (void)::munmap(data_, bytes_); }
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  [[nodiscard]] std::byte *page(std::size_t index) const noexcept {
    const std::size_t offset = index % kPages * kPageBytes;
    TMH_ASSERT(offset < bytes_);
    return data_ + offset;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte *data_;
  std::size_t bytes_;
};

void load(const std::byte *address) noexcept {
  std::byte value;
  std::memcpy(&value, address, 1);
  asm volatile("" : : "r"(value) : "memory");  // the load must happen, here
}
void store(std::byte *address) noexcept {
  *address = std::byte{1};
  asm volatile("" : : : "memory");
}

double us_each(std::int64_t total_ns, std::size_t count) {
  TMH_ASSERT(count > 0 && total_ns >= 0);
  return static_cast<double>(total_ns) / 1000.0 / static_cast<double>(count);
}

// Time of body(0) ... body(repeats - 1).
template <class Body>
double timed(std::size_t repeats, Body &&body) {
  const std::int64_t start = now_ns();
  for (std::size_t i = 0; i < repeats; ++i) body(i);
  return us_each(now_ns() - start, repeats);
}

// --- Signals (thesis, table 4.3)
// ------------------------------------------------------------------------------------

struct SignalProbe {
  std::byte *page = nullptr;
  int fd = -1;
  std::int64_t entered_ns = 0, mapped_ns = 0;
};
SignalProbe probe;  // read by the handlers below, which run synchronously in this thread

void map_in_handler(int, siginfo_t *, void *) {
  probe.entered_ns = now_ns();
  (void)::mmap(probe.page, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, probe.fd, 0);
  probe.mapped_ns = now_ns();
}

class SegvAction {
 public:
  explicit SegvAction(void (*handler)(int, siginfo_t *, void *)) {
    TMH_ASSERT(handler != nullptr);
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    if (::sigaction(SIGSEGV, &action, &old_) != 0) unavailable("sigaction");
  }
  ~SegvAction() { (void)::sigaction(SIGSEGV, &old_, nullptr); }
  SegvAction(const SegvAction &) = delete;
  SegvAction &operator=(const SegvAction &) = delete;

 private:
  struct sigaction old_ {};
};

enum class SignalPart { kEnter, kMap, kExit };

// The loop of section 4.2.3: increment an unmapped page, map it in the handler, leave, unmap.
double signal_part(int fd, std::size_t repeats, SignalPart part) {
  const SegvAction action(map_in_handler);
  const Mapping view(fd, PROT_NONE, MAP_SHARED);
  probe.page = view.page(0);
  probe.fd = fd;
  std::int64_t total_ns = 0;
  for (std::size_t i = 0; i < repeats; ++i) {
    const std::int64_t start = now_ns();
    store(probe.page);
    const std::int64_t left = now_ns();
    if (part == SignalPart::kEnter) total_ns += probe.entered_ns - start;
    if (part == SignalPart::kMap) total_ns += probe.mapped_ns - probe.entered_ns;
    if (part == SignalPart::kExit) total_ns += left - probe.mapped_ns;
    (void)::mmap(probe.page, kPageBytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0);
  }
  return us_each(total_ns, repeats);
}

#if defined(__x86_64__)
constexpr int kStoreBytes = 3;  // movb $1, (%rdi) is c6 07 01
void skip_store(int, siginfo_t *, void *context) {
  static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP] += kStoreBytes;
}
// Exception, handler and return, and nothing else: the handler steps over the store.
double signal_round_trip(int fd, std::size_t repeats) {
  const SegvAction action(skip_store);
  const Mapping view(fd, PROT_NONE, MAP_SHARED);
  std::byte *const address = view.page(0);
  return timed(repeats, [&](std::size_t) {
    asm volatile("movb $1, (%%rdi)" : : "D"(address) : "memory");
  });
}
#else
double signal_round_trip(int, std::size_t) {
  throw Unavailable("needs the program counter; written for x86-64 only");
}
#endif

// --- Mappings, protections and faults (tables 4.3 and 4.4)
// -----------------------------------------------------------

double system_call(std::size_t repeats) {
  return timed(repeats, [](std::size_t) { (void)::syscall(SYS_getppid); });
}

double mmap_fixed(int fd, std::size_t repeats) {
  const Mapping view(fd, PROT_NONE, MAP_SHARED);
  // The page changes between READ and no access, as at a first read and at the end of an instance.
  return timed(repeats, [&](std::size_t i) {
    const auto page = i / 2 % kPages;
    if (::mmap(view.page(page), kPageBytes, i % 2 == 0 ? PROT_READ : PROT_NONE,
               MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(page * kPageBytes)) == MAP_FAILED) {
      unavailable("mmap");
    }
  });
}

double mprotect_page(int fd, std::size_t repeats) {
  const Mapping view(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  for (std::size_t i = 0; i < kPages; ++i) store(view.page(i));
  return timed(repeats, [&](std::size_t i) {
    const int protection = i % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
    if (::mprotect(view.page(i / 2), kPageBytes, protection) != 0) unavailable("mprotect");
  });
}

double mprotect_and_refault(int fd, std::size_t repeats) {
  const Mapping view(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  for (std::size_t i = 0; i < kPages; ++i) store(view.page(i));
  return timed(repeats, [&](std::size_t i) {
    (void)::mprotect(view.page(i), kPageBytes, PROT_READ);
    (void)::mprotect(view.page(i), kPageBytes, PROT_READ | PROT_WRITE);
    store(view.page(i));
  });
}

// Touches pages of a fresh mapping once with `touch`, after `prepare`; as often as `repeats` asks.
// Every second page has no access: the others are mapped alone, as after one mmap per page, and a
// fault cannot bring its neighbours in.
double fault(int fd, int flags, std::size_t repeats, void (*prepare)(std::byte *),
             void (*touch)(std::byte *)) {
  TMH_ASSERT(touch != nullptr && repeats > 0);
  std::int64_t total_ns = 0;
  std::size_t done = 0;
  while (done < repeats) {
    const Mapping view(fd, PROT_READ | PROT_WRITE, flags);
    for (std::size_t i = 1; i < kPages; i += 2)
      (void)::mprotect(view.page(i), kPageBytes, PROT_NONE);
    const std::size_t count = std::min(repeats - done, kPages / 2);
    for (std::size_t i = 0; prepare != nullptr && i < count; ++i) prepare(view.page(2 * i));
    const std::int64_t start = now_ns();
    for (std::size_t i = 0; i < count; ++i) touch(view.page(2 * i));
    total_ns += now_ns() - start;
    done += count;
  }
  return us_each(total_ns, done);
}
void touch_load(std::byte *page) { load(page); }

double dontneed(int fd, std::size_t repeats) {
  std::int64_t total_ns = 0;
  std::size_t done = 0;
  while (done < repeats) {
    const Mapping view(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    const std::size_t count = std::min(repeats - done, kPages);
    for (std::size_t i = 0; i < count; ++i) store(view.page(i));
    const std::int64_t start = now_ns();
    for (std::size_t i = 0; i < count; ++i) {
      if (::madvise(view.page(i), kPageBytes, MADV_DONTNEED) != 0)
        unavailable("madvise(MADV_DONTNEED)");
    }
    total_ns += now_ns() - start;
    done += count;
  }
  return us_each(total_ns, done);
}

double guard(int fd, std::size_t repeats, int which) {
  TMH_ASSERT(which == kMadvGuardInstall || which == kMadvGuardRemove);
  std::int64_t total_ns = 0;
  std::size_t done = 0;
  while (done < repeats) {
    const Mapping view(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    const std::size_t count = std::min(repeats - done, kPages);
    for (std::size_t i = 0; i < count; ++i) load(view.page(i));
    for (const int advice : {kMadvGuardInstall, kMadvGuardRemove}) {
      const std::int64_t start = now_ns();
      for (std::size_t i = 0; i < count; ++i) {
        if (::madvise(view.page(i), kPageBytes, advice) != 0)
          unavailable("madvise(MADV_GUARD_INSTALL)");
      }
      if (advice == which) total_ns += now_ns() - start;
    }
    done += count;
  }
  return us_each(total_ns, done);
}

// --- Copies (table 4.5) and scans
// ------------------------------------------------------------------------------------

double copy_page(std::size_t repeats) {
  const Mapping memory(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 2);
  return timed(repeats, [&](std::size_t) {
    std::memcpy(memory.page(0), memory.page(1), kPageBytes);
    asm volatile("" : : : "memory");
  });
}

// Table 4.5, "First memcpy": neither page has been touched before.
double copy_page_first(std::size_t repeats) {
  std::int64_t total_ns = 0;
  for (std::size_t i = 0; i < repeats; ++i) {
    const Mapping memory(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 2);
    const std::int64_t start = now_ns();
    std::memcpy(memory.page(0), memory.page(1), kPageBytes);
    asm volatile("" : : : "memory");
    total_ns += now_ns() - start;
  }
  return us_each(total_ns, repeats);
}

double compare_page(std::size_t repeats) {
  const Mapping memory(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 2);
  store(memory.page(0));
  store(memory.page(1));
  int difference = 0;
  const double us = timed(repeats, [&](std::size_t) {
    asm volatile("" : : : "memory");
    difference |= std::memcmp(memory.page(0), memory.page(1), kPageBytes);
  });
  if (difference != 0) throw std::runtime_error("memcmp of equal pages differs");
  return us;
}

// A descriptor closed at the end of its scope.
struct Descriptor {
  int fd;
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) (void)::close(fd);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
};

// One scan of kPages pages, a quarter of them written since they were write-protected.
double pagemap_scan(int fd, std::size_t repeats) {
  const Descriptor fault_fd(
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
  if (fault_fd.fd < 0) unavailable("userfaultfd");
  uffdio_api api{.api = UFFD_API, .features = kFeatureWpUnpopulated | kFeatureWpAsync, .ioctls = 0};
  if (::ioctl(fault_fd.fd, UFFDIO_API, &api) != 0) unavailable("userfaultfd WP_ASYNC");
  const Mapping view(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  const auto start = reinterpret_cast<std::uint64_t>(view.page(0));
  uffdio_register range{
      .range = {.start = start, .len = view.bytes()}, .mode = UFFDIO_REGISTER_MODE_WP, .ioctls = 0};
  if (::ioctl(fault_fd.fd, UFFDIO_REGISTER, &range) != 0) unavailable("UFFDIO_REGISTER");
  uffdio_writeprotect protect{.range = range.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  if (::ioctl(fault_fd.fd, UFFDIO_WRITEPROTECT, &protect) != 0) unavailable("UFFDIO_WRITEPROTECT");
  for (std::size_t i = 0; i < kPages; i += 4) store(view.page(i));

  const Descriptor pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (pagemap.fd < 0) unavailable("/proc/self/pagemap");
  std::array<PageRegion, kPages> regions{};
  return timed(repeats, [&](std::size_t) {
    PagemapScan scan{};
    scan.bytes = sizeof(scan);
    scan.start = start;
    scan.end = start + view.bytes();
    scan.regions = reinterpret_cast<std::uint64_t>(regions.data());
    scan.region_count = regions.size();
    scan.category_mask = kPageIsWritten;
    scan.return_mask = kPageIsWritten;
    const int found = ::ioctl(pagemap.fd, kPagemapScan, &scan);
    if (found < 0) unavailable("PAGEMAP_SCAN");
    if (found != kPages / 4)
      throw std::runtime_error("PAGEMAP_SCAN found other pages than were written");
  });
}

Primitive measure(const std::string &name, const std::string &thesis, std::size_t run_count,
                  const std::function<double()> &run) {
  TMH_ASSERT(run != nullptr && run_count > 0);
  Primitive result{name, thesis, {}, {}};
  try {
    (void)run();  // warm-up
    std::vector<double> samples;
    for (std::size_t i = 0; i < run_count; ++i) samples.push_back(run());
    result.us = summarize(std::move(samples));
  } catch (const Unavailable &reason) {
    result.unavailable = reason.what();
  }
  return result;
}

}  // namespace

std::vector<Primitive> measure_primitives(const std::string &folder, std::size_t run_count,
                                          std::size_t repeats) {
  TMH_ASSERT(run_count > 0 && repeats > 0);
  const std::string path = folder + "/primitives.bin";
  write_page_file(path, kPages);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.fd < 0) throw std::system_error(errno, std::generic_category(), path);
  const int fd = file.fd;
  std::vector<Primitive> all;
  const auto add = [&](const char *name, const char *thesis, const std::function<double()> &run) {
    all.push_back(measure(name, thesis, run_count, run));
  };
  add("system call (getppid)", "", [&] { return system_call(repeats); });
  add("signal round trip, nothing in it", "", [&] { return signal_round_trip(fd, repeats); });
  add(kHandlerEnter, "4.3", [&] { return signal_part(fd, repeats, SignalPart::kEnter); });
  add(kMmapInHandler, "4.3", [&] { return signal_part(fd, repeats, SignalPart::kMap); });
  add(kHandlerExit, "4.3", [&] { return signal_part(fd, repeats, SignalPart::kExit); });
  add("mmap FIXED of one page", "4.3", [&] { return mmap_fixed(fd, repeats); });
  add("mprotect of one present page", "", [&] { return mprotect_page(fd, repeats); });
  add("mprotect twice and refault", "", [&] { return mprotect_and_refault(fd, repeats); });
  add(kMinorFault, "", [&] { return fault(fd, MAP_SHARED, repeats, nullptr, touch_load); });
  add(kFirstStore, "4.4", [&] { return fault(fd, MAP_SHARED, repeats, nullptr, store); });
  add("copy-on-write fault, page untouched", "",
      [&] { return fault(fd, MAP_PRIVATE, repeats, nullptr, store); });
  add("copy-on-write fault, page read before", "",
      [&] { return fault(fd, MAP_PRIVATE, repeats, touch_load, store); });
  add("memcpy 4 KiB, first", "4.5", [&] { return copy_page_first(repeats); });
  add(kCopyCached, "4.5", [&] { return copy_page(repeats); });
  add("memcmp 4 KiB, equal", "", [&] { return compare_page(repeats); });
  add("madvise DONTNEED, one private page", "", [&] { return dontneed(fd, repeats); });
  add("guard page install", "", [&] { return guard(fd, repeats, kMadvGuardInstall); });
  add("guard page remove", "", [&] { return guard(fd, repeats, kMadvGuardRemove); });
  add("PAGEMAP_SCAN of 1,024 pages, 256 written", "",
      [&] { return pagemap_scan(fd, std::max<std::size_t>(1, repeats / 16)); });
  return all;
}

}  // namespace tmh::bench
