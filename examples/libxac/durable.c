// examples/libxac/durable.c -- a durable counter: every run adds one, and what a run has printed survives a power cut.
// Not from the thesis, which has the interface (table 2.1) and no program that uses it.
#include <stdio.h>

#include <xac.h>

int main(void) {
  long *counter, now;

  if (xInit("counter", DURABLE) != 0) {  // recovers, if the last run did not end by itself
    fprintf(stderr, "%s\n", xStrError(xLastError()));
    return 1;
  }
  counter = xMmap("counter.db", PAGESIZE);
  if (counter == MAP_FAILED) {
    fprintf(stderr, "%s\n", xStrError(xLastError()));
    return 1;
  }

  do {
    xbegin();
    now = ++counter[0];
  } while (xend() == ABORTED);  // COMMITTED: on disk
  printf("%ld\n", now);

  do {
    xbegin();
    counter[1] = now * now;
  } while (xendAs(XAC_DURABLE_BUFFERED) == ABORTED);  // this one may wait ...
  if (xFlush() != 0 || xCheckpoint() != 0)            // ... until here
    fprintf(stderr, "%s\n", xStrError(xLastError()));

  return xShutdown() == 0 ? 0 : 1;
}
