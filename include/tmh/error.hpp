// include/tmh/error.hpp -- error codes of the library, and the exception that carries them.
// Contexts:  Errc values are plain numbers and may be used in a signal handler; Error allocates and
//            may not.
// Source:    docs/design.md 8. Numbers are frozen: a released value is never reused or changed.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <string>
#include <system_error>

namespace tmh {

// What the environment or the caller did wrong. An abort is no error: see AbortCause.
enum class Errc : int {
  kOk = 0,
  kNotInitialized = 1,  // no domain is open (libxac: xInit has not been called)
  // libxac: xInit called twice without xShutdown. Domain::open(): this process has the domain open
  // with other options
  kAlreadyInitialized = 2,
  kBadArgument = 3,           // null, empty, unknown flag, or a reserved field that is not zero
  kNotADomain = 4,            // control file without our magic number
  kShortFile = 5,             // a control file ends before its header says
  kForeignVersion = 6,        // file format of another version
  kUnsupportedFeature = 7,    // file needs a feature that this build does not know
  kCorrupt = 8,               // checksum or an internal bound of a control file is wrong
  kPermission = 9,            // the operating system denies access to the folder or file
  kWrongOwner = 10,           // the domain belongs to another user
  kAddressInUse = 11,         // the segment's fixed address range is taken in this process
  kMisalignedLength = 12,     // length or offset is not a multiple of the page size
  kMisalignedAddress = 13,    // address is not aligned as asked
  kNotMapped = 14,            // address or name belongs to no mapped segment
  kSegmentInUse = 15,         // the segment is mapped already, or an instance is running on it
  kSegmentOverlap = 16,       // part of the file belongs to another segment of the domain already
  kTooManySegments = 17,      // the segment table is full
  kTooManyParticipants = 18,  // the participant table is full
  kSegmentFull = 19,          // allocation: no room left below the segment's maximum size
  kDiskFull = 20,             // no space on the device
  kIo = 21,                   // the device or the file system reported an error
  kEndWithoutBegin = 22,      // end, validate or page access outside an instance
  kNestedMisuse = 23,         // an update inside a query, or an end that does not match its begin
  kQueryWrote = 24,           // a query stored into a segment; the stores were discarded
  // This process was forked from a participant and has not opened the domain itself.
  kDetached = 25,
  // No longer returned: before the redo log, durable domains were refused.
  kDurableNotYet = 26,
  kBadPolicy = 27,            // not a policy specification
  kBadTracking = 28,          // not a tracking mode
  kBadDetection = 29,         // not a detection mode
  kTrackingUnavailable = 30,  // this kernel does not permit the tracking mode that was demanded
  kDetectionMismatch = 31,    // the domain is open with the other detection mode
  kInstanceRunning = 32,      // close, unmap or policy change inside an instance
  kNotAHeap = 33,             // heap function on a segment without heap layout
  kBadFree = 34,              // pointer was not allocated here, or was freed before
  kSegmentMismatch = 35,      // segment exists with another size, offset, layout or address
  kFileShrunk = 36,           // a data file is, or was meanwhile, shorter than its segment
  kRootMismatch = 37,         // root exists with another size; types are not compared
  kOutOfMemory = 38,          // the operating system refused memory or address space
  kReadOnly = 39,             // the file system is mounted read-only
  kLogDamaged = 40,           // the redo log is damaged before its end; the detail says where
  // A redo log file that recovery needs, or that is in use, is gone or cut short.
  kLogMissing = 41,
  // Writing the redo log failed; commits are refused until every process has reopened the domain.
  kLogFailed = 42,
  kNotDurable = 43,          // the call needs a durable domain
  kDurabilityMismatch = 44,  // the domain was created with another durability
  kBadDurability = 45,       // not a durability or group-commit specification
  kDomainInUse = 46,         // the call needs the domain closed, and a process has it open
  // Not a specification of levels, cross-level policy, escalation or line level.
  kBadLevels = 47,
  // The domain is open with other levels, or its other options exclude them.
  kLevelsMismatch = 48,
  kNeedsPages = 49,  // an instance that may run at level 1 only did what level 1 cannot do
  // RTM was demanded and does not work here; the detail says why and what would help
  kRtmUnavailable = 50,
  // retry() in an instance that has read nothing: no change could ever wake it
  kNothingRead = 51,
  // A file that is the domain's own is a link, has a second name, is no regular file, or has an
  // owner who cannot have made it there. It is neither followed nor written to.
  kForeignFile = 52,
  // The folder has files of a durable domain's log, and no tmh.control: no new domain is made
  // beside them.
  kControlMissing = 53,
  kNotHeld = 54,         // the domain does not hold that moment; the detail says which it holds
  kTooManyMoments = 55,  // the domain's table of named moments is full
  // A file of the domain was removed, replaced or cut short while processes had the domain open;
  // the detail says which.
  kFileReplaced = 56,
  // The locker waited in a cycle of lockers that wait for each other, and was chosen to end it.
  kDeadlock = 57,
  kLockTimeout = 58,  // the lock did not become free in the time that the caller gave
  kLockBusy = 59,     // the lock is not free, and the caller did not want to wait
  kNotLocked = 60,    // the locker does not have that lock
};

// One clear sentence per code. Never null. Async-signal-safe.
[[nodiscard]] const char *message(Errc code) noexcept;

// Category "tmh"; error_code values are Errc.
[[nodiscard]] const std::error_category &category() noexcept;
[[nodiscard]] inline std::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), category()};
}

// Thrown by every function that has no std::error_code overload. what() names the file, address or
// value concerned.
class Error : public std::system_error {
 public:
  Error(Errc code, const std::string &detail) : std::system_error(make_error_code(code), detail) {}
  [[nodiscard]] Errc errc() const noexcept { return static_cast<Errc>(code().value()); }
};

}  // namespace tmh

template <>
struct std::is_error_code_enum<tmh::Errc> : std::true_type {};
