// examples/libxac/figure_2_2.c -- the program of figure 1-2 with LIBXAC (thesis, section 2.1; the
// right-hand side).
// Added:     the include lines.
#include <stdlib.h>

#include <xac.h>

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
  }

  xMunmap("input.db");
  xShutdown();
  return 0;
}
