/* examples/libxac/report_2_4.h -- put before figure_2_4_program_1.c by the test (-include): lets
 * the figure stay as printed and yet tell its local variables, in the order a y b z. */
#ifndef TMH_EXAMPLES_LIBXAC_REPORT_2_4_H
#define TMH_EXAMPLES_LIBXAC_REPORT_2_4_H

#include <stdio.h>

#include <xac.h>

#define xShutdown() (printf("%d %d %d %d\n", a, y, b, z), xShutdown())

#endif
