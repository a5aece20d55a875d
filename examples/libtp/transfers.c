/* examples/libtp/transfers.c -- amounts go from an account in one file to one in another: together,
 * or not at all, whoever dies. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tp.h>
#include <unistd.h>

enum { kAccounts = 8 };
static long *east, *west; /* balances, one file each */

static void must(int error, const char *what) {
  if (error == TP_OK) return;
  fprintf(stderr, "%s: %s\n", what, tp_last_error());
  exit(1);
}

struct transfer {
  long *from, *to;
  long amount;
};
/* One step: what both balances were, and what they are. */
static int move(tp_step_t *step, void *argument) {
  const struct transfer *all = argument;
  int error = tp_log_bytes(step, all->from, sizeof *all->from, NULL);
  if (error == TP_OK) error = tp_log_bytes(step, all->to, sizeof *all->to, NULL);
  *all->from -= all->amount;
  *all->to += all->amount;
  return error;
}

static tp_env *open_bank(const char *home) {
  struct tp_options options = {0};
  options.durability = 1;
  tp_env *env;
  void *address;
  must(tp_open(home, &options, &env), "open");
  must(tp_map(env, "east", 4096, &address), "map");
  east = address;
  must(tp_map(env, "west", 4096, &address), "map");
  west = address;
  return env;
}

/* A victim of a deadlock begins again. */
static void transfer(tp_env *env, unsigned from, unsigned to, long amount, int commits) {
  for (;;) {
    tp_txn *txn;
    must(tp_begin(env, &txn), "begin");
    int error = tp_lock(txn, (tp_object){1, from}, TP_EXCLUSIVE, TP_FOREVER);
    if (error == TP_OK) error = tp_lock(txn, (tp_object){2, to}, TP_EXCLUSIVE, TP_FOREVER);
    if (error == TP_EDEADLOCK) {
      must(tp_abort(txn), "abort");
      continue;
    }
    must(error, "lock");
    struct transfer all = {east + from, west + to, amount};
    must(tp_step(txn, TP_PAGES, move, &all), "step");
    must(commits ? tp_commit(txn) : tp_abort(txn), "end");
    return;
  }
}

static int add_up(tp_step_t *step, void *sum) {
  (void)step;
  *(long *)sum = 0;
  for (unsigned i = 0; i < kAccounts; ++i) *(long *)sum += east[i] + west[i];
  return 0;
}

int main(void) {
  const char *home = "transfers.domain";
  const pid_t child = fork();
  if (child == 0) {
    tp_env *env = open_bank(home);
    for (unsigned i = 0; i < 100; ++i) transfer(env, i % kAccounts, i % 5, 10, i % 3 != 0);
    /* This one never ends: the process is killed in the middle of it. */
    tp_txn *txn;
    must(tp_begin(env, &txn), "begin");
    must(tp_lock(txn, (tp_object){1, 0}, TP_EXCLUSIVE, TP_FOREVER), "lock");
    struct transfer all = {east, west, 1000000};
    must(tp_step(txn, TP_PAGES, move, &all), "step");
    raise(SIGKILL);
  }
  int status;
  waitpid(child, &status, 0);
  tp_env *env = open_bank(home); /* undoes what the dead had begun */
  long sum = -1;
  tp_txn *txn;
  must(tp_begin(env, &txn), "begin");
  must(tp_step(txn, TP_PAGES, add_up, &sum), "step");
  const long first = east[0];
  must(tp_commit(txn), "commit");
  printf("the child was killed by signal %d; all accounts together have %ld, the first one %ld\n",
         WIFSIGNALED(status) ? WTERMSIG(status) : 0, sum, first);
  must(tp_close(env), "close");
  return sum == 0 && first > -1000 ? 0 : 1;
}
