// rtm_emulator/pages.cpp -- /proc/self/pagemap, /proc/self/maps, madvise.
#include "rtm_emulator/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/system.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tmh::rtm {

namespace {

constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kFileOrShared = std::uint64_t{1} << 61,
                        kWriteProtected = std::uint64_t{1} << 57,
                        kExclusive = std::uint64_t{1} << 56;

struct Range {
  std::uint64_t begin, end;  // pages
};
Range g_exempt[8];
std::size_t g_exempt_count = 0;
bool g_can_populate = false;  // MADV_POPULATE_WRITE: Linux 5.14

// pid << 32 | descriptor: a child's first look opens its own, because an inherited one shows the
// parent's pages.
std::atomic<std::uint64_t> g_pagemap{0};

long pagemap() noexcept {
  const auto pid = static_cast<std::uint64_t>(system_call(Call::kGetpid));
  const std::uint64_t known = g_pagemap.load(std::memory_order_acquire);
  if (known >> 32 == pid) return static_cast<long>(known & 0xFFFF'FFFF);
  const long low = system_call(Call::kOpen, address_of("/proc/self/pagemap"), O_RDONLY | O_CLOEXEC);
  if (is_error(low)) return low;
  constexpr long kFcntl = 72;
  static_assert(kFcntl == SYS_fcntl);
  // High up, out of the way of programs that count on small numbers or close them.
  const long high =
      system_call(static_cast<Call>(kFcntl), static_cast<std::uint64_t>(low), F_DUPFD_CLOEXEC, 900);
  long file = low;
  if (!is_error(high)) {
    (void)system_call(Call::kClose, static_cast<std::uint64_t>(low));
    file = high;
  }
  g_pagemap.store(pid << 32 | static_cast<std::uint64_t>(file), std::memory_order_release);
  return file;
}

// Without pagemap everything counts as present and ours.
std::uint64_t entry_of(std::uint64_t page) noexcept {
  std::uint64_t entry = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const long file = pagemap();
    if (is_error(file)) break;
    if (system_call(Call::kPread, static_cast<std::uint64_t>(file), address_of(&entry),
                    sizeof entry, page * 8) == sizeof entry)
      return entry;
    g_pagemap.store(0, std::memory_order_release);  // somebody closed it
  }
  return kPresent | kExclusive;
}

bool is_exempt(std::uint64_t page) noexcept {
  for (std::size_t i = 0; i < g_exempt_count; ++i)
    if (page >= g_exempt[i].begin && page < g_exempt[i].end) return true;
  return false;
}

struct MapsLine {
  Range pages;
  bool is_readable = false;
  bool is_writable = false;
  bool is_executable = false;
  bool is_shared = false;
  bool is_exempt = false;
};

std::uint64_t parse_hex(const char **text) noexcept {
  std::uint64_t value = 0;
  for (;; ++*text) {
    const char c = **text;
    if (c >= '0' && c <= '9')
      value = value * 16 + static_cast<std::uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = value * 16 + static_cast<std::uint64_t>(c - 'a' + 10);
    else
      return value;
  }
}

MapsLine parse_line(const char *text) noexcept {
  MapsLine line;
  line.pages.begin = parse_hex(&text) / kPageBytes;
  ++text;
  line.pages.end = parse_hex(&text) / kPageBytes;
  line.is_readable = text[1] == 'r';
  line.is_writable = text[2] == 'w';
  line.is_executable = text[3] == 'x';
  line.is_shared = text[4] == 's';
  for (; *text != 0; ++text)
    // [vvar], [vvar_vclock]
    if (text[0] == '[' && text[1] == 'v' && text[2] == 'v') line.is_exempt = true;
  return line;
}

// Calls see(line) for each line of /proc/self/maps until it answers true.
template <class See>
void walk_maps(See see) noexcept {
  constexpr std::size_t kBuffer = 4096;
  char text[kBuffer + 1];
  const long file = system_call(Call::kOpen, address_of("/proc/self/maps"), O_RDONLY | O_CLOEXEC);
  if (is_error(file)) return;
  constexpr long kRead = 0;
  static_assert(kRead == SYS_read);
  std::size_t have = 0;
  for (bool done = false; !done;) {
    const long count = system_call(static_cast<Call>(kRead), static_cast<std::uint64_t>(file),
                                   address_of(text + have), kBuffer - have);
    if (count <= 0) break;
    have += static_cast<std::size_t>(count);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < have && !done; ++i) {
      if (text[i] != '\n') continue;
      text[i] = 0;
      done = see(parse_line(text + begin));
      begin = i + 1;
    }
    if (begin == 0 && have == kBuffer) break;  // a path longer than the buffer
    TMH_ASSERT(begin <= have && have <= kBuffer);
    copy_bytes(text, text + begin, have - begin);
    have -= begin;
  }
  (void)system_call(Call::kClose, static_cast<std::uint64_t>(file));
}

// The mapping that a page lies in; all false: none.
MapsLine mapping_of(std::uint64_t page) noexcept {
  MapsLine found;
  walk_maps([&](const MapsLine &line) {
    if (page >= line.pages.end) return false;
    if (page >= line.pages.begin) found = line;
    return true;
  });
  return found;
}

}  // namespace

void prepare_pages() noexcept {
  alignas(kPageBytes) static char probe[kPageBytes];
  g_can_populate =
      system_call(Call::kMadvise, address_of(probe), kPageBytes, MADV_POPULATE_WRITE) == 0;
  g_exempt_count = 0;
  walk_maps([](const MapsLine &line) {
    if (line.is_exempt && g_exempt_count < 8) g_exempt[g_exempt_count++] = line.pages;
    return false;
  });
}

bool is_page_readable(std::uint64_t page) noexcept {
  return is_exempt(page) || (entry_of(page) & kPresent) != 0;
}

bool SharedMappings::holds(std::uint64_t page) noexcept {
  for (const Range &range : ranges_)
    if (page >= range.begin && page < range.end) return true;
  const MapsLine line = mapping_of(page);
  if (line.is_shared) ranges_[next_++ % 4] = {line.pages.begin, line.pages.end};
  return line.is_shared;
}

bool is_page_writable(std::uint64_t page, SharedMappings *known) noexcept {
  TMH_ASSERT(known != nullptr);
  const std::uint64_t entry = entry_of(page);
  if ((entry & kPresent) == 0 || (entry & kWriteProtected) != 0) return false;
  // A page of a file is ours to write when it is mapped shared; mapped privately it would be
  // copied, and then show as anonymous.
  if ((entry & kFileOrShared) != 0) return known->holds(page);
  return (entry & kExclusive) != 0;
}

PageProtection protection_of(std::uint64_t page) noexcept {
  const MapsLine line = mapping_of(page);
  return {(line.is_readable ? PROT_READ : 0) | (line.is_writable ? PROT_WRITE : 0) |
              (line.is_executable ? PROT_EXEC : 0),
          line.is_shared};
}

bool populate_for_writing(std::uint64_t address) noexcept {
  TMH_ASSERT(address % kPageBytes == 0);
  if (!g_can_populate) return mapping_of(address / kPageBytes).is_writable;
  return system_call(Call::kMadvise, address, kPageBytes, MADV_POPULATE_WRITE) == 0;
}

}  // namespace tmh::rtm
