// hierarchy/api/error.cpp -- one sentence per Errc, and the std::error_category "tmh".
// Contexts:  message() and category(): async-signal-safe (literals and a constant-initialised
//            object; no heap, no lock).
#include <tmh/error.hpp>

#include <string>
#include <system_error>

namespace tmh {

const char *message(Errc code) noexcept {
  // No default label: the compiler names the code that lacks a sentence.
  switch (code) {
    case Errc::kOk:
      return "no error";
    case Errc::kNotInitialized:
      return "no domain is open in this process";
    case Errc::kAlreadyInitialized:
      return "a domain is open in this process already";
    case Errc::kBadArgument:
      return "an argument is null, empty, out of range, or has an unknown flag or non-zero "
             "reserved field";
    case Errc::kNotADomain:
      return "the folder's control file is not one of a tmh domain";
    case Errc::kShortFile:
      return "the file ends before its header says";
    case Errc::kForeignVersion:
      return "the file was written in another format version";
    case Errc::kUnsupportedFeature:
      return "the file needs a feature that this build does not know";
    case Errc::kCorrupt:
      return "the file is damaged: a checksum or an internal bound is wrong";
    case Errc::kPermission:
      return "the operating system denies access to the folder or file";
    case Errc::kWrongOwner:
      return "the domain belongs to another user";
    case Errc::kAddressInUse:
      return "the segment's fixed address range is taken in this process";
    case Errc::kMisalignedLength:
      return "a length or offset is not a multiple of the page size";
    case Errc::kMisalignedAddress:
      return "the address is not aligned as asked";
    case Errc::kNotMapped:
      return "the address or name belongs to no mapped segment";
    case Errc::kSegmentInUse:
      return "the segment is mapped already, or an instance is running on it";
    case Errc::kSegmentOverlap:
      return "part of the file belongs to another segment of the domain";
    case Errc::kTooManySegments:
      return "the domain's segment table is full";
    case Errc::kTooManyParticipants:
      return "the domain's participant table is full";
    case Errc::kSegmentFull:
      return "no room is left below the segment's maximum size";
    case Errc::kDiskFull:
      return "no space is left on the device";
    case Errc::kIo:
      return "the device or the file system reported an error";
    case Errc::kEndWithoutBegin:
      return "the call needs a running instance, and none is running";
    case Errc::kNestedMisuse:
      return "an update began inside a query, or an end does not match its begin";
    case Errc::kQueryWrote:
      return "a query stored into a segment; its stores were discarded";
    case Errc::kDetached:
      return "this process was forked from a participant and has not opened the domain itself";
    case Errc::kDurableNotYet:
      return "the library is older than durable domains";
    case Errc::kBadPolicy:
      return "not a policy specification";
    case Errc::kBadTracking:
      return "not a tracking mode";
    case Errc::kBadDetection:
      return "not a detection mode";
    case Errc::kTrackingUnavailable:
      return "this kernel does not permit the tracking mode that was demanded";
    case Errc::kDetectionMismatch:
      return "the domain is open with the other detection mode";
    case Errc::kInstanceRunning:
      return "the call is not allowed while an instance is running";
    case Errc::kNotAHeap:
      return "the segment has no heap layout";
    case Errc::kBadFree:
      return "the pointer was not allocated here, or was freed before";
    case Errc::kSegmentMismatch:
      return "the segment exists with another size, offset, layout or address";
    case Errc::kFileShrunk:
      return "a data file is shorter than its segment";
    case Errc::kRootMismatch:
      return "the root exists with another size, as an object of another type";
    case Errc::kOutOfMemory:
      return "the operating system refused memory or address space";
    case Errc::kReadOnly:
      return "the file system is mounted read-only";
    case Errc::kLogDamaged:
      return "the redo log is damaged before its end";
    case Errc::kLogMissing:
      return "a redo log file that is needed is gone or cut short";
    case Errc::kLogFailed:
      return "writing the redo log failed; the domain takes no commits until every process has "
             "reopened it";
    case Errc::kNotDurable:
      return "the call needs a durable domain";
    case Errc::kDurabilityMismatch:
      return "the domain was created with another durability";
    case Errc::kBadDurability:
      return "not a durability or group-commit specification";
    case Errc::kDomainInUse:
      return "the call needs the domain closed, and a process has it open";
    case Errc::kBadLevels:
      return "not a specification of levels, cross-level policy, escalation or line level";
    case Errc::kLevelsMismatch:
      return "the domain is open with other levels, or its other options exclude them";
    case Errc::kNeedsPages:
      return "an instance that may run at level 1 only did what level 1 cannot do";
    case Errc::kRtmUnavailable:
      return "RTM was demanded and does not work here";
    case Errc::kNothingRead:
      return "an instance that has read nothing cannot wait for a change";
    case Errc::kForeignFile:
      return "a domain's own files are regular files with one name, of users who may write its "
             "folder";
    case Errc::kControlMissing:
      return "the files of a durable domain have lost their tmh.control: put it back, or open a "
             "backup of the whole "
             "folder; for a new domain here move them away";
    case Errc::kNotHeld:
      return "the domain does not hold that moment of its past";
    case Errc::kTooManyMoments:
      return "the domain's table of named moments is full";
    case Errc::kFileReplaced:
      return "a file of the domain is not the one that its participants have, or had, open";
    case Errc::kDeadlock:
      return "lockers waited for each other, and this one was chosen to give up";
    case Errc::kLockTimeout:
      return "the lock did not become free in time";
    case Errc::kLockBusy:
      return "the lock is not free";
    case Errc::kNotLocked:
      return "the locker does not have that lock";
  }
  return "unknown tmh error code";
}

namespace {

class Category final : public std::error_category {
 public:
  const char *name() const noexcept override { return "tmh"; }
  std::string message(int code) const override { return tmh::message(static_cast<Errc>(code)); }

  // Where the operating system has a word for it, `error == std::errc::...` works too.
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<Errc>(code)) {
      case Errc::kBadArgument:
        return std::errc::invalid_argument;
      case Errc::kPermission:
        return std::errc::permission_denied;
      case Errc::kDiskFull:
        return std::errc::no_space_on_device;
      case Errc::kIo:
        return std::errc::io_error;
      case Errc::kOutOfMemory:
        return std::errc::not_enough_memory;
      default:
        return {code, *this};
    }
  }
};

// Never destroyed: errors are still reported while other static objects are being destroyed.
union Forever {
  Category category;
  constexpr Forever() noexcept : category() {}
  ~Forever() {}
};
constinit Forever g_forever;

}  // namespace

const std::error_category &category() noexcept { return g_forever.category; }

}  // namespace tmh
