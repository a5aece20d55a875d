/* tp/paper.h -- LIBTP's calls with the names that the paper prints, over tp.h.
 *
 * One environment per process, tp_paper_open(); a transaction per thread, from txn_begin() to its
 * end. What is not said here is as in tp.h.
 * A process that opens none, and has TP_SERVER in its environment, is a client: the calls are that
 * server's, with its record types, and pages are copies (tp/server.h). tp_paper_env() and
 * tp_paper_txn() are null then, so what takes an environment or a transaction fails.
 * TP_NO_SHORT_NAMES hides lock, unlock, log, wake and sleep_on, which other headers may have.
 * Contexts: as tp.h.
 * Source: LIBTP, sections 3.2 and 4.4. */
#ifndef TP_PAPER_H
#define TP_PAPER_H

#include <tp.h>

#ifdef __cplusplus
extern "C" {
#endif

#define READ_LOCK TP_SHARED
#define WRITE_LOCK TP_EXCLUSIVE
#define BF_PIN 1

/* The process's environment; options as tp_open(). */
int tp_paper_open(const char *home, const struct tp_options *options);
int tp_paper_close(void);
tp_env *tp_paper_env(void);
/* Grows with each tp_paper_open() that succeeds: tells an environment from the one before. */
uint64_t tp_paper_serial(void);
/* The calling thread's transaction; null: none. */
tp_txn *tp_paper_txn(void);

/* 0: none could begin, see tp_last_error(). */
tp_id tp_paper_begin(void);
int tp_paper_commit(void);
int tp_paper_abort(void);
/* -1 is an error. */
int tp_paper_buf_open(const char *path, int flags, int mode);
/* Null is an error. flags: BF_PIN, the only way there is. */
void *tp_paper_buf_get(int fid, uint64_t page, int flags, int *len);
int tp_paper_buf_unpin(void *page);
int tp_paper_lock(int fid, uint64_t page, unsigned mode);
int tp_paper_unlock(int fid, uint64_t page, unsigned mode);
int tp_paper_upgrade(int fid, uint64_t page, unsigned from, unsigned to);
/* In the step of the pinned pages, or in one of its own. 0 is an error. */
tp_lsn tp_paper_log(uint32_t type, const void *data, size_t bytes);
/* The same, durable when it returns. No page is pinned. */
tp_lsn tp_paper_log_commit(uint32_t type, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#define txn_begin() tp_paper_begin()
#define txn_commit() tp_paper_commit()
#define txn_abort() tp_paper_abort()
#define buf_open(path, flags, mode) tp_paper_buf_open((path), (flags), (mode))
#define buf_get(fid, page, flags, len) tp_paper_buf_get((fid), (uint64_t)(page), (flags), (len))
#define buf_pin(fid, page) tp_paper_buf_get((fid), (uint64_t)(page), BF_PIN, 0)
#define buf_unpin(page) tp_paper_buf_unpin(page)
#define buf_sync(fid) tp_buf_sync(tp_paper_env(), (fid))
/* tp_lock() of tp.h has four arguments; this one is the paper's. */
#define tp_lock(fid, page, mode) tp_paper_lock((fid), (uint64_t)(page), (mode))
#define lock_upgrade(fid, page, from, to) tp_paper_upgrade((fid), (uint64_t)(page), (from), (to))
#define lock_downgrade(fid, page, from, to) tp_paper_upgrade((fid), (uint64_t)(page), (from), (to))
#define lock_unlock_all() tp_unlock_all(tp_paper_txn())
#define log_commit(type, data, bytes) tp_paper_log_commit((type), (data), (bytes))
#define log_read(lsn, visit, argument) \
  tp_log_read(tp_paper_env(), tp_paper_txn(), (lsn), (visit), (argument))
#define log_roll(from, visit, argument) tp_log_roll(tp_paper_env(), (from), (visit), (argument))
#define log_unroll() tp_log_unroll(tp_paper_txn())

#ifndef TP_NO_SHORT_NAMES
#define lock(fid, page, mode) tp_paper_lock((fid), (uint64_t)(page), (mode))
#define unlock(fid, page, mode) tp_paper_unlock((fid), (uint64_t)(page), (mode))
#define log(type, data, bytes) tp_paper_log((type), (data), (bytes))
#define sleep_on(event, seen, wait_us) tp_sleep_on(tp_paper_env(), (event), (seen), (wait_us))
#define wake(event) tp_wake(tp_paper_env(), (event))
#endif

#endif
