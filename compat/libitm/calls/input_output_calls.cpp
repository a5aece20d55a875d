// compat/libitm/calls/input_output_calls.cpp -- calls that give the kernel addresses of the
// program: the memory is made plain first (plain_calls.h). A call that would wait for a file waits
// before that, and lets go of pages.
// Limits:    calls that are neither here nor in wait_calls.cpp work on memory of the thread's own
//            stack, and on memory that the task uses plainly at the time.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compat/libitm/calls/plain_calls.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

void loads_all(char *const *texts) noexcept {
  if (texts == nullptr || !is_started()) return;
  std::size_t count = 0;
  for (; texts[count] != nullptr; ++count) loads(texts[count]);
  make_plain(texts, (count + 1) * sizeof *texts, false);
}

// Is a wait for the file one that poll(2) can do? A terminal's may have an end of its own, and so
// may a socket's.
[[nodiscard]] bool can_be_awaited(int file) noexcept {
  struct stat status {};
  if (TMH_REAL(fstat)(file, &status) != 0) return false;
  const mode_t kind = status.st_mode & S_IFMT;
  if (kind != S_IFSOCK) return kind == S_IFIFO || kind == 0;  // 0: eventfd(2) and its like
  timeval end{};
  socklen_t bytes = sizeof end;
  return TMH_REAL(getsockopt)(file, SOL_SOCKET, SO_RCVTIMEO, &end, &bytes) == 0 &&
         end.tv_sec == 0 && end.tv_usec == 0;
}

// Until the file is ready for a call that would wait for it: then other tasks get the pages, the
// call's, too. To map them again costs far more than to ask.
[[nodiscard]] bool wait_for(int file, const Interruption &interruption) noexcept {
  if (!is_started()) return true;
  const int error = errno;
  const int flags = fcntl(file, F_GETFL);
  pollfd asked{file, POLLIN, 0};
  if (flags >= 0 && (flags & O_NONBLOCK) == 0 && TMH_REAL(poll)(&asked, 1, 0) == 0) {
    give_up_touched();
    if (can_be_awaited(file))
      while (TMH_REAL(poll)(&asked, 1, -1) == -1 && errno == EINTR)
        if (interruption.is_by_handler()) return false;
  }
  errno = error;
  return true;
}
[[nodiscard]] bool wait_to_receive(int socket, int flags,
                                   const Interruption &interruption) noexcept {
  constexpr int kOthers = MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE;
  return (flags & kOthers) != 0 || wait_for(socket, interruption);
}

void give_up_held() noexcept {
  if (is_started()) give_up_holds();
}

void parts(const iovec *vector, int count, bool is_store) noexcept {
  if (!is_started() || count <= 0) return;
  make_plain(vector, static_cast<std::size_t>(count) * sizeof *vector, false);
  for (int i = 0; i < count; ++i) make_plain(vector[i].iov_base, vector[i].iov_len, is_store);
}
[[nodiscard]] bool has_bytes(const iovec *vector, int count) noexcept {
  return std::any_of(vector, vector + std::max(count, 0),
                     [](const iovec &each) { return each.iov_len != 0; });
}
void message(const msghdr *header, bool is_store) noexcept {
  if (!is_started()) return;
  TMH_ASSERT(header != nullptr);
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
// The same, behind a wait: an expression, with `interruption`.
#define TMH_WAITING_CALL(result, name, parameters, arguments, wait, ...)             \
  TMH_EXPORTED result name parameters {                                              \
    return with_plain_memory([&](const Interruption &interruption) { return wait; }, \
                             [&] { __VA_ARGS__; },                                   \
                             [&]() -> result { return TMH_REAL(name) arguments; });  \
  }

extern "C" {

TMH_WAITING_CALL(ssize_t, read, (int file, void *at, std::size_t bytes), (file, at, bytes),
                 bytes == 0 || wait_for(file, interruption), stores(at, bytes))
TMH_CALL(ssize_t, pread, (int file, void *at, std::size_t bytes, off_t offset),
         (file, at, bytes, offset), stores(at, bytes))
TMH_CALL(ssize_t, pread64, (int file, void *at, std::size_t bytes, off64_t offset),
         (file, at, bytes, offset), stores(at, bytes))
TMH_WAITING_CALL(ssize_t, readv, (int file, const iovec *vector, int count), (file, vector, count),
                 !has_bytes(vector, count) || wait_for(file, interruption),
                 parts(vector, count, true))
TMH_CALL(ssize_t, write, (int file, const void *at, std::size_t bytes), (file, at, bytes),
         loads(at, bytes))
TMH_CALL(ssize_t, pwrite, (int file, const void *at, std::size_t bytes, off_t offset),
         (file, at, bytes, offset), loads(at, bytes))
TMH_CALL(ssize_t, pwrite64, (int file, const void *at, std::size_t bytes, off64_t offset),
         (file, at, bytes, offset), loads(at, bytes))
TMH_CALL(ssize_t, writev, (int file, const iovec *vector, int count), (file, vector, count),
         parts(vector, count, false))

TMH_WAITING_CALL(ssize_t, recv, (int socket, void *at, std::size_t bytes, int flags),
                 (socket, at, bytes, flags),
                 bytes == 0 || wait_to_receive(socket, flags, interruption), stores(at, bytes))
TMH_WAITING_CALL(ssize_t, recvfrom,
                 (int socket, void *at, std::size_t bytes, int flags, sockaddr *address,
                  socklen_t *address_bytes),
                 (socket, at, bytes, flags, address, address_bytes),
                 bytes == 0 || wait_to_receive(socket, flags, interruption), stores(at, bytes),
                 stores_address(address, address_bytes))
TMH_WAITING_CALL(ssize_t, recvmsg, (int socket, msghdr *header, int flags), (socket, header, flags),
                 !has_bytes(header->msg_iov, static_cast<int>(header->msg_iovlen)) ||
                     wait_to_receive(socket, flags, interruption),
                 message(header, true))
TMH_CALL(ssize_t, send, (int socket, const void *at, std::size_t bytes, int flags),
         (socket, at, bytes, flags), loads(at, bytes))
TMH_CALL(ssize_t, sendto,
         (int socket, const void *at, std::size_t bytes, int flags, const sockaddr *address,
          socklen_t address_bytes),
         (socket, at, bytes, flags, address, address_bytes), loads(at, bytes),
         loads(address, address_bytes))
TMH_CALL(ssize_t, sendmsg, (int socket, const msghdr *header, int flags), (socket, header, flags),
         message(header, false))
TMH_WAITING_CALL(int, accept, (int socket, sockaddr *address, socklen_t *bytes),
                 (socket, address, bytes), wait_for(socket, interruption),
                 stores_address(address, bytes))
TMH_WAITING_CALL(int, accept4, (int socket, sockaddr *address, socklen_t *bytes, int flags),
                 (socket, address, bytes, flags), wait_for(socket, interruption),
                 stores_address(address, bytes))
TMH_CALL(int, bind, (int socket, const sockaddr *address, socklen_t bytes) noexcept,
         (socket, address, bytes), loads(address, bytes))
TMH_CALL(int, connect, (int socket, const sockaddr *address, socklen_t bytes),
         (socket, address, bytes), give_up_held(), loads(address, bytes))
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

TMH_CALL(int, epoll_ctl, (int set, int operation, int file, epoll_event *event) noexcept,
         (set, operation, file, event), loads(event, sizeof *event))
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
