// platform/copy_data.cpp -- copies part of a file, holes included.
#include "platform/copy_data.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/readahead.h"
#include "platform/try.h"

namespace tmh::platform {

namespace {
constexpr std::size_t kPieceBytes = 256u << 10;

// [at, end) of `in` to `at - from` in `out`.
Errc copy_range(int in, off_t at, off_t end, int out, off_t from, const std::string &to) noexcept {
  TMH_ASSERT(in != out && from <= at);
  off_t target = at - from;
  while (at < end) {
    const ssize_t n = copy_file_range(in, &at, out, &target, static_cast<std::size_t>(end - at), 0);
    if (n == 0) return Errc::kOk;  // the file ends
    if (n > 0 || errno == EINTR) continue;
    if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS &&
        errno != EPERM)  // EPERM: a sandbox
      return fail_errno(Errc::kIo, to);
    break;
  }
  if (at >= end) return Errc::kOk;
  const std::unique_ptr<char[]> piece(new (std::nothrow) char[kPieceBytes]);
  if (piece == nullptr) return fail(Errc::kOutOfMemory, to);
  while (at < end) {
    const ssize_t got =
        pread(in, piece.get(), std::min(kPieceBytes, static_cast<std::size_t>(end - at)), at);
    if (got == 0) return Errc::kOk;
    if (got < 0 && errno != EINTR) return fail_errno(Errc::kIo, to);
    for (ssize_t done = 0; done < got;) {
      const ssize_t n =
          pwrite(out, piece.get() + done, static_cast<std::size_t>(got - done), at - from + done);
      if (n < 0 && errno != EINTR) return fail_errno(Errc::kIo, to);
      done += std::max<ssize_t>(n, 0);
    }
    at += std::max<ssize_t>(got, 0);
  }
  return Errc::kOk;
}
}  // namespace

Errc copy_in_place(int in, std::uint64_t from, std::uint64_t bytes, int out,
                   const std::string &to) noexcept {
  return copy_range(in, static_cast<off_t>(from), static_cast<off_t>(from + bytes), out, 0, to);
}

Errc copy_data(int in, std::uint64_t from, std::uint64_t bytes, int out,
               const std::string &to) noexcept {
  read_without_readahead(in);  // its owner may be storing to it
  TMH_ASSERT(from + bytes >= from);
  const auto begin = static_cast<off_t>(from), end = static_cast<off_t>(from + bytes);
  for (off_t at = begin; at < end;) {
    const off_t data = lseek(in, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // the rest is a hole
    if (data < 0) return fail_errno(Errc::kIo, to);
    if (data >= end) break;
    off_t hole = lseek(in, data, SEEK_HOLE);
    hole = hole < 0 ? end : std::min(hole, end);
    TMH_TRY(copy_range(in, data, hole, out, begin, to));
    at = hole;
  }
  return Errc::kOk;
}

}  // namespace tmh::platform
