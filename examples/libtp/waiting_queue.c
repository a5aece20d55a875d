/* examples/libtp/waiting_queue.c -- a queue between processes: who finds it empty sleeps for an
 * event, outside of any transaction, and looks again. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tp.h>
#include <unistd.h>

enum { kJobs = 200, kRoom = 64, kWorkers = 3 };
static const tp_object kQueue = {1, 1};
static const uint64_t kFilled = 7, kTaken = 8; /* events */

static struct queue {
  long head, tail; /* jobs [head, tail) */
  long jobs[kRoom];
  long sum; /* of those that are done */
} * queue;

static void must(int error, const char *what) {
  if (error == TP_OK) return;
  fprintf(stderr, "%s: %s\n", what, tp_last_error());
  exit(1);
}

static int put(tp_step_t *step, void *job) {
  (void)step; /* the only step of its transaction, so there is nothing to undo */
  if (queue->tail - queue->head == kRoom) return TP_EBUSY;
  queue->jobs[queue->tail++ % kRoom] = *(long *)job;
  return 0;
}
static int take(tp_step_t *step, void *job) {
  (void)step;
  if (queue->head == queue->tail) return TP_EBUSY;
  *(long *)job = queue->jobs[queue->head++ % kRoom];
  queue->sum += *(long *)job;
  return 0;
}

/* 0: the queue has no room, or no job. */
static int in_transaction(tp_env *env, tp_body_fn body, long *job) {
  tp_txn *txn;
  must(tp_begin(env, &txn), "begin");
  must(tp_lock(txn, kQueue, TP_EXCLUSIVE, TP_FOREVER), "lock");
  const int error = tp_commit_step(txn, TP_PAGES, body, job);
  if (error == TP_OK) return 1;
  if (error != TP_EBUSY) must(error, "step");
  must(tp_abort(txn), "abort");
  return 0;
}

static tp_env *open_queue(const char *home) {
  tp_env *env;
  void *address;
  must(tp_open(home, NULL, &env), "open");
  must(tp_map(env, "queue", 4096, &address), "map");
  queue = address;
  return env;
}

/* Until it can: sleeps for `reason`, and tells those who sleep for `news`. */
static void wait_and(tp_env *env, tp_body_fn body, long *job, uint64_t reason, uint64_t news) {
  for (;;) {
    uint32_t seen;
    must(tp_event(env, reason, &seen), "event"); /* before the look at the queue */
    if (in_transaction(env, body, job)) break;
    must(tp_sleep_on(env, reason, seen, TP_FOREVER), "sleep");
  }
  must(tp_wake(env, news), "wake");
}

static void work(const char *home) {
  tp_env *env = open_queue(home);
  for (long job = 0; job >= 0;) wait_and(env, take, &job, kFilled, kTaken);
  must(tp_close(env), "close");
}

static int read_sum(tp_step_t *step, void *sum) {
  (void)step;
  *(long *)sum = queue->sum;
  return 0;
}

int main(void) {
  const char *home = "waiting_queue.domain";
  for (int i = 0; i < kWorkers; ++i)
    if (fork() == 0) {
      work(home);
      _exit(0);
    }
  tp_env *env = open_queue(home);
  for (long job = 0; job < kJobs + kWorkers; ++job) {
    long what = job < kJobs ? job : -1; /* -1 ends a worker */
    wait_and(env, put, &what, kTaken, kFilled);
  }
  int all_well = 1, status;
  while (wait(&status) > 0) all_well = all_well && status == 0;
  long sum = 0;
  all_well = in_transaction(env, read_sum, &sum) && all_well;
  sum += kWorkers;
  const long wanted = (long)kJobs * (kJobs - 1) / 2;
  printf("%d jobs, their sum is %ld of %ld\n", kJobs, sum, wanted);
  must(tp_close(env), "close");
  return all_well && sum == wanted ? 0 : 1;
}
