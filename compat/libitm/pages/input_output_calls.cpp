// compat/libitm/pages/input_output_calls.cpp -- calls that give the kernel addresses of the
// program: the memory is made plain first, and what blocks lets go of other pages.
// A page may be called back between that and the kernel's use of it: then the kernel says EFAULT,
// and the call is made again.
// Limits:    calls that are not here work on memory of the thread's own stack, and on memory that
//            the task uses plainly at the time.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compat/libitm/pages/engine.h"
#include "compat/libitm/pages/real.h"

namespace tmh::itm::pages {

namespace {

constexpr int kTriesMax = 16;

void loads(const void *at, std::size_t bytes) noexcept {
  if (at != nullptr && is_started()) make_plain(at, bytes, false);
}
void stores(const void *at, std::size_t bytes) noexcept {
  if (at != nullptr && is_started()) make_plain(at, bytes, true);
}
void loads(const char *text) noexcept {
  if (text != nullptr && is_started()) make_plain(text, std::strlen(text) + 1, false);
}
void loads_all(char *const *texts) noexcept {
  if (texts == nullptr || !is_started()) return;
  std::size_t count = 0;
  for (; texts[count] != nullptr; ++count) loads(texts[count]);
  make_plain(texts, (count + 1) * sizeof *texts, false);
}
void blocks() noexcept {
  if (is_started()) give_up_holds();
}
// The call blocks if the file is not ready: then other tasks get the pages. To map them again costs
// far more than to ask.
void blocks(int file) noexcept {
  if (!is_started()) return;
  const int error = errno;
  const int flags = fcntl(file, F_GETFL);
  pollfd asked{file, POLLIN, 0};
  if (flags >= 0 && (flags & O_NONBLOCK) == 0 && TMH_REAL(poll)(&asked, 1, 0) == 0)
    give_up_touched();
  errno = error;
}
void blocks_for(int set, int timeout_ms) noexcept {
  if (timeout_ms != 0) blocks(set);
}
void blocks_for(pollfd *files, nfds_t count, int timeout_ms) noexcept {
  if (!is_started() || timeout_ms == 0) return;
  const int error = errno;
  make_plain(files, count * sizeof *files, true);
  if (TMH_REAL(poll)(files, count, 0) == 0) give_up_touched();
  errno = error;
}

void parts(const iovec *vector, int count, bool is_store) noexcept {
  if (!is_started() || count <= 0) return;
  make_plain(vector, static_cast<std::size_t>(count) * sizeof *vector, false);
  for (int i = 0; i < count; ++i) make_plain(vector[i].iov_base, vector[i].iov_len, is_store);
}
void message(const msghdr *header, bool is_store) noexcept {
  if (!is_started()) return;
  make_plain(header, sizeof *header, is_store);
  if (header->msg_name != nullptr) make_plain(header->msg_name, header->msg_namelen, is_store);
  if (header->msg_control != nullptr)
    make_plain(header->msg_control, header->msg_controllen, is_store);
  parts(header->msg_iov, static_cast<int>(header->msg_iovlen), is_store);
}
// An address that a call returns, and its length.
void stores_address(const sockaddr *address, const socklen_t *bytes) noexcept {
  if (bytes == nullptr) return;
  stores(bytes, sizeof *bytes);
  stores(address, *bytes);
}

// prepare(): makes plain what the call uses.
template <class Prepare, class Call>
auto with_plain_memory(Prepare prepare, Call call) -> decltype(call()) {
  for (int tries = 1;;) {
    prepare();
    const Interruptions before = interruptions();
    const auto result = call();
    if (result != -1 || !is_started()) return result;
    if (errno == EINTR) {
      const Interruptions after = interruptions();
      // Nothing of the program's has interrupted it.
      if (after.requests != before.requests && after.handlers == before.handlers) continue;
    }
    if (errno != EFAULT || tries++ == kTriesMax) return result;
  }
}

// What is left of a call's timeout when the call is made again.
class Timeout {
 public:
  explicit Timeout(int ms) noexcept : ms_(ms), end_ns_(ms > 0 ? now_ns() + ms * kNsPerMs : 0) {}
  [[nodiscard]] int left_ms() const noexcept {
    if (ms_ <= 0) return ms_;
    const std::int64_t left = end_ns_ - now_ns();
    return left <= 0 ? 0 : static_cast<int>((left + kNsPerMs - 1) / kNsPerMs);
  }

 private:
  static constexpr std::int64_t kNsPerMs = 1'000'000;
  [[nodiscard]] static std::int64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 * kNsPerMs + now.tv_nsec;
  }
  int ms_;
  std::int64_t end_ns_;
};

}  // namespace

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

// TMH_CALL(result, name, (parameters), (arguments), prepare): a call of the C library's, after
// prepare.
#define TMH_CALL(result, name, parameters, arguments, ...)                          \
  TMH_EXPORTED result name parameters {                                             \
    return with_plain_memory([&] { __VA_ARGS__; },                                  \
                             [&]() -> result { return TMH_REAL(name) arguments; }); \
  }

extern "C" {

TMH_CALL(ssize_t, read, (int file, void *at, std::size_t bytes), (file, at, bytes), blocks(file),
         stores(at, bytes))
TMH_CALL(ssize_t, pread, (int file, void *at, std::size_t bytes, off_t offset),
         (file, at, bytes, offset), stores(at, bytes))
TMH_CALL(ssize_t, pread64, (int file, void *at, std::size_t bytes, off64_t offset),
         (file, at, bytes, offset), stores(at, bytes))
TMH_CALL(ssize_t, readv, (int file, const iovec *vector, int count), (file, vector, count),
         blocks(file), parts(vector, count, true))
TMH_CALL(ssize_t, write, (int file, const void *at, std::size_t bytes), (file, at, bytes),
         loads(at, bytes))
TMH_CALL(ssize_t, pwrite, (int file, const void *at, std::size_t bytes, off_t offset),
         (file, at, bytes, offset), loads(at, bytes))
TMH_CALL(ssize_t, pwrite64, (int file, const void *at, std::size_t bytes, off64_t offset),
         (file, at, bytes, offset), loads(at, bytes))
TMH_CALL(ssize_t, writev, (int file, const iovec *vector, int count), (file, vector, count),
         parts(vector, count, false))

TMH_CALL(ssize_t, recv, (int socket, void *at, std::size_t bytes, int flags),
         (socket, at, bytes, flags), blocks(socket), stores(at, bytes))
TMH_CALL(ssize_t, recvfrom,
         (int socket, void *at, std::size_t bytes, int flags, sockaddr *address,
          socklen_t *address_bytes),
         (socket, at, bytes, flags, address, address_bytes), blocks(socket), stores(at, bytes),
         stores_address(address, address_bytes))
TMH_CALL(ssize_t, recvmsg, (int socket, msghdr *header, int flags), (socket, header, flags),
         blocks(socket), message(header, true))
TMH_CALL(ssize_t, send, (int socket, const void *at, std::size_t bytes, int flags),
         (socket, at, bytes, flags), loads(at, bytes))
TMH_CALL(ssize_t, sendto,
         (int socket, const void *at, std::size_t bytes, int flags, const sockaddr *address,
          socklen_t address_bytes),
         (socket, at, bytes, flags, address, address_bytes), loads(at, bytes),
         loads(address, address_bytes))
TMH_CALL(ssize_t, sendmsg, (int socket, const msghdr *header, int flags), (socket, header, flags),
         message(header, false))
TMH_CALL(int, accept, (int socket, sockaddr *address, socklen_t *bytes), (socket, address, bytes),
         blocks(socket), stores_address(address, bytes))
TMH_CALL(int, accept4, (int socket, sockaddr *address, socklen_t *bytes, int flags),
         (socket, address, bytes, flags), blocks(socket), stores_address(address, bytes))
TMH_CALL(int, bind, (int socket, const sockaddr *address, socklen_t bytes) noexcept,
         (socket, address, bytes), loads(address, bytes))
TMH_CALL(int, connect, (int socket, const sockaddr *address, socklen_t bytes),
         (socket, address, bytes), blocks(), loads(address, bytes))
TMH_CALL(int, getsockname, (int socket, sockaddr *address, socklen_t *bytes) noexcept,
         (socket, address, bytes), stores_address(address, bytes))
TMH_CALL(int, getpeername, (int socket, sockaddr *address, socklen_t *bytes) noexcept,
         (socket, address, bytes), stores_address(address, bytes))
TMH_CALL(int, setsockopt,
         (int socket, int level, int name, const void *at, socklen_t bytes) noexcept,
         (socket, level, name, at, bytes), loads(at, bytes))
TMH_CALL(int, getsockopt, (int socket, int level, int name, void *at, socklen_t *bytes) noexcept,
         (socket, level, name, at, bytes), stores(bytes, sizeof *bytes), stores(at, *bytes))
TMH_CALL(int, socketpair, (int domain, int type, int protocol, int *sockets) noexcept,
         (domain, type, protocol, sockets), stores(sockets, 2 * sizeof *sockets))
TMH_CALL(int, pipe, (int *ends) noexcept, (ends), stores(ends, 2 * sizeof *ends))
TMH_CALL(int, pipe2, (int *ends, int flags) noexcept, (ends, flags), stores(ends, 2 * sizeof *ends))

TMH_EXPORTED int poll(pollfd *files, nfds_t count, int timeout_ms) {
  const Timeout timeout(timeout_ms);
  return with_plain_memory(
      [&] {
        blocks_for(files, count, timeout_ms);
        stores(files, count * sizeof *files);
      },
      [&] { return TMH_REAL(poll)(files, count, timeout.left_ms()); });
}
TMH_CALL(int, ppoll, (pollfd * files, nfds_t count, const timespec *timeout, const sigset_t *mask),
         (files, count, timeout, mask), blocks(), stores(files, count * sizeof *files),
         loads(timeout, sizeof *timeout), loads(mask, sizeof *mask))
TMH_CALL(int, select, (int count, fd_set *in, fd_set *out, fd_set *errors, timeval *timeout),
         (count, in, out, errors, timeout), blocks(), stores(in, sizeof *in),
         stores(out, sizeof *out), stores(errors, sizeof *errors), stores(timeout, sizeof *timeout))
TMH_CALL(int, epoll_ctl, (int set, int operation, int file, epoll_event *event) noexcept,
         (set, operation, file, event), loads(event, sizeof *event))
TMH_EXPORTED int epoll_pwait(int set, epoll_event *events, int count, int timeout_ms,
                             const sigset_t *mask) {
  const Timeout timeout(timeout_ms);
  return with_plain_memory(
      [&] {
        blocks_for(set, timeout_ms);
        stores(events, static_cast<std::size_t>(count) * sizeof *events);
        loads(mask, sizeof *mask);
      },
      [&] { return TMH_REAL(epoll_pwait)(set, events, count, timeout.left_ms(), mask); });
}
TMH_EXPORTED int epoll_wait(int set, epoll_event *events, int count, int timeout_ms) {
  return epoll_pwait(set, events, count, timeout_ms, nullptr);
}

TMH_CALL(int, nanosleep, (const timespec *time, timespec *rest), (time, rest), blocks(),
         loads(time, sizeof *time), stores(rest, sizeof *rest))
TMH_CALL(ssize_t, getrandom, (void *at, std::size_t bytes, unsigned flags), (at, bytes, flags),
         stores(at, bytes))
TMH_CALL(int, stat, (const char *path, struct stat *status) noexcept, (path, status), loads(path),
         stores(status, sizeof *status))
TMH_CALL(int, lstat, (const char *path, struct stat *status) noexcept, (path, status), loads(path),
         stores(status, sizeof *status))
TMH_CALL(int, fstat, (int file, struct stat *status) noexcept, (file, status),
         stores(status, sizeof *status))
TMH_CALL(int, access, (const char *path, int mode) noexcept, (path, mode), loads(path))
TMH_CALL(int, mkdir, (const char *path, mode_t mode) noexcept, (path, mode), loads(path))
TMH_CALL(int, rmdir, (const char *path) noexcept, (path), loads(path))
TMH_CALL(int, unlink, (const char *path) noexcept, (path), loads(path))
TMH_CALL(int, rename, (const char *from, const char *to) noexcept, (from, to), loads(from),
         loads(to))
TMH_CALL(int, chdir, (const char *path) noexcept, (path), loads(path))
TMH_CALL(ssize_t, readlink, (const char *path, char *at, std::size_t bytes) noexcept,
         (path, at, bytes), loads(path), stores(at, bytes))

TMH_CALL(int, execve, (const char *path, char *const *arguments, char *const *environment) noexcept,
         (path, arguments, environment), loads(path), loads_all(arguments), loads_all(environment))
TMH_CALL(int, execv, (const char *path, char *const *arguments) noexcept, (path, arguments),
         loads(path), loads_all(arguments), loads_all(environ))
TMH_CALL(int, execvp, (const char *file, char *const *arguments) noexcept, (file, arguments),
         loads(file), loads_all(arguments), loads_all(environ))

TMH_EXPORTED int execvpe(const char *file, char *const *arguments,
                         char *const *environment) noexcept {
  return with_plain_memory(
      [&] {
        loads(file);
        loads_all(arguments);
        loads_all(environment);
      },
      [&] { return TMH_REAL(execvpe)(file, arguments, environment); });
}

// The number of the error is the result of these.
TMH_EXPORTED int posix_spawn(pid_t *child, const char *path,
                             const posix_spawn_file_actions_t *actions,
                             const posix_spawnattr_t *attributes, char *const *arguments,
                             char *const *environment) {
  loads(path);
  loads_all(arguments);
  loads_all(environment);
  return TMH_REAL_OF(posix_spawn, "GLIBC_2.15")(child, path, actions, attributes, arguments,
                                                environment);
}
TMH_EXPORTED int posix_spawnp(pid_t *child, const char *file,
                              const posix_spawn_file_actions_t *actions,
                              const posix_spawnattr_t *attributes, char *const *arguments,
                              char *const *environment) {
  loads(file);
  loads_all(arguments);
  loads_all(environment);
  return TMH_REAL_OF(posix_spawnp, "GLIBC_2.15")(child, file, actions, attributes, arguments,
                                                 environment);
}
TMH_EXPORTED int clock_nanosleep(clockid_t clock, int flags, const timespec *time, timespec *rest) {
  blocks();
  loads(time, sizeof *time);
  stores(rest, sizeof *rest);
  return TMH_REAL(clock_nanosleep)(clock, flags, time, rest);
}
TMH_EXPORTED int system(const char *command) {
  loads(command);
  loads_all(environ);
  return TMH_REAL(system)(command);
}
TMH_EXPORTED DIR *opendir(const char *path) {
  loads(path);
  return TMH_REAL(opendir)(path);
}
TMH_EXPORTED char *getcwd(char *at, std::size_t bytes) noexcept {
  stores(at, bytes);
  return TMH_REAL(getcwd)(at, bytes);
}

// The third argument is there where flags say so; else it is not used.
#define TMH_OPEN_CALL(name, parameters, ...)                                                     \
  TMH_EXPORTED int name parameters {                                                             \
    va_list list;                                                                                \
    va_start(list, flags);                                                                       \
    const mode_t mode = va_arg(list, mode_t);                                                    \
    va_end(list);                                                                                \
    return with_plain_memory([&] { loads(path); }, [&] { return TMH_REAL(name)(__VA_ARGS__); }); \
  }
TMH_OPEN_CALL(open, (const char *path, int flags, ...), path, flags, mode)
TMH_OPEN_CALL(open64, (const char *path, int flags, ...), path, flags, mode)
TMH_OPEN_CALL(openat, (int folder, const char *path, int flags, ...), folder, path, flags, mode)
TMH_OPEN_CALL(openat64, (int folder, const char *path, int flags, ...), folder, path, flags, mode)

}  // extern "C"
