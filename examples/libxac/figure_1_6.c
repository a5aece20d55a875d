// examples/libxac/figure_1_6.c -- Program F: sums the first integers of 5 random pages into a 6th
// (thesis, section 1.2).
// Added:     the main around the printed body, and backoff(), which the thesis leaves to the
//            programmer.
#include <sched.h>
#include <stdlib.h>

#include <xac.h>

static void backoff(void) { sched_yield(); }

int fileLength = 100000;
int main(void) {
  int i, j, sum = 0;
  int *x;

  xInit(".", NONDURABLE);
  x = (int *)xMmap("input.db", 4096 * fileLength);

  while (1) {
    xbegin();

    for (j = 0; j < 5; j++) {
      i = rand() % fileLength;
      sum += x[1024 * i];
    }

    i = rand() % fileLength;
    x[1024 * i] = sum;

    if (xend() == COMMITTED) break;
    backoff();
  }

  xMunmap("input.db");
  xShutdown();
  return 0;
}
