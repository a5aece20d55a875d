// examples/libxac/figure_2_4_program_2.c -- the program that runs against program 1 (thesis,
// section 2.2).
// Added:     the include line.
#include <xac.h>

int main(void) {
  int *x;
  xInit(".", NONDURABLE);
  x = xMmap("input.db", 4096);

  while (1) {
    xbegin();

    x[0]--;

    if (xend() == COMMITTED) break;
  }

  munmap(x, 4096);
  xShutdown();
  return 0;
}
