// tests/itm/compiled/openmp_on_pages.cpp -- is refused, with a sentence.
// Methods:   pages pages-serializable
// Levels:    2
// Flags:     -fopenmp
// Says:      (status 127)
#include "tests/itm/compiled/openmp.cpp"
