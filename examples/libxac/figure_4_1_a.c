// examples/libxac/figure_4_1_a.c -- a transaction that reads from n pages (thesis, section 4.2).
// Added:     the main around the printed body; n is the argument, else 16.
#include <stdlib.h>

#include <xac.h>

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 16;
  xInit(".", NONDURABLE);

  int *x = xMmap("input.db", n * PAGESIZE);
  int i, value;

  xbegin();
  for (i = 0; i < n; i++) {
    value = x[i * PAGESIZE / sizeof(int)];
  }
  xend();

  xMunmap("input.db");
  xShutdown();
  return 0;
}
