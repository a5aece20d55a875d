// tests/support/small_device.h -- a file system with little room, for tests of what happens when it
// is full.
#pragma once

#include <cstdint>
#include <string>

namespace tmh::test {

// kTmpfs: a load from a hole takes a block, too.
enum class Device { kTmpfs, kExt4 };

// A child's exit code: it had not the right to mount one.
inline constexpr int kMayNotMount = 77;

// In a mount namespace of the calling process's own: REQUIRES a child. `image`: the file that an
// ext4 lies in. False: no right to mount, or no mkfs.ext4.
[[nodiscard]] bool mount_device(Device device, std::uint64_t mib, const std::string &image,
                                const std::string &folder);

// On tmpfs the kernel may drop a page that was loaded and never stored to, and give its block to
// others: does that to all such pages of a file, and returns how many.
std::uint64_t drop_unstored_pages(const std::string &path);

}  // namespace tmh::test
