// tests/itm/compiled/openmp.cpp -- transactions in threads of OpenMP.
// Methods:   lines rtm serial
// Levels:    2
// Flags:     -fopenmp
// Says:      4000
#include <cstdio>

namespace {
long counter;
}

int main() {
#pragma omp parallel num_threads(2)
  {
    for (int i = 0; i < 1000; ++i) __transaction_atomic {
        ++counter;
      }
#pragma omp barrier
    for (int i = 0; i < 1000; ++i) __transaction_atomic {
        ++counter;
      }
  }
  std::printf("%ld\n", counter);
}
