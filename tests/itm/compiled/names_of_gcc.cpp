// tests/itm/compiled/names_of_gcc.cpp -- methods by GCC's names.
// Methods:   ml_wt gl_wt htm serialirr serialirr_onwrite serial_onwrite
// Levels:    2
// Says:      100
#include <cstdio>

namespace {
long total;
}

int main() {
  for (int i = 0; i < 100; ++i) __transaction_atomic {
      ++total;
    }
  std::printf("%ld\n", total);
}
