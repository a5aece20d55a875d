/* tp.h -- LIBTP: transactions of many steps, with locks that wait, undo records and recovery, on
 * the segments of a domain of tmh; the C interface.
 *
 * A transaction holds locks to its end, and changes segments by steps. A step is one instance: its
 * stores and the undo records that it logs are there together or not at all, for all processes and
 * after a crash. To abort is to undo the records, last one first. What a process that dies has
 * begun the others undo, and what all have begun the next that opens the domain.
 *
 * A function returns 0, or a number of enum tp_error (those of tmh::Errc); tp_message() tells what
 * it means, tp_last_error() what it was about, for the calling thread. A tp_txn is used by one
 * thread at a time; a tp_env by any. Link with -ltmh-tp.
 * Contexts: none of these may be called in a signal handler. A forked child is refused (kDetached,
 * 25) until it opens the domain anew; its parent's transactions are not its own.
 * Source: LIBTP (Seltzer and Olson, 1992); what differs: papers/libtp/README.md. */
#ifndef TP_H
#define TP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tp_error {
  TP_OK = 0,
  TP_EARGUMENT = 3,  /* kBadArgument */
  TP_ENOSTEP = 22,   /* kEndWithoutBegin: outside of a step */
  TP_ERUNNING = 32,  /* kInstanceRunning: in a step, or with transactions that have not ended */
  TP_EDEADLOCK = 57, /* abort the transaction, and begin again */
  TP_ETIMEOUT = 58,  /* the lock did not become free in time */
  TP_EBUSY = 59,     /* the lock is not free, and the caller did not want to wait */
  TP_ENOTLOCKED = 60 /* the transaction does not have that lock */
};

typedef struct tp_env tp_env;
typedef struct tp_txn tp_txn;
typedef struct tp_step_s tp_step_t; /* a running step of a transaction */

typedef uint64_t tp_id;  /* of a transaction: never used again, 0 names none */
typedef uint64_t tp_lsn; /* of a record: rises with time, so in the order of updates that the
                            transactions' locks order; 0 names none */

/* --- Record types ------------------------------------------------------------------------- */

struct tp_record {
  uint32_t type;
  tp_lsn lsn;
  tp_id transaction;
  const void *data; /* its copy, aligned to 8 bytes */
  size_t bytes;
};
/* Undoes, in the step that is given to it, what the step that logged the record did. It runs in
 * any process, under the locks of the transaction, once for each record; when its step fails it
 * runs again. Takes no locks. Not 0: it cannot; nothing is undone then, the transaction keeps its
 * locks, and is tried again. */
typedef int (*tp_undo_fn)(tp_step_t *step, const struct tp_record *record, void *context);
/* Does once more, after a crash, what the transaction of the record has done to an object outside
 * of segments, a file for instance: of all committed transactions that tp_log_forget() has not
 * passed, in the order of LSNs, before anything is undone. It may have been done already. Segments
 * need none: the redo log has them. Not 0: tp_open() fails with that. */
typedef int (*tp_redo_fn)(const struct tp_record *record, void *context);

/* Not 0: the walk ends with that. */
typedef int (*tp_visit_fn)(const struct tp_record *record, void *argument);

enum tp_flags {
  TP_PAGES = 0,  /* plain loads and stores of segments: the step runs at pages */
  TP_FIELDS = 1u /* tp_load(), tp_store(), tmh::field alone: it runs at lines where that can be */
};
struct tp_type {
  uint32_t type; /* 1 to TP_TYPE_MAX */
  const char *name;
  tp_undo_fn undo; /* null: there is nothing to undo, the record is for readers of the log */
  void *context;
  unsigned flags; /* of undo's step */
  /* Not null: of objects outside of segments. Its records are kept. The type is in
   * tp_options.types of whoever may be the first after a crash. undo has made its change durable
   * when it returns. */
  tp_redo_fn redo;
};
#define TP_TYPE_MAX 0x0fffffffu

/* Lock modes of the caller's: 0 to count - 1, at most 32. */
struct tp_modes {
  unsigned count;
  /* [held * count + wanted]: not 0: a locker that wants that mode waits for a holder of this. */
  const unsigned char *conflicts;
  uint32_t writes; /* a bit for each mode that stores: these are locked again after a crash */
};

/* --- The environment ---------------------------------------------------------------------- */

struct tp_options {
  /* 0: volatile; 1: commits are durable when they return; 2: soon after. A domain keeps what it was
   * made with; -1: that. */
  int durability;
  const struct tp_type *types; /* known from the beginning: recovery needs them */
  size_t type_count;
  uint64_t first_look_us;       /* a waiter looks for deadlocks after so long; 0: 1000 */
  unsigned victim;              /* enum tp_victim */
  const char *name;             /* of this process, for tools; may be null */
  const struct tp_modes *modes; /* null: enum tp_mode; all processes have the same */
  unsigned flags;               /* enum tp_open_flags */
};
enum tp_open_flags {
  /* The records of this process's transactions are kept behind their commits, until
   * tp_log_forget(). */
  TP_LOG_KEEP = 1u,
  /* A domain at pages alone, which can hold its past: tp_query_begin_at(). All processes say so. */
  TP_ALL_PAGES = 2u
};

/* Opens, or makes, the domain in the folder `home`; options: null: zeros, and the durability that
 * the domain has. A process may have several environments open, one of them with files of
 * tp_map() and tp_buf_open(). What an earlier life has not ended is undone before it returns, as
 * far as the types of its records are known. */
int tp_open(const char *home, const struct tp_options *options, tp_env **env);
/* TP_ERUNNING: transactions of this process have not ended. After an error of the log, kLogFailed
 * or one of the disk, it is closed: what was not durable yet is perhaps lost. */
int tp_close(tp_env *env);
/* The folder of its domain, until it is closed; null: of null. */
const char *tp_home(const tp_env *env);
/* Of types that come later. What waits for them is undone. */
int tp_record_type(tp_env *env, const struct tp_type *type);
/* Maps a file of the domain, plain bytes, at the same address in every process; not in a step.
 * size: at least, a multiple of 4096; 0: as it is. */
int tp_map(tp_env *env, const char *file, size_t size, void **address);

const char *tp_message(int error);
const char *tp_last_error(void);

/* --- Transactions ------------------------------------------------------------------------- */

enum tp_state {
  TP_IDLE, /* it has ended */
  TP_RUNNING,
  TP_ABORTING,  /* it is being undone, or could not be wholly, and waits to be */
  TP_COMMITTING /* its locks are gone; it is not durable yet */
};

/* Not in a step, nor in another instance of the library. */
int tp_begin(tp_env *env, tp_txn **txn);
/* The handle is gone once the transaction has ended. Its locks go at once; it returns when it is
 * durable, and all that it has read. On an error it has not ended. TP_COMMITTING after an error: it
 * has committed, and is perhaps not durable; tp_commit() once more waits for the log, which a full
 * disk has stopped. After kLogFailed nothing ends it here: tp_detach() gives the handle up. */
int tp_commit(tp_txn *txn);
/* On an error it has not ended: what is left is undone by another tp_abort(), or by others when
 * this process ends. */
int tp_abort(tp_txn *txn);
tp_id tp_txn_id(const tp_txn *txn);
enum tp_state tp_txn_state(const tp_txn *txn);
/* Of the last call that failed with it; 0: none. */
int tp_txn_error(const tp_txn *txn);
tp_lsn tp_txn_last_lsn(const tp_txn *txn);

/* The handle is gone; the transaction waits, with its locks, until some process attaches it. One
 * that can only abort is undone instead, by others; one that is TP_COMMITTING has ended. Not in a
 * step. */
int tp_detach(tp_txn *txn, tp_id *id);
int tp_attach(tp_env *env, tp_id id, tp_txn **txn);

/* A point to roll back to; locks stay. It holds until the transaction ends or is rolled back to an
 * earlier one. */
typedef struct {
  uint64_t at;
  tp_lsn lsn;
} tp_savepoint;
int tp_save(tp_txn *txn, tp_savepoint *point);
int tp_roll_back(tp_txn *txn, const tp_savepoint *point);

/* --- Steps -------------------------------------------------------------------------------- */

/* Runs body(step, argument) as one step: until it commits, so perhaps several times. Not 0: the
 * step is undone, and tp_step() returns that number. */
typedef int (*tp_body_fn)(tp_step_t *step, void *argument);
int tp_step(tp_txn *txn, unsigned flags, tp_body_fn body, void *argument);
/* The transaction's last step, and its commit, in one: it needs no undo record. Locks and
 * acknowledgement as of tp_commit(). */
int tp_commit_step(tp_txn *txn, unsigned flags, tp_body_fn body, void *argument);

/* In a step: */
/* A record of this type. *lsn: may be null. */
int tp_log(tp_step_t *step, uint32_t type, const void *data, size_t bytes, tp_lsn *lsn);
/* A record of the bytes as they are now, in a segment that is not relocatable; undoing it puts
 * them back. Call it before they change. */
int tp_log_bytes(tp_step_t *step, const void *address, size_t bytes, tp_lsn *lsn);
/* Loads and stores of TP_FIELDS; right in other steps, too. */
void tp_load(tp_step_t *step, const void *from, void *to, size_t bytes);
void tp_store(tp_step_t *step, void *to, const void *from, size_t bytes);
/* Changes that wait outside of segments for the transaction's commit, so that many become one
 * step, without undo records. The caller holds locks that keep other transactions from what they
 * are of. */
enum tp_waiting {
  TP_STORE_LAST, /* in the step that commits: stores them */
  TP_STORE_NOW,  /* in a step: stores them, and logs what undoes them */
  TP_STORED,     /* that step has committed: nothing waits any more */
  TP_DROP        /* the transaction is rolled back: nothing waits any more */
};
/* step: null in the last two. It loads and stores by TP_FIELDS; it may run several times. Not 0:
 * the step is undone, and the call that has begun it returns that. */
typedef int (*tp_waiting_fn)(tp_step_t *step, enum tp_waiting what, void *context);
/* Tells the transaction so, until TP_STORED or TP_DROP. TP_STORE_NOW comes before savepoints,
 * tp_detach(), tp_commit_step() and in tp_store_waiting(). */
int tp_let_wait(tp_txn *txn, tp_waiting_fn store, void *context);
int tp_store_waiting(tp_txn *txn);
/* The running step of a transaction, of its pinned pages, too; null: none runs. */
tp_step_t *tp_running_step(tp_txn *txn);

/* --- Queries -------------------------------------------------------------------------------- */

/* From tp_query_begin() to tp_query_end() the calling thread reads the segments of env by plain
 * loads, as they were at one moment, which is not before the begin. It never waits for locks or
 * transactions, and never aborts. A store is a stray access (docs/stray_accesses.md); where these
 * are allowed, it is discarded, and tp_query_end() returns kQueryWrote (24). What transactions had
 * stored that had not committed by then is there, too: tp_query_unfinished() tells what undoes it.
 * Files of dbopen() do that by themselves (tp/db.h); their environment is tp_paper_env() also
 * where dbopen() has opened it.
 * TP_ERUNNING: the thread runs a step, or a transaction of tp/paper.h. No transaction begins, and
 * nothing is opened or closed, in a query. What has changed since the begin is held for it: see
 * DomainOptions::on_slow_reader. */
int tp_query_begin(tp_env *env);
/* The same of the past, where the domain holds it (TMH_HISTORY): nanoseconds since 1970. kNotHeld
 * (54); kLevelsMismatch (48): the environment was opened without TP_ALL_PAGES. */
int tp_query_begin_at(tp_env *env, uint64_t time_ns);
int tp_query_end(void);
/* Of the calling thread's query; 0: it runs none in env. Never used again. */
uint64_t tp_query_serial(const tp_env *env);
/* Bytes of one segment as the query sees them. Unlike plain loads it leaves their pages to steps of
 * TP_FIELDS, which go on there: for a scan of what others change. */
int tp_query_copy(tp_env *env, const void *from, void *to, size_t bytes);
/* The records of transactions that had not committed at the query's moment, each transaction's last
 * one first. Not 0: the walk ends with that. */
int tp_query_unfinished(tp_env *env, tp_visit_fn visit, void *argument);
/* The type of tp_log_bytes(): an address, 8 bytes, then the bytes that were there. */
#define TP_TYPE_BYTES 0x10000001u

/* --- The log -------------------------------------------------------------------------------- */

/* Returns when every step that has ended is durable, of all processes. */
int tp_log_flush(tp_env *env);
/* The record, if its transaction runs in this process's handle txn (may be null), or is kept.
 * TP_ENOTLOCKED's neighbour kNotHeld (54): there is none. */
int tp_log_read(tp_env *env, tp_txn *txn, tp_lsn lsn, tp_visit_fn visit, void *argument);
/* Records that are kept, of LSN `from` and higher, in their order. */
int tp_log_roll(tp_env *env, tp_lsn from, tp_visit_fn visit, void *argument);
/* Undoes all records of the transaction, last one first; it goes on, with its locks. */
int tp_log_unroll(tp_txn *txn);
/* Records of transactions that committed before this LSN need not be kept. */
int tp_log_forget(tp_env *env, tp_lsn before);

/* --- Buffers: pages of files, pinned ---------------------------------------------------------- */

#define TP_PAGE_BYTES 4096

/* A file of the domain as pages, up to 64 GiB; not in a step. flags, mode: of open(2); O_CREAT
 * makes it, O_RDWR or nothing else. *fid: the same in every process, so that tp_object {fid, page}
 * names a page. */
int tp_buf_open(tp_env *env, const char *file, int flags, unsigned mode, int *fid);
/* The page, which stays where it is; the file grows to have it. From a transaction's first pin to
 * its last unpin runs one step (TP_PAGES): what it stores in pages, after tp_log() or
 * tp_log_bytes(), is there with these records or not at all. The step sees the newest state at
 * each lock that the transaction gets meanwhile: tp_lock() may wait here, for what has been logged
 * and stored before becomes a step of its own.
 * *bytes: TP_PAGE_BYTES, or 0: nothing has been stored there yet. By one thread, which runs no
 * other step; other threads of the process wait with steps of TP_PAGES. */
int tp_buf_pin(tp_txn *txn, int fid, uint64_t page, size_t *bytes, void **address);
/* address: as tp_buf_pin() has given it; TP_EARGUMENT: it is not pinned. TP_ENOTLOCKED: another
 * transaction has stored to the same 64 bytes: a lock was forgotten. What this one has stored since
 * its last lock is gone; it can only abort. */
int tp_buf_unpin(tp_txn *txn, void *address);
/* Returns when what has been committed is in the file, and that on the disk. */
int tp_buf_sync(tp_env *env, int fid);

/* --- Waits ---------------------------------------------------------------------------------- */

/* An event is a number of the caller's. Between processes; what is said of it may be another
 * event's, too: look again at what you wait for. */
int tp_event(tp_env *env, uint64_t event, uint32_t *now);
/* Returns when it is no longer `seen`. TP_ETIMEOUT. Not in a step. */
int tp_sleep_on(tp_env *env, uint64_t event, uint32_t seen, uint64_t wait_us);
int tp_wake(tp_env *env, uint64_t event);

struct tp_wait_counts {
  uint64_t locks, lock_ns;
  uint64_t log, log_ns; /* for the disk, in tp_commit() and tp_log_flush() */
  uint64_t events, event_ns;
};
/* Of all processes, as tp_lock_totals(). */
int tp_waits(tp_env *env, struct tp_wait_counts *counts);

/* --- Locks -------------------------------------------------------------------------------- */

/* Hierarchical locking: a page or record is locked in TP_SHARED or TP_EXCLUSIVE, what it is in
 * before that with intention. */
enum tp_mode {
  TP_INTEND_SHARED,
  TP_INTEND_EXCLUSIVE,
  TP_SHARED,
  TP_SHARED_INTEND_EXCLUSIVE,
  TP_EXCLUSIVE
};
typedef struct {
  uint64_t space, id; /* the caller's; LIBTP: a file and a page */
} tp_object;

#define TP_TRY 0u             /* do not wait */
#define TP_FOREVER UINT64_MAX /* as long as it takes */

/* Locks are counted, and held to the transaction's end, unless tp_unlock() gives them back. In a
 * step they are tried, whatever wait_us says. TP_EBUSY, TP_ETIMEOUT, TP_EDEADLOCK. */
int tp_lock(tp_txn *txn, tp_object object, unsigned mode, uint64_t wait_us);
/* Of a lock that the transaction has, `from`: one count of it becomes one of `to`, without letting
 * others in between. */
int tp_lock_trade(tp_txn *txn, tp_object object, unsigned from, unsigned to, uint64_t wait_us);
/* All of them. REQUIRES of the caller: as tp_unlock(). */
int tp_unlock_all(tp_txn *txn);
/* One count. REQUIRES of the caller: no other may see what it guards change back. */
int tp_unlock(tp_txn *txn, tp_object object, unsigned mode);

enum tp_victim {
  TP_YOUNGEST,
  TP_OLDEST,
  TP_FEWEST_LOCKS,
  TP_MOST_LOCKS,
  TP_FEWEST_WRITE_LOCKS,
  TP_MOST_WRITE_LOCKS,
  TP_LOWEST_PRIORITY
};
int tp_set_priority(tp_txn *txn, int priority);
/* Ends all deadlocks of the domain that there are now; *victims: how many. */
int tp_look_for_deadlocks(tp_env *env, unsigned *victims);
/* --- Locks without a transaction ------------------------------------------------------------ */

/* Lockers of one table: the transactions and these. A locker is used by one thread at a time, of
 * the process that began it; when that dies, its locks are given back. */
typedef uint32_t tp_locker;
typedef uint64_t tp_lock_id; /* a lock that a locker has; never used again */

int tp_locker_begin(tp_env *env, uint64_t name, tp_locker *locker);
/* Gives all back. */
int tp_locker_end(tp_env *env, tp_locker locker);
int tp_locker_set_priority(tp_env *env, tp_locker locker, int priority);
/* *lock: of this object in this mode; may be null. Locked n times it is given back n times. */
int tp_locker_lock(tp_env *env, tp_locker locker, tp_object object, unsigned mode, uint64_t wait_us,
                   tp_lock_id *lock);
/* One count of the lock becomes one of another mode, without letting others in. tp_downgrade: to a
 * mode that excludes no more; it never waits. */
int tp_upgrade(tp_env *env, tp_locker locker, tp_lock_id lock, unsigned mode, uint64_t wait_us,
               tp_lock_id *now);
int tp_downgrade(tp_env *env, tp_locker locker, tp_lock_id lock, unsigned mode, tp_lock_id *now);
int tp_locker_unlock(tp_env *env, tp_locker locker, tp_lock_id lock);
int tp_locker_unlock_object(tp_env *env, tp_locker locker, tp_object object, unsigned mode);
int tp_locker_unlock_all(tp_env *env, tp_locker locker);

enum tp_what { TP_LOCK, TP_UNLOCK };
struct tp_request {
  enum tp_what what;
  tp_object object;
  unsigned mode;
  tp_lock_id lock; /* of TP_LOCK, out */
};
/* All or none: locks in order, then what is given back. On an error *failed is the number of the
 * one that failed, and *holder the name of a locker, or the identifier of a transaction, that it
 * would have waited for; 0: of none. Both may be null. */
int tp_lock_vector(tp_env *env, tp_locker locker, struct tp_request *requests, size_t count,
                   uint64_t wait_us, size_t *failed, uint64_t *holder);
/* Each locker, and each transaction, that holds `from` holds `to`, too, in the same modes: a page
 * was split. Not after a crash. TP_EBUSY: one that holds `to` would exclude it; nothing has
 * changed. */
int tp_inherit(tp_env *env, tp_locker locker, tp_object from, tp_object to);

struct tp_lock_counts {
  uint64_t locks, waits, waited_ns, deadlocks, timeouts, looks;
};
/* Since the domain was opened by the first of those that have it. */
int tp_lock_totals(tp_env *env, struct tp_lock_counts *counts);

/* Undoes what dead processes have left. Done by the way, too; within a second where transactions
 * begin. */
int tp_settle(tp_env *env);

#ifdef __cplusplus
}
#endif
#endif
