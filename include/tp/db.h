/* tp/db.h -- db(3) of 4.4BSD: B-trees, records by number and hash tables, by dbopen().
 *
 * The interface of version 1.85, source by source: what includes <db.h> of that version compiles
 * with this file in its place (bsd/db.h includes it by that name). Link with -ltmh-db. A call
 * returns 0; 1 where the key is not there, or is there already; -1 and errno.
 * What get and seq deliver lies in the handle until its next call.
 * Contexts: a handle is one thread's at a time; different handles are any threads'. Not in a signal
 * handler. A callback may leave its call by longjmp(); in one, calls of its own handle fail with
 * EBUSY.
 * Source: dbopen(3), btree(3), recno(3), hash(3) of 4.4BSD; LIBTP 4.4. What differs:
 * compat/libdb/README.md. */
#ifndef TP_DB_H
#define TP_DB_H

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RET_ERROR (-1)
#define RET_SUCCESS 0
#define RET_SPECIAL 1

typedef uint32_t pgno_t;
typedef uint16_t indx_t;
typedef uint32_t recno_t;
#define MAX_PAGE_NUMBER 0xffffffff
#define MAX_PAGE_OFFSET 65535
#define MAX_REC_NUMBER 0xffffffff

typedef struct {
  void *data;
  size_t size;
} DBT;

/* What a call is to do; each by the calls that take it. */
#define R_CURSOR 1 /* del, put, seq */
#define __R_UNUSED 2
#define R_FIRST 3       /* seq */
#define R_IAFTER 4      /* put: DB_RECNO */
#define R_IBEFORE 5     /* put: DB_RECNO */
#define R_LAST 6        /* seq: DB_BTREE, DB_RECNO */
#define R_NEXT 7        /* seq */
#define R_NOOVERWRITE 8 /* put */
#define R_PREV 9        /* seq: DB_BTREE, DB_RECNO */
#define R_SETCURSOR 10  /* put: DB_BTREE, DB_RECNO */
#define R_RECNOSYNC 11  /* sync: DB_RECNO */

typedef enum { DB_BTREE, DB_HASH, DB_RECNO } DBTYPE;

/* In `flags` of dbopen(): no effect, as in 1.85. */
#define DB_LOCK 0x20000000
#define DB_SHMEM 0x40000000
#define DB_TXN 0x80000000

typedef struct __db {
  DBTYPE type;
  int (*close)(struct __db *);
  int (*del)(const struct __db *, const DBT *, unsigned int);
  int (*get)(const struct __db *, const DBT *, DBT *, unsigned int);
  int (*put)(const struct __db *, DBT *, const DBT *, unsigned int);
  int (*seq)(const struct __db *, DBT *, DBT *, unsigned int);
  int (*sync)(const struct __db *, unsigned int);
  void *internal;
  int (*fd)(const struct __db *);
} DB;

#define BTREEMAGIC 0x053162
#define BTREEVERSION 3

/* 0 or null: what is usual. */
typedef struct {
  unsigned long flags;    /* R_DUP */
  unsigned int cachesize; /* bytes of pages in memory */
  int maxkeypage;         /* no effect */
  int minkeypage;         /* keys that a page has room for; 2 */
  unsigned int psize;     /* bytes of a page, 512 to 65536; the file system's block */
  int (*compare)(const DBT *, const DBT *);
  /* Bytes of the second key that tell it from the first, which is smaller. */
  size_t (*prefix)(const DBT *, const DBT *);
  int lorder; /* 1234, 4321: no effect, a file can be read on any machine */
} BTREEINFO;
#define R_DUP 0x01

#define HASHMAGIC 0x061561
#define HASHVERSION 2

typedef struct {
  unsigned int bsize;   /* bytes of a bucket's page, a power of two */
  unsigned int ffactor; /* records of a bucket; 0: until its page is full */
  unsigned int nelem;   /* no effect: a table grows with its records */
  unsigned int cachesize;
  uint32_t (*hash)(const void *, size_t); /* a file is opened with the one that it was made with */
  int lorder;
} HASHINFO;

/* A null RECNOINFO: lines of a text. */
typedef struct {
  unsigned long flags; /* R_FIXEDLEN; R_NOKEY, R_SNAPSHOT: no effect, the text is read at once */
  unsigned int cachesize;
  unsigned int psize;
  int lorder;
  size_t reclen;      /* of R_FIXEDLEN: bytes of each record */
  unsigned char bval; /* the byte behind each record, or, R_FIXEDLEN, the one that fills it up */
  char *bfname;       /* the file of the tree; null: it is in memory */
} RECNOINFO;
#define R_FIXEDLEN 0x01
#define R_NOKEY 0x02
#define R_SNAPSHOT 0x04

/* file: null is a database in memory, which ends with its handle; flags are then O_RDWR. flags:
 * of open(2), without O_WRONLY. openinfo: BTREEINFO, RECNOINFO, HASHINFO; null is what is usual.
 * Null and errno: EINVAL, a number that is out of range, or a file that is no database of this
 * type; what open(2) says. */
DB *dbopen(const char *file, int flags, int mode, DBTYPE type, const void *openinfo);

/* Which other handles may have the file open; in `dbflags`.
 * DB_SHARED: other handles, of any process. Each call is atomic, isolated, and durable soon after
 *   it returns; there are no locks.
 * DB_SHARED | DB_TP: calls belong to the thread's transaction (tp/paper.h: txn_begin(), or
 *   tp_paper_begin()), and hold what they look at locked to its end; without one, each call is a
 *   transaction. EDEADLK: abort the transaction, and begin again.
 * 0: this handle has the file alone, there are no transactions. EBUSY: an environment has newer
 *   pages of it.
 * Between tp_query_begin() and tp_query_end() (tp.h) a thread's get and seq read what committed
 *   transactions had left at one moment, of both kinds, and wait for no lock; the cursor there is
 *   the query's. put and del: EPERM; dbopen, sync and close: EBUSY. ENOENT: the database was not
 *   there yet.
 * All handles of a file are of one kind: EBUSY. So is a call by a thread while another thread's
 * transaction has changes in the handle. */
#define DB_SHARED 0x1
#define DB_TP 0x2
/* Of trees with DB_TP, elsewhere without effect; handles of a file may differ in them. Usually a
 * call locks the leaves that it looks at.
 * DB_RECORD_LOCKS: get, put and del of a key lock that key alone, and scans their leaves. For
 *   transactions that meet in a leaf and not in a record. No effect where `compare` is the user's.
 * DB_BLINK: inner pages are locked, too, for a moment, as LIBTP 4.4 does it. */
#define DB_RECORD_LOCKS 0x4
#define DB_BLINK 0x8

/* The same, and dbflags. A named file belongs to one environment (tp.h): that of tp_paper_open()
 * where the process has called it; else the folder TP_HOME; else `.tp` beside the file. The last
 * two are made where they are not there, with TP_DURABILITY: strict (a transaction is durable when
 * it returns), which is usual, buffered or none; the process's end closes them. The file itself is
 * written when its last handle is closed.
 * TP_DBFLAGS in the environment is added to every open of a named file, of dbopen(), too: numbers,
 * or these names, with | or , between them.
 * TP_SERVER, the path of a socket or 127.0.0.1:PORT: named files are opened by that server
 * (tp/server.h), with its TP_HOME and TP_DURABILITY. ENOTSUP: callbacks. ECONNRESET: it is gone.
 * fd() is -1 with ENOENT.
 * A null file is in memory, and this handle's alone. */
DB *tp_dbopen(const char *file, int flags, int mode, DBTYPE type, int dbflags,
              const void *openinfo);

/* What a file of dbopen() is. */
struct tp_db_info {
  DBTYPE type;
  int has_duplicates;
  unsigned psize;
  uint64_t records;
  const char *wrong; /* null: nothing. Orders and hashes of the user's are not looked at. */
};
/* Reads all of it; in its environment where that has newer pages. -1 and errno as dbopen(). */
int tp_db_check(const char *file, struct tp_db_info *info);

#ifdef __cplusplus
}
/* The paper's form. */
inline DB *dbopen(const char *file, int flags, int mode, DBTYPE type, int dbflags,
                  const void *openinfo) {
  return tp_dbopen(file, flags, mode, type, dbflags, openinfo);
}
#endif

#endif
