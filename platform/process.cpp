// platform/process.cpp -- liveness from /proc, without heap or locks.
#include "platform/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"

namespace tmh::platform {

namespace detail {
constinit std::atomic<std::uint32_t> forks{0};
}

namespace {

void count_fork() noexcept { detail::forks.fetch_add(1, std::memory_order_relaxed); }
[[maybe_unused]] const int installed_at_fork = pthread_atfork(nullptr, nullptr, count_fork);

// Decimal without snprintf, which is not async-signal-safe.
char *append_number(char *out, std::uint32_t value) noexcept {
  char digits[10];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (count > 0) *out++ = digits[--count];
  return out;
}

ssize_t read_small_file(const char *path, char *buffer, std::size_t buffer_bytes) noexcept {
  TMH_ASSERT(buffer_bytes > 1);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = read(fd, buffer, buffer_bytes - 1);
  const int saved = errno;
  close(fd);
  errno = saved;
  if (got >= 0) buffer[got] = '\0';
  return got;
}

struct Stat {
  char state = '?';
  std::uint64_t thread_count = 0;
  std::uint64_t start_time = 0;
  std::uint64_t stack_start = 0;
};

// Fields of /proc/PID/stat after the command name, which may itself contain spaces and parentheses.
bool parse_stat(const char *text, Stat *out) noexcept {
  const char *at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return false;
  at += 2;
  out->state = *at;
  std::uint64_t value = 0;
  int field = 3;
  for (; *at != '\0'; ++at) {
    if (*at == ' ') {
      if (field == 20) out->thread_count = value;
      if (field == 22) out->start_time = value;
      if (field == 28) {
        out->stack_start = value;
        return true;
      }
      ++field;
      value = 0;
    } else if (*at >= '0' && *at <= '9') {
      value = value * 10 + static_cast<std::uint64_t>(*at - '0');
    }
  }
  return false;
}

// False: /proc does not show it, or cannot be read.
bool look_up(std::int32_t pid, Stat *out) noexcept {
  TMH_ASSERT(pid > 0 && out != nullptr);
  char path[32] = "/proc/";
  char *end = append_number(path + 6, static_cast<std::uint32_t>(pid));
  std::memcpy(end, "/stat", 6);
  char text[768];
  const ssize_t got = read_small_file(path, text, sizeof text);
  return got > 0 && parse_stat(text, out);
}

}  // namespace

bool this_process(ProcessId *out) noexcept {
  TMH_ASSERT(out != nullptr);
  Stat stat;
  out->pid = getpid();
  if (!look_up(out->pid, &stat)) return false;
  out->start_time = stat.start_time;
  out->stack_start = stat.stack_start;
  return true;
}

namespace {
// How many pids of this process /proc knows: one per pid namespace, from its own to the process's.
// 0: the kernel does not tell.
int pids_in_proc() noexcept {
  char text[4096];
  if (read_small_file("/proc/self/status", text, sizeof text) <= 0) return 0;
  const char *at = std::strstr(text, "\nNSpid:");
  if (at == nullptr) return 0;
  int count = 0;
  for (at += 7; *at == '\t'; ++count) {
    do ++at;
    while (*at >= '0' && *at <= '9');
  }
  return count;
}

std::uint64_t number_of_namespace(const char *path) noexcept {
  struct stat info {};
  return stat(path, &info) == 0 ? info.st_ino : 0;
}
}  // namespace

Errc this_place(Place *out) noexcept {
  TMH_ASSERT(out != nullptr);
  char text[16];
  if (read_small_file("/proc/self/stat", text, sizeof text) <= 0)
    return fail_errno(Errc::kIo, "/proc/self/stat, which tells whose processes live");
  std::int32_t pid = 0;
  for (const char *at = text; *at >= '0' && *at <= '9'; ++at) pid = pid * 10 + (*at - '0');
  if (pid != getpid() || pids_in_proc() > 1)
    return fail(Errc::kIo,
                "/proc shows another pid namespace than this process's: mount its own there "
                "(unshare --mount-proc)");
  *out = {number_of_namespace("/proc/self/ns/pid"), number_of_namespace("/proc/self/ns/time")};
  return Errc::kOk;
}

namespace {
// By what can be asked without a descriptor: a zombie has a thread left, the one that is waited
// for, and no program any more. False: /proc does not show it, or does not let us look.
bool is_zombie(std::int32_t pid) noexcept {
  TMH_ASSERT(pid > 0);
  char path[32] = "/proc/";
  char *end = append_number(path + 6, static_cast<std::uint32_t>(pid));
  std::memcpy(end, "/task", 6);
  struct stat threads {};
  constexpr nlink_t kOwnLinks = 2;  // and one for each thread
  if (stat(path, &threads) != 0 || threads.st_nlink != kOwnLinks + 1) return false;
  std::memcpy(end, "/exe", 5);
  char program[1];
  return readlink(path, program, sizeof program) < 0 && errno == ENOENT;
}
}  // namespace

bool alive(ProcessId id) noexcept {
  if (id.pid <= 0) return false;
  const int saved_errno = errno;
  Stat stat;
  const bool found = look_up(id.pid, &stat);
  // /proc alone will not do: mounted with hidepid it hides other users' processes, and without
  // descriptors it cannot be read.
  const bool has_pid = found || ((::kill(id.pid, 0) == 0 || errno != ESRCH) && !is_zombie(id.pid));
  errno = saved_errno;
  if (!found) return has_pid;
  if (stat.start_time != id.start_time) return false;  // the pid belongs to another process
  // exec
  if (id.stack_start != 0 && stat.stack_start != 0 && stat.stack_start != id.stack_start)
    return false;
  // A zombie leader with living threads is a process whose main thread has returned: it still runs.
  const bool ended = (stat.state == 'Z' || stat.state == 'X') && stat.thread_count <= 1;
  return !ended;
}

// The descriptor is of one process; where /proc shows the right one after it was made, it is that
// one, because its pid has been its own all the time.
bool kill_exactly(ProcessId id) noexcept {
  if (id.pid <= 0) return true;
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, id.pid, 0)));
  if (!process) return !alive(id);
  if (!alive(id)) return true;
  Stat stat;
  if (!look_up(id.pid, &stat) || stat.start_time != id.start_time) return !alive(id);
  return ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0 ||
         errno == ESRCH;
}

namespace {
std::uint64_t read_clock(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}
}  // namespace

std::uint64_t monotonic_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }
std::uint64_t wall_clock_ns() noexcept { return read_clock(CLOCK_REALTIME); }
std::uint64_t coarse_ns() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE); }

BootId this_boot() noexcept {
  BootId id;
  errno = ENODATA;  // an empty file, as sandboxes put in its place
  if (read_small_file("/proc/sys/kernel/random/boot_id", id.text, 37) < 36)
    std::memset(id.text, 0, sizeof id.text);
  return id;
}

}  // namespace tmh::platform
