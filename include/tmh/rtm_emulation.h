/* tmh/rtm_emulation.h -- RTM transactions on any x86-64 Linux, slowly and faithfully: for tests.
 *
 * A program that is linked with libtmh-rtm-emulation, or started with it in LD_PRELOAD, runs its
 * XBEGIN ... XEND code in an emulator: always where the processor has no RTM (XBEGIN raises SIGILL
 * there at first), and on request (TMH_RTM_EMULATION=force) where it has, by replacing the XBEGIN
 * instructions that it finds. Plain C. Threads: every function may be called from any thread, none
 * from inside a transaction.
 * Environment and limits: tmh-rtm-emulation(7). */
#ifndef TMH_RTM_EMULATION_H
#define TMH_RTM_EMULATION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Knobs. Read at the begin of each transaction, by all threads of this process. */
struct tmh_rtm_emulation_knobs {
  /* Write set: sets (a power of two) x ways lines of 64 bytes, else capacity abort. */
  uint32_t sets, ways;
  /* Lines of both kinds at most, else capacity abort. */
  uint32_t read_lines;
  /* Depth at most; the XBEGIN beyond it aborts. */
  uint32_t nesting;
  /* Executed at most, else abort with status 0, as a timer interrupt would. */
  uint32_t instructions;
  /* Injected aborts, per million of chances; a chance is each new line and each outermost XEND. */
  uint32_t conflict_ppm;
  uint32_t capacity_ppm;
  /* Status 0. */
  uint32_t spurious_ppm;
  /* Of the injection; each thread has a sequence of its own. */
  uint64_t seed;
  /* Instructions between two sched_yield(), 0: never. */
  uint32_t yield_every;
  /* Between validation and publication, and after its first store; stretches the commit. */
  uint32_t commit_delay_us;
  /* 1: first touch of a page that is not present, or to be copied on write, aborts with 0 as on
   * hardware. */
  uint8_t strict_first_touch;
  /* 1: who touches a line dooms the others that have it; 0: the first to commit wins. */
  uint8_t requester_wins;
  /* 0: WRONG on purpose, commits do not stop native code. For tests that must fail then. */
  uint8_t stop_others;
  uint8_t reserved_zero[5];
};

/* Counters of the domain (all processes that share it), since its start. */
struct tmh_rtm_emulation_counters {
  uint64_t commits;
  uint64_t aborts;
  uint64_t explicit_aborts; /* status bit 0 */
  uint64_t conflicts;       /* bit 2 */
  uint64_t capacity;        /* bit 3 */
  uint64_t debug;           /* bit 4 */
  uint64_t zero;            /* no bit (but 5, when nested): the next six and injected ones */
  uint64_t page_faults;
  uint64_t system_calls; /* and CPUID, PAUSE and the like, which abort on hardware */
  uint64_t unsupported;  /* instructions that hardware would have run: a gap of the emulator */
  uint64_t over_budget;
  uint64_t faults;   /* exceptions of an instruction (division, invalid opcode) */
  uint64_t too_deep; /* more XBEGIN in each other than nesting allows */
  uint64_t nested;   /* aborts at depth two or more (bit 5) */
  uint64_t injected;
  uint64_t instructions;
  uint64_t stops;     /* signals that made native code wait for a commit */
  uint64_t recovered; /* commit locks taken over from the dead */
  /* Of commits: those that touched no memory, as in trials of whether RTM works. */
  uint64_t empty_commits;
};

/* What came of the start: an int, so that it can be returned by tmh_rtm_emulation_start(). */
enum {
  TMH_RTM_EMULATION_OFF = 0,    /* TMH_RTM_EMULATION=off, or auto on a processor with RTM */
  TMH_RTM_EMULATION_TRAPS = 1,  /* XBEGIN raises SIGILL by itself */
  TMH_RTM_EMULATION_FORCED = 2, /* XBEGIN instructions were replaced */
  /* No memory, or the domain file does not fit; a sentence is on standard error. */
  TMH_RTM_EMULATION_FAILED = -1
};

/* Starts the emulator, if it does not run. force not 0: also where the processor has RTM. The
 * library does the same before main() as TMH_RTM_EMULATION says; threads that were created before
 * are known from their first transaction on. */
int tmh_rtm_emulation_start(int force);
int tmh_rtm_emulation_state(void);

void tmh_rtm_emulation_get_knobs(struct tmh_rtm_emulation_knobs *knobs);
/* 0, or -1 when a value makes no sense (nothing is changed then). */
int tmh_rtm_emulation_set_knobs(const struct tmh_rtm_emulation_knobs *knobs);

void tmh_rtm_emulation_get_counters(struct tmh_rtm_emulation_counters *counters);
/* Explicit aborts with this code. */
uint64_t tmh_rtm_emulation_explicit_aborts(uint8_t code);
/* How often the instruction of this name ("vpgatherdd", "xsavec") made a transaction abort. */
uint64_t tmh_rtm_emulation_refused(const char *mnemonic);
/* Writes counters and refused instructions as text to a descriptor. */
void tmh_rtm_emulation_report(int descriptor);

/* Forced emulation, for code that the search before main() could not know. Both return how many
 * XBEGIN were replaced.
 * [begin, end) holds instructions only and begins with one. REQUIRES that no thread runs there. */
size_t tmh_rtm_emulation_patch(void *begin, void *end);
/* Everything that is loaded now, after dlopen(). */
size_t tmh_rtm_emulation_patch_loaded(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
