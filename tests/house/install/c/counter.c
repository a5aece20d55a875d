/* tests/house/install/c/counter.c -- a counter on the installed libxac; prints its value after 10
 * increments. */
#include <stdio.h>

#include <xac.h>

int main(void) {
  int i, value = 0;
  int *x;
  if (xInit("counter", NONDURABLE) != 0 || (x = xMmap("counter.db", 4096)) == MAP_FAILED) {
    fprintf(stderr, "%s\n", xStrError(xLastError()));
    return 1;
  }
  for (i = 0; i < 10; i++) {
    do {
      xbegin();
      value = ++x[0];
    } while (xend() != COMMITTED);
  }
  printf("%d\n", value);
  return xShutdown() == 0 ? 0 : 1;
}
