// tools/failure.cpp -- names of error codes.
#include "tools/failure.h"

#include <fmt/format.h>

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
#undef TMH_NAME
  }
  return "unknown";
}

Exit exit_of(const Error &error) noexcept {
  const auto *const specific = dynamic_cast<const SpecificError *>(&error);
  return specific != nullptr ? specific->exit() : exit_of(error.errc());
}

std::string sentence(const Error &error) {
  // A file's name may hold anything.
  return fmt::format("{} ({}, exit code {})", printable(error.what()), errc_name(error.errc()),
                     static_cast<int>(exit_of(error)));
}

void refuse(Errc code, const std::string &detail) { throw Error(code, detail); }

void check(Errc code) {
  if (code != Errc::kOk) throw Error(code, platform::failure_detail());
}

}  // namespace tmh::tools
