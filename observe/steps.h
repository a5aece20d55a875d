// observe/steps.h -- the numbered steps of the engine: where a test may kill a process or hold it.
// Shape:     two lists; a step's name is what TMH_CRASH_AT and test reports use. Behind the steps
//            come gaps: between two looks at what others change without a lock. A death there is
//            one at the step before; a schedule that lets others run there is another one.
// Invariant: between two consecutive steps nothing that another process relies on becomes half
//            true.
// Contexts:  step(): everywhere, also in a fault handler. Costs one load and one predicted branch.
// Source:    docs/design.md 8; docs/style.md 9 (owner death).
#pragma once

#include <atomic>
#include <cstdint>

namespace tmh::observe {

#define TMH_STEPS(X)                                                                               \
  X(kAttachSlotTaken, "attach-slot-taken") /* participant record is ours, nothing announced yet */ \
  X(kBeginStart, "begin-start")            /* before the pin */                                    \
  X(kBeginLocked, "begin-locked")          /* slow begin: domain lock held */                      \
  X(kBeginPinned, "begin-pinned")          /* snapshot announced */                                \
  X(kTouchStart, "touch-start")            /* in the handler, first touch */                       \
  X(kTouchLocked, "touch-locked")          /* in the handler, domain lock held */                  \
  X(kTouchRegistered, "touch-registered")  /* eager: access is in the table */                     \
  X(kTouchDone, "touch-done")              /* in the handler, page usable */                       \
  X(kCommitStart, "commit-start")          /* end called, sets known */                            \
  X(kCommitSlotsReserved, "commit-slots-reserved") /* version slots are ours */                    \
  X(kCommitSlotsFilled, "commit-slots-filled")     /* differences copied */                        \
  X(kCommitLocked, "commit-locked")                /* domain lock held, not validated */           \
  X(kCommitFirstLinked, "commit-first-linked")     /* one version linked, the others not */        \
  X(kCommitLinked, "commit-linked")                /* all linked, not logged */                    \
  X(kCommitLogged, "commit-logged")                /* listed in the commit log, not published */   \
  X(kCommitCounted, "commit-counted")              /* among the commits, not published */          \
  X(kCommitPoint, "commit-point")          /* the clock says so, log_published does not yet */     \
  X(kCommitPublished, "commit-published")  /* everything else says so, too */                      \
  X(kCommitUnpinned, "commit-unpinned")    /* pin withdrawn, lock held */                          \
  X(kCommitUnlocked, "commit-unlocked")    /* lock released, local pages not yet settled */        \
  X(kAbortStart, "abort-start")            /* before roll-back */                                  \
  X(kAbortDone, "abort-done")              /* rolled back, pin withdrawn */                        \
  X(kIrrevocableTurn, "irrevocable-turn")  /* nobody else commits; it may have FAILED before */    \
  X(kIrrevocable, "irrevocable")           /* it cannot abort any more */                          \
  X(kGcStart, "gc-start")                  /* before a collection that has work */                 \
  X(kGcHomeCopied, "gc-home-copied")       /* lines are home, version still linked */              \
  X(kGcUnlinked, "gc-unlinked")            /* version unlinked, not yet free */                    \
  X(kGcFreed, "gc-freed")                  /* slot is free */                                      \
  X(kMergeFilled, "merge-filled")          /* older lines copied into the newer version */         \
  X(kMergeMasked, "merge-masked")          /* newer version claims them; older still there */      \
  X(kReapStart, "reap-start")              /* about to clean up a dead participant */              \
  X(kReapCounted, "reap-counted")          /* among the reaped, its slot not free */               \
  X(kReapDone, "reap-done")                /* its slot is free */                                  \
  X(kRepairStart, "repair-start")          /* lock inherited from a dead owner */                  \
  X(kRepairDone, "repair-done")            /* links rebuilt */                                     \
  X(kDetachStart, "detach-start")          /* closing: nothing given back yet */                   \
  X(kLogStart, "log-start")                /* log lock held, nothing written */                    \
  X(kLogCut, "log-cut")                    /* hybrid: what will be written is fixed */             \
  X(kLogWrite, "log-write")                /* records encoded, not on disk */                      \
  X(kLogWritten, "log-written")            /* on disk, not yet said to be */                       \
  X(kLogPointFilled, "log-point-filled")   /* the new durable point is filled in, not counted */   \
  X(kLogPointCounted, "log-point-counted") /* it counts; durable clock not yet stored */           \
  X(kLogPublished, "log-published")        /* durable clock stored, nobody woken */                \
  X(kLogFileMade, "log-file-made")         /* a log file exists that nobody knows of */            \
  X(kCheckpointStart, "checkpoint-start")  /* checkpoint lock held */                              \
  X(kCheckpointCollected, "checkpoint-collected") /* every version up to the point is home */      \
  X(kCheckpointWritten,                                                                            \
    "checkpoint-written")                   /* hybrid: changed pages written to the data files */  \
  X(kCheckpointSynced, "checkpoint-synced") /* data files synced, nothing says so */               \
  X(kCheckpointStored, "checkpoint-stored") /* checkpoint file written, log files not recycled */  \
  X(kRecoverySalvaged, "recovery-salvaged") /* the dead's last commits are in the log */           \
  X(kRecoveryReplayed, "recovery-replayed") /* data files and checkpoint hold everything */        \
  X(kRecoveryPromised, "recovery-promised") /* the checkpoint says that this record is there */    \
  X(kRecoveryDone, "recovery-done")         /* new generation's first record is durable */         \
  X(kLogOffered, "log-offered")             /* log lock held, the writing offered to others */     \
  X(kLogClaimed, "log-claimed")             /* another wants it, the offerer still has the lock */ \
  X(kLogGiven, "log-given")                 /* it may have it, the lock is still held */           \
  X(kLogTaken, "log-taken")                 /* it knows, and does not have the lock */             \
  X(kLinesRemoved, "lines-removed")         /* nobody is in: no line words, but a directory */     \
  X(kLineLock, "line-lock")                 /* level 1: written lines locked, no stamp yet */      \
  X(kLineRedo, "line-redo")                 /* durable: its record is in the ring, not shown */    \
  X(kLineStamp, "line-stamp")               /* stamp taken, nothing validated */                   \
  X(kLineValidate, "line-validate")         /* everything read is still so */                      \
  X(kLineSave, "line-save")                 /* undo words stored, if anybody needs them */         \
  X(kLineCommitPoint, "line-commit-point")  /* COMMITTED, nothing written back */                  \
  X(kLineRedoShown, "line-redo-shown")      /* durable: the log's writer may take the record */    \
  X(kLineWriteBack, "line-write-back")      /* home is new, lines still locked */                  \
  X(kLineUnlock, "line-unlock")             /* lines unlocked, not yet among the commits */        \
  X(kLineCounted, "line-counted")           /* among the commits, status not yet IDLE */           \
  X(kLineRecovered, "line-recovered")       /* a dead thread's lines are free, its context not */  \
  X(kRecallStart, "recall-start")           /* level 2 takes a page: named as moving */            \
  X(kRecallMark, "recall-mark")             /* all its lines are in U, the page still in L */      \
  X(kRecallDone, "recall-done")             /* the page is at level 2 */                           \
  X(kReleaseStart, "release-start")         /* level 1 wants a page back, nothing done */          \
  X(kReleaseTold, "release-told")           /* the commit log says so */                           \
  X(kReleaseLook, "release-look")           /* nobody uses it, it is still at level 2 */           \
  X(kReleaseOpen, "release-open")           /* it is in L */                                       \
  X(kMoveRepaired, "move-repaired")         /* a dead mover's page is at level 2 */                \
  X(kHardwareOpen, "hardware-open")         /* a page is in H, nobody has been told */             \
  X(kHardwareCame, "hardware-came")         /* the epoch says that it came */                      \
  X(kHardwareLeft, "hardware-left")         /* the epoch says that it left, the page still in H */ \
  X(kModeLeave, "mode-leave")               /* RTM shut out, views still show line mode */         \
  X(kModePages, "mode-pages")               /* views are level 2's, not all of them perhaps */     \
  X(kModeLines, "mode-lines")               /* views are in line mode, RTM not yet let in */       \
  X(kPastTaken, "past-taken")               /* a slot for a before-image is ours, not filled */    \
  X(kPastFilled, "past-filled")             /* it holds the lines, nothing says what it is */      \
  X(kPastStamped, "past-stamped")           /* it is a before-image, in no list */                 \
  X(kPastLinked, "past-linked")             /* in its lists, home still as before */               \
  X(kPastRetired, "past-retired")           /* one is in no list, not yet free */                  \
  X(kMomentNamed, "moment-named")           /* durable: a name is in shared memory only */         \
  X(kMomentStored, "moment-stored")         /* it is in the file, the keeper does not know */      \
  X(kMomentErased, "moment-erased")         /* forgetting: in shared memory only again */          \
  X(kLockCellTaken, "lock-cell-taken")      /* locks: a cell has left one list, is in no other */  \
  X(kLockBucket, "lock-bucket")             /* locks: the bucket's lock is held, nothing done */   \
  X(kLockObject, "lock-object")             /* locks: an object is there without a request */      \
  X(kLockRequested, "lock-requested")   /* locks: it is held, or waits; the lists do not say */    \
  X(kLockUnlisted, "lock-unlisted")     /* locks: its locker does not list it yet */               \
  X(kLockSleeps, "lock-sleeps")         /* locks: about to sleep for one */                        \
  X(kLockReleased, "lock-released")     /* locks: it is given back; the lists do not say so */     \
  X(kLockGranted, "lock-granted")       /* locks: the bucket is free, nobody woken */              \
  X(kLockInherited, "lock-inherited")   /* locks: a dead one's locker is ours, all is held */      \
  X(kLockInheriting, "lock-inheriting") /* locks: given to another locker, not to its list */      \
  X(kTpBegun, "tp-begun")               /* tp: a transaction has its locker and its block */       \
  X(kTpLocked, "tp-locked")             /* tp: a lock is held, and no record notes it */           \
  X(kTpStepped, "tp-stepped")           /* tp: a step has committed */                             \
  X(kTpCommits, "tp-commits")           /* tp: about to commit */                                  \
  X(kTpCommitted, "tp-committed")       /* tp: committed, the locks are held */                    \
  X(kTpUnlocked, "tp-unlocked")         /* tp: the locks are gone, nobody is told */               \
  X(kTpUndone, "tp-undone")             /* tp: a record is undone, others may be left */           \
  X(kTpAdopted, "tp-adopted")           /* tp: a transaction of an earlier life has its locks */   \
  X(kDbChanged, "db-changed")           /* db: a call's changes are in copies, not stored */       \
  X(kDbStored, "db-stored")             /* db: they are stored, the caller is not told */          \
  X(kDbGrown, "db-grown")       /* db: so are new pages: of a split, long data, a bucket */        \
  X(kDbWaits, "db-waits")       /* db: they wait for the transaction's end */                      \
  X(kDbStoring, "db-storing")   /* db: what waits is stored, in a step that goes on */             \
  X(kDbUndoing, "db-undoing")   /* db: a change is taken back, in a step that goes on */           \
  X(kDbMade, "db-made")         /* db: a file has an entry, no page, and no owner */               \
  X(kDbReadIn, "db-read-in")    /* db: its pages are in the pool, the file says nothing */         \
  X(kDbOwned, "db-owned")       /* db: the file names its owner, the entry is not whole */         \
  X(kDbOpened, "db-opened")     /* db: the entry is whole, the directory locked */                 \
  X(kDbLeaves, "db-leaves")     /* db: a handle's lock is gone, nothing is written */              \
  X(kDbExports, "db-exports")   /* db: the entry knows the file's next stamp */                    \
  X(kDbExtent, "db-extent")     /* db: some pages are in the file */                               \
  X(kDbPages, "db-pages")       /* db: all are, its head is the old one */                         \
  X(kDbHead, "db-head")         /* db: the head is new, the entry says changed */                  \
  X(kDbExported, "db-exported") /* db: the entry says that the file is whole */                    \
  X(kDbText, "db-text")         /* db: a text is about to be written */                            \
  X(kDbTextEnd, "db-text-end")  /* db: it is written, the entry does not say so */                 \
  X(kDbDropped, "db-dropped")   /* db: an entry is gone, with its pages */

#define TMH_GAPS(X)                                                                                \
  X(kGapBeginLooked, "begin-looked")       /* fast begin: the views stand, nothing announced */    \
  X(kGapBeginLinePin, "begin-line-pin")    /* announcing: the pin below is stored, ours is not */  \
  X(kGapBeginAnnounced, "begin-announced") /* the pin is stored, the clocks not looked at again */ \
  X(kGapTouchLooked, "touch-looked") /* in the handler: has the page a version? it is not open */  \
  X(kGapPinsRead, "gc-pins-read")    /* who needs old versions is known, none has gone */          \
  X(kGapRecallMarked, "recall-marked") /* all lines are in U, the clock below does not say so */   \
  X(kGapBesideLooked, "beside-looked") /* giving way: a line's word is known, home is not read */  \
  X(kGapBesideRing, "beside-ring")     /* undoing: of one more context the undo words are known */ \
  X(kGapReleaseLevel, "release-level") /* the page is in L, its lines still in U */                \
  X(kGapLineBefore, "line-before") /* level 1: the word before is noted, the line not locked */    \
  X(kGapLineLooked, "line-looked") /* level 1: the word is known, home is not read */              \
  X(kGapLineExtend, "line-extend") /* level 1: the new snapshot is known, nothing checked */       \
  X(kGapEventPrepared, "event-prepared") /* about to sleep */                                      \
  X(kGapEventWake, "event-wake")         /* somebody sleeps, or is about to; nobody woken */       \
  X(kGapLogFollow, "log-follow")         /* a follower of the log's writer, about to sleep */      \
  X(kGapLockSuspected, "lock-suspected") /* the holder is dead, the lock not inherited */

enum class Step : std::uint32_t {
#define TMH_STEP_ENUM(id, name) id,
  TMH_STEPS(TMH_STEP_ENUM) TMH_GAPS(TMH_STEP_ENUM)
#undef TMH_STEP_ENUM
};

#define TMH_STEP_COUNT(id, name) +1
inline constexpr std::uint32_t kStepCount = 0 TMH_STEPS(TMH_STEP_COUNT);  // without gaps
inline constexpr std::uint32_t kStepAndGapCount = kStepCount TMH_GAPS(TMH_STEP_COUNT);
#undef TMH_STEP_COUNT

// Async-signal-safe.
[[nodiscard]] const char *step_name(Step step) noexcept;

// Arms SIGKILL of this process at the count-th passage of `step` (1: the next one); kStepCount
// disarms.
void crash_at(std::uint32_t step, std::uint32_t count) noexcept;
// Reads TMH_CRASH_AT=<name>[:<count>], a step's or a gap's; false when the name is unknown. Called
// at every open.
bool crash_at_environment() noexcept;
// Called at each passage of any step; nullptr: none. Must be async-signal-safe.
using StepHook = void (*)(Step step);
void set_step_hook(StepHook hook) noexcept;

namespace detail {
extern std::atomic<bool> steps_watched;
void passed(Step step) noexcept;
}  // namespace detail

// Async-signal-safe, both.
[[nodiscard]] inline bool are_steps_watched() noexcept {
  // relaxed: tests arm before they start what they watch
  return detail::steps_watched.load(std::memory_order_relaxed);
}
inline void step(Step s) noexcept {
  if (are_steps_watched()) [[unlikely]]
    detail::passed(s);
}
// Where the caller has asked once for all the steps that it passes: whether they are watched.
template <bool kWatched>
inline void step_if(Step s) noexcept {
  if constexpr (kWatched) step(s);
}

}  // namespace tmh::observe
