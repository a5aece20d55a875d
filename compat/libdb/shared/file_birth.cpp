// compat/libdb/shared/file_birth.cpp -- by statx(2) and name_to_handle_at(2).
#include "compat/libdb/shared/file_birth.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "compat/libdb/undo_record.h"
#include "platform/assert.h"

namespace tmh::db {

std::uint64_t birth_of(int file) noexcept {
  TMH_ASSERT(file >= 0);
  std::uint64_t all[3] = {};
  struct statx found {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_BTIME, &found) == 0 &&
      (found.stx_mask & STATX_BTIME) != 0) {
    all[0] = static_cast<std::uint64_t>(found.stx_btime.tv_sec);
    all[1] = found.stx_btime.tv_nsec;
  }
  alignas(file_handle) std::byte bytes[sizeof(file_handle) + MAX_HANDLE_SZ] = {};
  auto *const handle = reinterpret_cast<file_handle *>(bytes);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(file, "", handle, &mount, AT_EMPTY_PATH) == 0)
    all[2] = digest_of(Bytes(bytes, sizeof(file_handle) + handle->handle_bytes)).hash;
  if (all[0] == 0 && all[1] == 0 && all[2] == 0) return 0;
  return digest_of(std::as_bytes(std::span(all))).hash | 1;
}

}  // namespace tmh::db
