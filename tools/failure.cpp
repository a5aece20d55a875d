// tools/failure.cpp -- names of error codes.
#include "tools/failure.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "platform/assert.h"
#include "platform/failure.h"
#include "tools/print.h"

namespace tmh::tools {

// No default: the compiler names a code that is missing here.
const char *errc_name(Errc code) noexcept {
  switch (code) {
#define TMH_NAME(name) \
  case Errc::name:     \
    return #name
    TMH_NAME(kOk);
    TMH_NAME(kNotInitialized);
    TMH_NAME(kAlreadyInitialized);
    TMH_NAME(kBadArgument);
    TMH_NAME(kNotADomain);
    TMH_NAME(kShortFile);
    TMH_NAME(kForeignVersion);
    TMH_NAME(kUnsupportedFeature);
    TMH_NAME(kCorrupt);
    TMH_NAME(kPermission);
    TMH_NAME(kWrongOwner);
    TMH_NAME(kAddressInUse);
    TMH_NAME(kMisalignedLength);
    TMH_NAME(kMisalignedAddress);
    TMH_NAME(kNotMapped);
    TMH_NAME(kSegmentInUse);
    TMH_NAME(kSegmentOverlap);
    TMH_NAME(kTooManySegments);
    TMH_NAME(kTooManyParticipants);
    TMH_NAME(kSegmentFull);
    TMH_NAME(kDiskFull);
    TMH_NAME(kIo);
    TMH_NAME(kEndWithoutBegin);
    TMH_NAME(kNestedMisuse);
    TMH_NAME(kQueryWrote);
    TMH_NAME(kDetached);
    TMH_NAME(kDurableNotYet);
    TMH_NAME(kBadPolicy);
    TMH_NAME(kBadTracking);
    TMH_NAME(kBadDetection);
    TMH_NAME(kTrackingUnavailable);
    TMH_NAME(kDetectionMismatch);
    TMH_NAME(kInstanceRunning);
    TMH_NAME(kNotAHeap);
    TMH_NAME(kBadFree);
    TMH_NAME(kSegmentMismatch);
    TMH_NAME(kFileShrunk);
    TMH_NAME(kRootMismatch);
    TMH_NAME(kOutOfMemory);
    TMH_NAME(kReadOnly);
    TMH_NAME(kLogDamaged);
    TMH_NAME(kLogMissing);
    TMH_NAME(kLogFailed);
    TMH_NAME(kNotDurable);
    TMH_NAME(kDurabilityMismatch);
    TMH_NAME(kBadDurability);
    TMH_NAME(kDomainInUse);
    TMH_NAME(kBadLevels);
    TMH_NAME(kLevelsMismatch);
    TMH_NAME(kNeedsPages);
    TMH_NAME(kRtmUnavailable);
    TMH_NAME(kNothingRead);
    TMH_NAME(kForeignFile);
    TMH_NAME(kControlMissing);
    TMH_NAME(kNotHeld);
    TMH_NAME(kTooManyMoments);
    TMH_NAME(kFileReplaced);
    TMH_NAME(kDeadlock);
    TMH_NAME(kLockTimeout);
    TMH_NAME(kLockBusy);
    TMH_NAME(kNotLocked);
#undef TMH_NAME
  }
  return "unknown";
}

Exit exit_of(const Error &error) noexcept {
  TMH_ASSERT(error.errc() != Errc::kOk);
  const auto *const specific = dynamic_cast<const SpecificError *>(&error);
  return specific != nullptr ? specific->exit() : exit_of(error.errc());
}

namespace {

// The library's details of these codes are sentences.
bool tells_all(Errc code) noexcept {
  switch (code) {
    case Errc::kBadArgument:
    case Errc::kBadPolicy:
    case Errc::kBadTracking:
    case Errc::kBadDetection:
    case Errc::kBadDurability:
    case Errc::kBadLevels:
    case Errc::kDetectionMismatch:
    case Errc::kDurabilityMismatch:
    case Errc::kLevelsMismatch:
    case Errc::kLogDamaged:
    case Errc::kLogMissing:
      return true;
    default:
      return false;
  }
}

// "file: No such file or directory", as platform::fail_errno() makes it.
bool ends_with_errno(const std::string &detail) {
  constexpr int kErrnoMax = 133;
  static_assert(kErrnoMax == EHWPOISON, "the largest that Linux has");
  for (int number = 1; number <= kErrnoMax; ++number)
    if (detail.ends_with(std::string(": ") + std::strerror(number))) return true;
  return false;
}

}  // namespace

std::string text_of(const Error &error) {
  const std::string all = error.what();
  const std::string tail = ": " + error.code().message();
  if (!all.ends_with(tail)) return all;  // no detail
  std::string detail = all.substr(0, all.size() - tail.size());
  const bool is_refusal = dynamic_cast<const Refusal *>(&error) != nullptr;
  return is_refusal || tells_all(error.errc()) || ends_with_errno(detail) ? detail : all;
}

std::string sentence(const Error &error) {
  // A file's name may hold anything.
  return fmt::format("{} ({}, exit code {})", printable(text_of(error)), errc_name(error.errc()),
                     static_cast<int>(exit_of(error)));
}

void refuse(Errc code, const std::string &detail) {
  TMH_ASSERT(code != Errc::kOk);
  throw Refusal(code, detail);
}

void check(Errc code) {
  if (code != Errc::kOk) throw Error(code, platform::failure_detail());
}

}  // namespace tmh::tools
