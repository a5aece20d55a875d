// compat/libdb/file_bytes.h -- a file's bytes, all of them or a Failure. The hook of
// platform/disk.h sees what is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tmh::db {

// open(2).
[[nodiscard]] int open_file(const std::string &path, int flags, int mode);
// How many there were, at most `bytes`: fewer at the file's end.
[[nodiscard]] std::size_t read_at(int file, void *to, std::size_t bytes, std::uint64_t offset);
void write_at(int file, const void *from, std::size_t bytes, std::uint64_t offset);
void set_length(int file, std::uint64_t bytes);
// What was written is durable when it returns.
void sync_file(int file);
// So is the name.
void sync_folder_of(const std::string &path);

}  // namespace tmh::db
