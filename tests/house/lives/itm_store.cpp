// tests/house/lives/itm_store.cpp -- one load and one store of a program of g++ -fgnu-tm, by the
// method of ITM_DEFAULT_METHOD. Transactions before it have brought the thread and its page there.
#include "tests/house/lives/recorder.h"

namespace {
long count;
NOT_TRACED void store() {
  __transaction_atomic { count = count + 1; }
}
}  // namespace

NOT_TRACED int main() {
  for (int i = 0; i < 100; ++i) store();
  lives::begin();
  store();
  lives::end();
}
