// tests/itm/safe_library.cpp -- a library for dlopen() with transaction_safe functions, hence with
// its own table of clones; its constructor runs a transaction.
namespace {

long total;
long opened;

[[gnu::constructor]] void open_with_a_transaction() {
  __transaction_atomic { opened = opened + 1; }
}

}  // namespace

extern "C" {

[[gnu::transaction_safe, gnu::noinline]] void safe_store(long *place, long value) {
  *place = value;
}

[[gnu::transaction_safe]] long safe_add(long value) {
  const long sum = total + value;
  safe_store(&total, sum);
  return sum;
}

[[gnu::transaction_safe]] void safe_throw(int value) { throw value; }

// Its transaction is inside the library; the caller may be in one of its own.
[[gnu::transaction_safe]] long safe_own_transaction(long value) {
  long result = 0;
  __transaction_atomic {
    total = total + value;
    result = total;
  }
  return result;
}

long plain_add(long value) {
  total += value;
  asm volatile("" ::: "memory");
  return total;
}

long opened_times() { return opened; }
}
