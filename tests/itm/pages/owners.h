// tests/itm/pages/owners.h -- blocks of a page's size, each of one worker, and what transactions do
// to them.
// Invariant: (1) `a` and `b` of all blocks of a worker and its shared word are equal, in each
//            snapshot: its count of committed steps.
//            (2) `plain` is the worker's plain code's; `guest` is another thread's plain code's;
//            `constant` does not change.
//            (3) `common` is the sum of all committed steps of which a step says so.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>

namespace itm::pages {

struct Block {
  static constexpr int kPlain = 8, kConstants = 8, kNested = 16;
  long a;
  long plain[kPlain];
  long guest;
  long constant[kConstants];
  long nested[kNested];  // of transactions
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  sem_t sem;
  char buffer[64];
  epoll_event events[2];
  long unused[400];
  long b;
};
static_assert(sizeof(Block) <= 4096);

class Owners {
 public:
  static constexpr int kMost = 4, kBlocks = 4;  // workers, and blocks of each

  // By the worker itself, once: blocks of one page are of one thread.
  static void open(int worker);
  static Block &block(int worker, int index);

  // Each stores all `a`, works for a while, stores all `b`; the new value.
  static long step(int worker, long work_ns, bool is_common);
  // What nested transactions did, that are cancelled or not, is gone or there.
  static long step_nested(int worker, long work_ns, unsigned kept);
  // A system call in the middle.
  static long step_irrevocably(int worker, long work_ns, int file);
  // Nothing of it stays; what nested transactions of it committed, neither.
  static void cancel(int worker, long work_ns);
  // Dies in the middle.
  static void die(int worker, long work_ns, bool is_trap);

  struct Seen {
    long value;      // the worker's shared word
    long different;  // words that are not equal to it
  };
  // In one transaction: each worker, then again behind the wait.
  static void look(Seen seen[kMost], int workers, long wait_ns);
  // Plainly; the worker is gone or waits.
  static Seen look_plainly(int worker);
  static long common();
  // A transaction of another thread in the worker's block.
  static long visit(int worker, int index);
};

}  // namespace itm::pages
