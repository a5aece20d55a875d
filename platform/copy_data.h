// platform/copy_data.h -- copies part of a file, holes included.
// Contexts:  not in handlers. The source may change meanwhile: each byte is then as it was at some
//            moment.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/error.hpp>

namespace tmh::platform {

// Bytes [from, from + bytes) of `in` to the beginning of `out`, which is empty and that long; what
// is a hole stays one. By the kernel where it does that between these two file systems. `to`: out's
// name, for the detail of kIo, kDiskFull, kOutOfMemory.
[[nodiscard]] Errc copy_data(int in, std::uint64_t from, std::uint64_t bytes, int out,
                             const std::string &to) noexcept;

// The same bytes to the same place of `out`, which may hold others; holes are written as zeros.
[[nodiscard]] Errc copy_in_place(int in, std::uint64_t from, std::uint64_t bytes, int out,
                                 const std::string &to) noexcept;

}  // namespace tmh::platform
