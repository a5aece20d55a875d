/* examples/libxac/count_1_6.h -- put before figure_1_6.c and figure_2_2.c by the test (-include):
 * lets the figures stay as printed and yet count. Each attempt reads the first integers of pages 0
 * to 4 and writes page 0, and its sum begins at 0. So a run adds what pages 1 to 4 hold to page
 * 0. */
#ifndef TMH_EXAMPLES_LIBXAC_COUNT_1_6_H
#define TMH_EXAMPLES_LIBXAC_COUNT_1_6_H

#include <stdlib.h>

#include <xac.h>

static int next_page(void) {
  static int draws = 0;
  return draws++ % 6 % 5;
}

#define rand() next_page()
#define xbegin() (sum = 0, xbegin())

#endif
