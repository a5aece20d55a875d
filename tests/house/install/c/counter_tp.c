/* tests/house/install/c/counter_tp.c -- a counter on the installed libtmh-tp, with the names of the
 * paper; prints its value after 10 transactions that commit and as many that abort. */
#include <fcntl.h>
#include <stdio.h>

#include <tp/paper.h>

static int add(int fid, int commits) {
  int *x;
  if (txn_begin() == 0 || tp_lock(fid, 0, WRITE_LOCK) != TP_OK) return 0;
  x = (int *)buf_pin(fid, 0);
  if (x == NULL || tp_log_bytes(tp_running_step(tp_paper_txn()), x, sizeof *x, NULL) != TP_OK)
    return 0;
  ++*x;
  if (buf_unpin(x) != TP_OK) return 0;
  return (commits ? txn_commit() : txn_abort()) == TP_OK;
}

int main(void) {
  int i, fid, *x, value;
  if (tp_paper_open("counter", NULL) != TP_OK ||
      (fid = buf_open("counter.db", O_RDWR | O_CREAT, 0600)) < 0) {
    fprintf(stderr, "%s\n", tp_last_error());
    return 1;
  }
  for (i = 0; i < 20; i++)
    if (!add(fid, i % 2)) {
      fprintf(stderr, "%s\n", tp_last_error());
      return 1;
    }
  if (txn_begin() == 0 || (x = (int *)buf_pin(fid, 0)) == NULL) return 1;
  value = *x;
  if (buf_unpin(x) != TP_OK || txn_commit() != TP_OK) return 1;
  printf("%d\n", value);
  return tp_paper_close() == TP_OK ? 0 : 1;
}
