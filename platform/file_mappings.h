// platform/file_mappings.h -- which file lies where in this process: for the sentence about a load
// or store that its file has nothing for.
// Shape:     a table in pieces that are never given back. Each mapping of a file of ours is noted
//            when it is made and forgotten before it, or its descriptor, goes.
// Sharing:   between threads: a handler reads while others note and forget. Of a mapping that goes
//            at that moment it may say something wrong, never crash.
// Contexts:  report_missing(): async-signal-safe: fstat, lseek, readlink, write; atomics. The
//            others: not in a handler.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::platform {

struct FileMapping {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
  int fd = -1;
  std::uint64_t offset = 0;  // of the mapping's begin, in the file
};

// From here on a SIGBUS there is reported. Without memory the mapping stays unknown.
void note_mapping(const FileMapping &mapping) noexcept;
// Whatever begins there; nothing may.
void forget_mapping(const void *begin) noexcept;

// The access raised SIGBUS. Where a file that has been noted lies there, one sentence says what the
// file lacks: it has been cut, or there is no block, or the disk fails. False: no such file.
bool report_missing(std::uintptr_t address, bool is_write) noexcept;

}  // namespace tmh::platform
