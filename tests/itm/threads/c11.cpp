// tests/itm/threads/c11.cpp -- C's <threads.h>.
#include <threads.h>

#include "tests/itm/program.h"

namespace {

mtx_t mutex;
cnd_t condition;
once_flag flag = ONCE_FLAG_INIT;
tss_t key;
int counter = 0, made = 0, destroyed = 0;

void make() { ++made; }
void destroy(void *) {
  mtx_lock(&mutex);
  ++destroyed;
  mtx_unlock(&mutex);
}

int count(void *argument) {
  call_once(&flag, make);
  tss_set(key, argument);
  for (int i = 0; i < 1000; ++i) {
    mtx_lock(&mutex);
    ++counter;
    cnd_broadcast(&condition);
    mtx_unlock(&mutex);
  }
  return *static_cast<int *>(argument);
}

}  // namespace

ITM_PROGRAM(c11_threads, "4000 10 1 4") {
  mtx_init(&mutex, mtx_plain);
  cnd_init(&condition);
  tss_create(&key, destroy);
  thrd_t threads[4];
  int numbers[] = {1, 2, 3, 4};
  for (int i = 0; i < 4; ++i)
    if (thrd_create(&threads[i], count, &numbers[i]) != thrd_success) return "create";
  mtx_lock(&mutex);
  while (counter != 4000) cnd_wait(&condition, &mutex);
  mtx_unlock(&mutex);
  int sum = 0;
  for (const thrd_t each : threads) {
    int result = 0;
    if (thrd_join(each, &result) != thrd_success) return "join";
    sum += result;
  }
  return itm::say(counter, sum, made, destroyed);
}
