/* tp/server.h -- transactions and files of dbopen() in a process of its own, the server: `tmh tpd`.
 *
 * With TP_SERVER in its environment, a program needs none of this: dbopen() of a named file, and
 * the calls of tp/paper.h, go to that server. TP_SERVER is the path of a socket, or 127.0.0.1:PORT.
 * Here are what a program can do besides: many operations in one request, requests before the
 * replies of others, and scripts. Link with -ltmh-tp; tp_serve() is in -ltmh-db.
 * A call that fails returns -1, or null, and sets errno. ECONNRESET: the server is gone, or has
 * ended the connection; the transaction is rolled back, a commit that has no reply perhaps not.
 * EACCES: the server does not serve this user. EPROTO: it speaks another version. EMSGSIZE: more
 * than a message may have.
 * Contexts: a connection is one thread's at a time. Not in a signal handler. A forked child has no
 * part in its parent's connections (EBADF).
 * Source: LIBTP 3.3. How it works: compat/libdb/server/README.md. */
#ifndef TP_SERVER_H
#define TP_SERVER_H

#include <tp/db.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an operation does, and what it uses of struct tp_server_op. */
enum tp_server_kind {
  /* Records, as the functions of DB: db, flags, key, data. */
  TP_SERVER_GET = 1,
  TP_SERVER_PUT,
  TP_SERVER_DEL,
  TP_SERVER_SEQ,
  TP_SERVER_SYNC,
  TP_SERVER_CLOSE,
  /* Adds `number` to the 8 bytes, low byte first, at offset `flags` of the key's record, and
   * delivers the record. 1: no such record. EINVAL: it is shorter. */
  TP_SERVER_ADD,
  /* The connection's transaction: results are those of tp/paper.h, numbers of tp.h; begin delivers
   * the transaction's in `number`. */
  TP_SERVER_BEGIN,
  TP_SERVER_COMMIT,
  TP_SERVER_ABORT,
  /* tp_paper_lock() and others: db is the file, `number` the page, flags the mode. */
  TP_SERVER_LOCK,
  TP_SERVER_UNLOCK,
  TP_SERVER_TRADE,    /* flags: from; data: 4 bytes, to */
  TP_SERVER_LOG,      /* flags: the type; data; delivers the LSN in `number` */
  TP_SERVER_FLUSH,    /* all steps so far are durable */
  TP_SERVER_BUF_OPEN, /* key: the path; flags: of open(2); number: mode; delivers the file in db */
  TP_SERVER_BUF_GET,  /* delivers the page's bytes */
  TP_SERVER_BUF_PUT,  /* stores data at offset `flags` of the page, and logs what undoes that */
  TP_SERVER_HOME,     /* key: the folder of the environment; number: its durability */
  TP_SERVER_DBOPEN,   /* tp_server_dbopen() */
  TP_SERVER_QUERY_BEGIN, /* reserved: ENOTSUP */
  TP_SERVER_QUERY_END
};

struct tp_server_op {
  int kind; /* enum tp_server_kind */
  int db;   /* of tp_server_dbopen(), or a file of TP_SERVER_BUF_OPEN */
  unsigned flags;
  uint64_t number;
  DBT key, data; /* given; and delivered, until the connection's next call */
  /* Delivered. */
  int result;
  int error; /* a number of errno, where result is -1 */
};

typedef struct tp_server tp_server;

/* address: null: TP_SERVER. */
tp_server *tp_server_connect(const char *address);
/* The calling thread's connection to TP_SERVER, which DBs of dbopen() use, too. Not to be closed.
 * Null with errno ENOENT: TP_SERVER is not set. */
tp_server *tp_server_mine(void);
/* Another one where databases that were opened before are gone: the server is a new one. */
uint64_t tp_server_life(const tp_server *server);
/* A transaction that runs is rolled back; the process's last one closes its databases. */
int tp_server_close(tp_server *server);

/* tp_dbopen() there; the number of it. Callbacks: ENOTSUP. It is every connection's of the
 * process. */
int tp_server_dbopen(tp_server *server, const char *file, int flags, int mode, DBTYPE type,
                     int dbflags, const void *openinfo);
/* One operation; returns op->result, with errno where that is -1. */
int tp_server_call(tp_server *server, struct tp_server_op *op);

enum tp_server_flags {
  /* The operations alone, in the connection's transaction or in none. */
  TP_SERVER_NO_TRANSACTION = 1u,
  /* Goes on behind an operation that returns 1. */
  TP_SERVER_GO_ON = 2u
};
/* One request: begins a transaction, does the operations in their order, and commits. The first
 * that does not return 0 is the last; then the transaction is rolled back, and the call returns
 * what that returned. *done, which may be null: how many operations there were. In a transaction
 * there are records and locks alone: EINVAL. EBUSY: one runs already. */
int tp_server_batch(tp_server *server, struct tp_server_op *ops, size_t count, unsigned flags,
                    size_t *done);
/* The same in two halves: many requests may be sent before their replies are received, in their
 * order. */
int tp_server_send(tp_server *server, const struct tp_server_op *ops, size_t count, unsigned flags);
int tp_server_receive(tp_server *server, struct tp_server_op *ops, size_t count, size_t *done);

/* Runs a script of Tcl at the server, by `tmh tpd --tcl`, in the connection's transaction. 0, and
 * the script's result; 1, and its error's text. ENOTSUP: the server runs none. */
int tp_server_script(tp_server *server, const char *script, size_t bytes, DBT *result);

/* ---- The server -------------------------------------------------------------------------- */

struct tp_server_counters {
  uint64_t clients, refused, requests, operations, transactions, rolled_back, deaths, malformed;
};
struct tp_server_options {
  const char *socket;   /* a path; or null, and */
  int port;             /* of 127.0.0.1; 0: any */
  const char *home;     /* of the environment; null: TP_HOME, or beside the files */
  int durability;       /* of a new one, as tp_options */
  const unsigned *uids; /* users that it serves besides its own and root */
  size_t uid_count;
  const uint32_t *log_types; /* of records that clients may log; there is nothing to undo */
  size_t log_type_count;
  const char *tcl;            /* the library of tp's Tcl package; null: no scripts */
  uint64_t script_ms;         /* a script's longest time; 0: 10,000 */
  uint64_t write_ms;          /* a client's that does not read; 0: 10,000 */
  uint64_t record_number_max; /* of DB_RECNO's puts; 0: 2^24 */
  /* Called when it listens: address as TP_SERVER has it. May be null. */
  void (*ready)(const char *address, void *argument);
  /* Called at each SIGUSR1, and at the end. May be null. */
  void (*count)(const struct tp_server_counters *counters, void *argument);
  void *argument;
};
#define TP_SERVER_MESSAGE_MAX (16u << 20) /* bytes */
#define TP_SERVER_OPS_MAX 65536u          /* of a batch */
#define TP_SERVER_DBS_MAX 1024u           /* of a process */
#define TP_SERVER_CLIENTS_MAX 1024u       /* connections */

/* Serves until SIGTERM or SIGINT, which the calling thread blocks; then rolls back what runs and
 * closes all files. */
int tp_serve(const struct tp_server_options *options);

#ifdef __cplusplus
}
#endif

#endif
