// compat/libitm/calls/checked_calls.cpp -- calls as programs make them that are compiled with
// _FORTIFY_SOURCE: with the size of the memory, where the compiler knows it. The C library's would
// call its own functions, not those of this library.
#include <features.h>
// The headers would define the calls themselves, inline.
#undef __USE_FORTIFY_LEVEL

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>

#include "levels/process/ground/ground.h"

extern "C" {

[[noreturn]] void __chk_fail();

// TMH_CHECKED_CALL(result, name, (parameters), (arguments), fits): the call, where the memory is
// large enough.
#define TMH_CHECKED_CALL(result, name, parameters, arguments, fits) \
  TMH_EXPORTED result __##name##_chk parameters {                   \
    if (!(fits)) __chk_fail();                                      \
    return name arguments;                                          \
  }

TMH_CHECKED_CALL(int, poll, (pollfd * files, nfds_t count, int timeout_ms, std::size_t room),
                 (files, count, timeout_ms), count <= room / sizeof *files)
TMH_CHECKED_CALL(int, ppoll,
                 (pollfd * files, nfds_t count, const timespec *timeout, const sigset_t *mask,
                  std::size_t room),
                 (files, count, timeout, mask), count <= room / sizeof *files)
TMH_CHECKED_CALL(ssize_t, read, (int file, void *at, std::size_t bytes, std::size_t room),
                 (file, at, bytes), bytes <= room)
TMH_CHECKED_CALL(ssize_t, pread,
                 (int file, void *at, std::size_t bytes, off_t offset, std::size_t room),
                 (file, at, bytes, offset), bytes <= room)
TMH_CHECKED_CALL(ssize_t, pread64,
                 (int file, void *at, std::size_t bytes, off64_t offset, std::size_t room),
                 (file, at, bytes, offset), bytes <= room)
TMH_CHECKED_CALL(ssize_t, recv,
                 (int socket, void *at, std::size_t bytes, std::size_t room, int flags),
                 (socket, at, bytes, flags), bytes <= room)
TMH_CHECKED_CALL(ssize_t, recvfrom,
                 (int socket, void *at, std::size_t bytes, std::size_t room, int flags,
                  sockaddr *address, socklen_t *address_bytes),
                 (socket, at, bytes, flags, address, address_bytes), bytes <= room)
TMH_CHECKED_CALL(ssize_t, readlink,
                 (const char *path, char *at, std::size_t bytes, std::size_t room),
                 (path, at, bytes), bytes <= room)
TMH_CHECKED_CALL(char *, getcwd, (char *at, std::size_t bytes, std::size_t room), (at, bytes),
                 bytes <= room)
TMH_CHECKED_CALL(std::size_t, fread,
                 (void *at, std::size_t room, std::size_t bytes, std::size_t count, FILE *stream),
                 (at, bytes, count, stream), bytes == 0 || count <= room / bytes)
TMH_CHECKED_CALL(char *, fgets, (char *at, std::size_t room, int bytes, FILE *stream),
                 (at, bytes, stream), bytes <= 0 || static_cast<std::size_t>(bytes) <= room)

}  // extern "C"
