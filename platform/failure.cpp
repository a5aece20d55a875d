// platform/failure.cpp -- detail of the last failure, per thread.
#include "platform/failure.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "platform/thread_object.h"

namespace tmh::platform {

namespace {
struct Detail {
  std::string text;
};
// Null: this thread has none yet, and there is no memory for it.
std::string *detail_slot() noexcept {
  try {
    return &ThreadObject<Detail>::here().text;
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

Errc from_errno(int error) noexcept {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return Errc::kDiskFull;
    case EACCES:
    case EPERM:
      return Errc::kPermission;
    case EROFS:
      return Errc::kReadOnly;
    case ENOMEM:
      return Errc::kOutOfMemory;
    default:
      return Errc::kIo;
  }
}
}  // namespace

Errc fail(Errc code, std::string detail) noexcept {
  if (std::string *const slot = detail_slot(); slot != nullptr) *slot = std::move(detail);
  return code;
}

Errc fail_errno(Errc code, const std::string &detail) noexcept {
  const int error = errno;
  const bool is_want =
      code == Errc::kTrackingUnavailable && (error == EMFILE || error == ENFILE || error == ENOMEM);
  return fail(code == Errc::kIo || is_want ? from_errno(error) : code,
              detail + ": " + std::strerror(error));
}

Errc fail_for_memory(const char *detail) noexcept {
  try {
    return fail(Errc::kOutOfMemory, detail);
  } catch (const std::bad_alloc &) {
    return fail(Errc::kOutOfMemory, {});
  }
}

const std::string &failure_detail() noexcept {
  static const std::string nothing;
  const std::string *const slot = detail_slot();
  return slot != nullptr ? *slot : nothing;
}

}  // namespace tmh::platform
