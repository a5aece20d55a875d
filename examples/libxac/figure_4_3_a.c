// examples/libxac/figure_4_3_a.c -- reads from n pages, with the advisory function (thesis, section
// 4.2).
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
    int j = i * PAGESIZE / sizeof(int);
    setPageAccess(&(x[j]), READ);
    value = x[j];
  }
  xend();

  xMunmap("input.db");
  xShutdown();
  return 0;
}
