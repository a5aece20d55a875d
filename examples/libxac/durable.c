// examples/libxac/durable.c -- a durable counter: every run adds one, and what a run has printed
// survives a power cut. Not from the thesis, which has the interface (table 2.1) and no program
// that uses it.
#include <stdio.h>

#include <xac.h>

static int failed(void) {
  fprintf(stderr, "%s\n", xLastErrorText());
  return 1;
}

int main(void) {
  long *counter, now;
  int end;

  if (xInit("counter", DURABLE) != 0)
    return failed();  // recovers, if the last run did not end by itself
  counter = xMmap("counter.db", PAGESIZE);
  if (counter == MAP_FAILED) return failed();

  do {
    if (xbegin() != 0) return failed();
    now = ++counter[0];
  } while ((end = xend()) == ABORTED);
  if (end != COMMITTED) return failed();  // an error: the disk is full, for one
  printf("%ld\n", now);                   // it is on disk

  do {
    if (xbegin() != 0) return failed();
    counter[1] = now * now;
  } while ((end = xendAs(XAC_DURABLE_BUFFERED)) == ABORTED);  // this one may wait ...
  if (end != COMMITTED || xFlush() != 0 || xCheckpoint() != 0) return failed();  // ... until here

  return xShutdown() == 0 ? 0 : failed();
}
