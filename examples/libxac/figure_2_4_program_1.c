// examples/libxac/figure_2_4_program_1.c -- local variables inside a transaction (thesis, section
// 2.2).
// Added:     the include line. Line 2 is printed there with a semicolon before `a`, which C does
//            not take.
// Result:    a == y (attempts) and b == z, however often the transaction aborted: locals are not
//            rolled back, aborts come at xend only, and an aborted attempt sees a consistent view.
//            The test makes xShutdown() print the four.
#include <xac.h>

int main(void) {
  int y = 0, z = 0, a = 0, b = 0;
  int *x;
  xInit(".", NONDURABLE);
  x = xMmap("input.db", 4096);

  while (1) {
    a++;
    xbegin();
    b += x[0];
    y++;
    x[0]++;
    z += (x[0] - 1);
    if (xend() == COMMITTED) break;
  }

  munmap(x, 4096);
  xShutdown();
  return 0;
}
