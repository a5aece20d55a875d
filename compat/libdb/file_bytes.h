// compat/libdb/file_bytes.h -- bytes of a file, all of them or a Failure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::db {

// How many there were, at most `bytes`: fewer at the file's end.
[[nodiscard]] std::size_t read_at(int file, void *to, std::size_t bytes, std::uint64_t offset);
void write_at(int file, const void *from, std::size_t bytes, std::uint64_t offset);

}  // namespace tmh::db
