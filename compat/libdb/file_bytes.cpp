// compat/libdb/file_bytes.cpp -- pread(2) and pwrite(2), until all is done.
#include "compat/libdb/file_bytes.h"

#include <unistd.h>

#include <cerrno>

#include "compat/libdb/failure.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

// call(done): what the system says of the bytes from there on.
template <class Call>
std::size_t repeated(std::size_t bytes, const Call &call) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t now = call(done);
    if (now == 0) break;
    if (now < 0 && errno != EINTR) throw Failure{errno};
    if (now > 0) done += static_cast<std::size_t>(now);
  }
  return done;
}

}  // namespace

std::size_t read_at(int file, void *to, std::size_t bytes, std::uint64_t offset) {
  TMH_ASSERT(file >= 0 && to != nullptr);
  return repeated(bytes, [&](std::size_t done) {
    return ::pread(file, static_cast<char *>(to) + done, bytes - done,
                   static_cast<off_t>(offset + done));
  });
}

void write_at(int file, const void *from, std::size_t bytes, std::uint64_t offset) {
  TMH_ASSERT(file >= 0 && (from != nullptr || bytes == 0));
  const std::size_t done = repeated(bytes, [&](std::size_t at) {
    return ::pwrite(file, static_cast<const char *>(from) + at, bytes - at,
                    static_cast<off_t>(offset + at));
  });
  if (done != bytes) throw Failure{EIO};
}

}  // namespace tmh::db
