// tests/itm/compiled/queue.cpp -- two threads put nodes into one queue and take them out, made and
// deleted in the transactions; what was put in is taken out once, each thread's in order.
// Methods:   lines rtm serial pages-serializable
// Says:      right
#include <pthread.h>

#include <cstdio>

namespace {

struct Node {
  Node *next;
  long value;
};
struct Queue {
  Node *first, *last;
  long length;
};
Queue queue;
constexpr long kRounds = 1500;
constexpr int kThreads = 2;
struct alignas(128) Work {
  long sum, last[kThreads], wrong;
};
Work works[kThreads];

__attribute__((transaction_safe, noinline)) void put(Queue *to, long value) {
  Node *const node = new Node{nullptr, value};
  if (to->last == nullptr) {
    to->first = node;
  } else {
    to->last->next = node;
  }
  to->last = node;
  ++to->length;
}
__attribute__((transaction_safe, noinline)) long take(Queue *from) {
  Node *const node = from->first;
  if (node == nullptr) return 0;
  const long value = node->value;
  from->first = node->next;
  if (from->first == nullptr) from->last = nullptr;
  --from->length;
  delete node;
  return value;
}

void note(Work *work, long value) {
  if (value == 0) return;
  const long from = value % kThreads, number = value / kThreads;
  work->wrong += number <= work->last[from];
  work->last[from] = number;
  work->sum += number;
}

void *run(void *argument) {
  const long me = reinterpret_cast<long>(argument);
  for (long k = 1; k <= kRounds; ++k) {
    long value = 0;
    __transaction_atomic {
      put(&queue, k * kThreads + me);
      if (k % 3 != 0) value = take(&queue);
    }
    note(&works[me], value);
  }
  return nullptr;
}

}  // namespace

int main() {
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], nullptr, run, reinterpret_cast<void *>(i)) != 0) return 3;
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  Work rest = {};
  while (queue.first != nullptr) {
    long value = 0;
    __transaction_atomic { value = take(&queue); }
    note(&rest, value);
  }
  const long sum = rest.sum + works[0].sum + works[1].sum;
  const long wrong = rest.wrong + works[0].wrong + works[1].wrong + queue.length;
  std::puts(sum == kThreads * kRounds * (kRounds + 1) / 2 && wrong == 0 ? "right" : "WRONG");
}
