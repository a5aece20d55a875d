// platform/failure.cpp -- detail of the last failure, per thread.
#include "platform/failure.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/thread_object.h"

namespace tmh::platform {

namespace {
struct Detail {
  std::string text;
};
std::string &detail_slot() noexcept { return ThreadObject<Detail>::here().text; }

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
  detail_slot() = std::move(detail);
  return code;
}

Errc fail_errno(Errc code, const std::string &detail) noexcept {
  const int error = errno;
  const bool is_want = code == Errc::kTrackingUnavailable && (error == EMFILE || error == ENFILE || error == ENOMEM);
  return fail(code == Errc::kIo || is_want ? from_errno(error) : code, detail + ": " + std::strerror(error));
}

const std::string &failure_detail() noexcept { return detail_slot(); }

}  // namespace tmh::platform
