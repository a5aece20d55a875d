// examples/libxac/figure_2_1.c -- increments the first integer of a memory-mapped file (thesis,
// section 2.1).
// Added:     the include line.
#include <xac.h>

int fileLength = 10;
int main(void) {
  int *x;

  xInit(".", NONDURABLE);
  x = (int *)xMmap("input.db", 4096 * fileLength);

  while (1) {
    xbegin();
    x[0]++;
    if (xend() == COMMITTED) break;
  }

  xMunmap("input.db");
  xShutdown();
  return 0;
}
