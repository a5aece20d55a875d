// compat/libdb/shared/file_birth.h -- tells a file from one that had its inode's number before.
// Contexts:  any thread.
#pragma once

#include <cstdint>

namespace tmh::db {

// A digest of when the file was made, and of its inode's generation, as far as its file system
// tells them. 0: it tells neither.
[[nodiscard]] std::uint64_t birth_of(int file) noexcept;

}  // namespace tmh::db
