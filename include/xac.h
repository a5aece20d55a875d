/* xac.h -- LIBXAC: memory-mapped transactions, the C interface of the thesis (table 2.1, sections
 * 2.1 to 2.3).
 *
 * A function returns 0 on success and a negative error code otherwise, unless something else is
 * said at it; xStrError() tells what a code means. One transaction per process at a time; nested
 * transactions are subsumed. Link with -lxac.
 * Contexts: none of these may be called in a signal handler. After fork() the child must call
 * xInit() itself.
 * Define XAC_NO_SHORT_NAMES to hide COMMITTED, READ and the other short constants. */
#ifndef XAC_H
#define XAC_H

#include <stddef.h>
#include <sys/mman.h> /* MAP_FAILED, and munmap() as the thesis's programs use it */

#ifdef __cplusplus
extern "C" {
#endif

#define XAC_NONDURABLE 0
#define XAC_DURABLE 1          /* xend returns when the commit would survive a power cut */
#define XAC_DURABLE_BUFFERED 2 /* xend returns at once; durable within 100 ms, or after xFlush */
#define XAC_COMMITTED 1
#define XAC_ABORTED 2
#define XAC_PENDING 3
#define XAC_FAILED 4
#define XAC_READ 1
#define XAC_READ_WRITE 2

#ifndef XAC_NO_SHORT_NAMES
#define NONDURABLE XAC_NONDURABLE
#define DURABLE XAC_DURABLE
#define COMMITTED XAC_COMMITTED
#define ABORTED XAC_ABORTED
#define PENDING XAC_PENDING
#define FAILED XAC_FAILED
#define READ XAC_READ
#define READ_WRITE XAC_READ_WRITE
#define PAGESIZE 4096 /* figures 4-1 and 4-3 use this name */
#endif

/* Opens (or creates) the domain in the folder `path`, and recovers it when no other has it open.
 * flags: NONDURABLE, DURABLE or XAC_DURABLE_BUFFERED; a domain keeps what it was created with. */
int xInit(const char *path, int flags);
/* Detaches; everything committed is in the mapped files on disk when it returns, also in those that
 * were unmapped; what an older transaction of another process still keeps from them is when that
 * one shuts down, too. Waits for the transactions of other threads; refused inside one of this
 * thread. Other threads' calls that it overtakes fail like those that come after it: the process is
 * not initialised. */
int xShutdown(void);
/* Maps the first `length` bytes (a multiple of 4096) of file `name` (relative: to the domain's
 * folder), which is created or extended when too short; not the heap's, heap.tmh, by whatever name.
 * Returns its address, the same in every process, or MAP_FAILED; xLastError() and xLastErrorText()
 * then tell why. A mapping begins at the file's first byte, and a page has one address: a file that
 * is mapped already is refused, by whatever name (-kSegmentInUse, -kSegmentOverlap). Parts of a
 * file: tmh::SegmentOptions::offset_bytes. */
void *xMmap(const char *name, size_t length);
int xMunmap(const char *name);
int xbegin(void);
/* COMMITTED or ABORTED at the outermost end; PENDING or FAILED at a nested one; negative: an error
 * code. */
int xend(void);
/* PENDING or FAILED; negative: an error code. FAILED is certain, PENDING may still abort. */
int xValidate(void);
/* A read-only transaction: never aborts. A store inside it is discarded and xendQuery() returns an
 * error. */
int xbeginQuery(void);
int xendQuery(void);
/* Advice: the current transaction will access the page of `addr` (READ or READ_WRITE). Affects
 * speed only. */
int setPageAccess(void *addr, int access);

/* Durable domains (thesis, table 2.1 and section 3.2). */
/* Data files catch up with the redo log: recovery starts here. Stops no process. */
int xCheckpoint(void);
/* Checkpoint, then moves the log files that recovery does not need to the folder `to`.
 * Returns how many. */
int xArchive(const char *to);
/* Recovers the domain in the folder `path`, which no process has open, as the next xInit would. */
int xRecover(const char *path);

/* Beyond the thesis. */
/* Returns when everything committed so far is durable. */
int xFlush(void);
/* xend, acknowledged as XAC_DURABLE or XAC_DURABLE_BUFFERED, whatever the domain's way is. */
int xendAs(int durability);
/* A consistent copy of the domain in the new folder `to`, while transactions go on. */
int xBackup(const char *to);
/* Transactional memory from the domain's heap segment (heap.tmh); inside a transaction only, rolled
 * back with it. NULL: no room. Every process has the heap mapped at the same address, from its next
 * transaction after a process has made it. */
void *xMalloc(size_t bytes);
void xFree(void *pointer);
/* Address of the pointer-sized cell named `name` in the heap segment, zero at first use; inside a
 * transaction only. NULL on error. */
void *xRoot(const char *name);
/* e.g. "oldest-wins,keep-age,backoff=exponential", "isolation=snapshot". */
int xSetPolicy(const char *spec);
/* In an update under snapshot isolation: the lines of these bytes, which it has read, count as
 * written, so that no other update that writes or promotes one of them commits beside it. */
int xPromote(const void *address, size_t bytes);
/* One sentence for an error code or a status. Never NULL. */
const char *xStrError(int code);
/* Code of this thread's last failure, 0 when none. */
int xLastError(void);
/* The same as a line of text, which also names the file, address or value concerned, as far as it
 * is known. Never NULL; the thread's, until its next failure. */
const char *xLastErrorText(void);

#ifdef __cplusplus
}
#endif

#endif
