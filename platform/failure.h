// platform/failure.h -- carries the detail of a failure (file, value, errno text) beside its Errc.
// Contexts:  NOT async-signal-safe: the detail is a thread's std::string. Handlers return a bare
//            Errc.
#pragma once

#include <string>

#include <tmh/error.hpp>

namespace tmh::platform {

// Stores the detail for this thread and returns the code.
Errc fail(Errc code, std::string detail) noexcept;
// The same, with ": " and the text of the current errno appended. Maps ENOSPC, EDQUOT, EACCES,
// EPERM, EROFS, ENOMEM to their own codes when `code` is kIo. Nor is a want of descriptors or
// memory the kernel's "not permitted" (kTrackingUnavailable): kIo, kOutOfMemory.
Errc fail_errno(Errc code, const std::string &detail) noexcept;
// kOutOfMemory; the detail where there is memory for that.
Errc fail_for_memory(const char *detail) noexcept;
[[nodiscard]] const std::string &failure_detail() noexcept;

}  // namespace tmh::platform
