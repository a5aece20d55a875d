/* elided_counters.c -- a program that knows nothing of tmh: lock elision by hand, as tutorials on
 * RTM show it, and through pthread mutexes.
 *
 * elided_counters tutorial|adaptive|pthread THREADS TIMES: each thread adds TIMES to counters of a
 * small table under one lock; the sum must be exact. tutorial: a few attempts, then the lock.
 * adaptive: as glibc's elision, a lock that failed to elide is taken for a while. pthread: a
 * pthread mutex (GLIBC_TUNABLES=glibc.elision.enable=1 makes glibc elide it). Prints the sum and
 * how many sections were elided. */
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTERS = 16, LINE = 64, ATTEMPTS = 3, SKIP_AFTER_BUSY = 3, LOCK_IS_BUSY = 0xff };

struct counter {
  long value;
  char pad[LINE - sizeof(long)];
};
static struct counter table[COUNTERS] __attribute__((aligned(64)));
static int lock_word __attribute__((aligned(64)));
static short adapt __attribute__((aligned(64)));
static pthread_mutex_t mutex __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static long elided_total;
static long times;

struct scheme {
  const char *name;
  int (*enter)(void); /* 1: elided */
  void (*leave)(void);
};

static void take_lock(void) {
  while (__atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE) != 0) sched_yield();
}

__attribute__((target("rtm"))) static int tutorial_enter(void) {
  for (int i = 0; i < ATTEMPTS; ++i) {
    unsigned status = _xbegin();
    if (status == _XBEGIN_STARTED) {
      if (__atomic_load_n(&lock_word, __ATOMIC_RELAXED) == 0) return 1;
      _xabort(LOCK_IS_BUSY);
    }
    if ((status & _XABORT_EXPLICIT) != 0 && _XABORT_CODE(status) == LOCK_IS_BUSY) {
      while (__atomic_load_n(&lock_word, __ATOMIC_RELAXED) != 0) sched_yield();
    } else if ((status & _XABORT_RETRY) == 0) {
      break;
    }
  }
  take_lock();
  return 0;
}

__attribute__((target("rtm"))) static int adaptive_enter(void) {
  if (__atomic_load_n(&adapt, __ATOMIC_RELAXED) <= 0) {
    for (int i = 0; i < ATTEMPTS; ++i) {
      unsigned status = _xbegin();
      if (status == _XBEGIN_STARTED) {
        if (lock_word == 0) return 1;
        _xabort(LOCK_IS_BUSY);
      }
      if ((status & _XABORT_RETRY) == 0) {
        if (__atomic_load_n(&adapt, __ATOMIC_RELAXED) != SKIP_AFTER_BUSY)
          __atomic_store_n(&adapt, SKIP_AFTER_BUSY, __ATOMIC_RELAXED);
        break;
      }
    }
  } else {
    __atomic_store_n(&adapt, (short)(__atomic_load_n(&adapt, __ATOMIC_RELAXED) - 1),
                     __ATOMIC_RELAXED);
  }
  take_lock();
  return 0;
}

/* As glibc does: a free lock at the end means that the section was elided. */
__attribute__((target("rtm"))) static void word_leave(void) {
  if (_xtest())
    _xend();
  else
    __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE);
}

static int pthread_enter(void) {
  pthread_mutex_lock(&mutex);
  return 0;
}
static void pthread_leave(void) { pthread_mutex_unlock(&mutex); }

static const struct scheme schemes[] = {{"tutorial", tutorial_enter, word_leave},
                                        {"adaptive", adaptive_enter, word_leave},
                                        {"pthread", pthread_enter, pthread_leave}};

static void *work(void *argument) {
  const struct scheme *scheme = argument;
  long elided = 0;
  for (long i = 0; i < times; ++i) {
    int is_elided = scheme->enter();
    ++table[i % COUNTERS].value;
    scheme->leave();
    elided += is_elided;
  }
  __atomic_fetch_add(&elided_total, elided, __ATOMIC_RELAXED);
  return NULL;
}

int main(int argc, char **argv) {
  enum { THREADS_MAX = 64 };
  pthread_t threads[THREADS_MAX];
  const struct scheme *scheme = NULL;
  if (argc != 4) return 64;
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; ++i)
    if (strcmp(schemes[i].name, argv[1]) == 0) scheme = &schemes[i];
  int count = atoi(argv[2]);
  times = atol(argv[3]);
  if (scheme == NULL || count < 1 || count > THREADS_MAX) return 64;
  for (int i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, work, (void *)scheme) != 0) return 1;
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  long sum = 0;
  for (int i = 0; i < COUNTERS; ++i) sum += table[i].value;
  printf("%ld elided %ld\n", sum, elided_total);
  return sum == count * times ? 0 : 1;
}
