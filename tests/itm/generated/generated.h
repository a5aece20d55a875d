// tests/itm/generated/generated.h -- what the programs of generate.py stand on: the state of a
// thread, its hash, and blocks of transactions in both builds of one source.
// Shape:     compiled with -fgnu-tm, a block is a transaction. Without (GENERATED_PLAIN) it runs as
//            it stands; one that may be cancelled runs in a child process first, which says if
//            it is, and then here, or not at all.
// Sharing:   each thread has a State; Shared has both threads' cells side by side, so that they
//            meet in lines, and counters that both add to. What a thread reads of the other's never
//            comes into a State: the end is the same in any order.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <vector>

namespace generated {

using U = unsigned long;
typedef int V4 __attribute__((vector_size(16)));
typedef double D2 __attribute__((vector_size(16)));
typedef short V4h __attribute__((vector_size(8)));
__extension__ typedef _Complex double Z;
__extension__ typedef _Complex float Zf;

struct Pair {
  U x, y;
};
struct Big {
  U a, b, c, d, e;
};
struct __attribute__((packed)) Odd {
  char c;
  short s;
  int i;
  U u;
  char t[5];
};
struct Bits {
  unsigned a : 3, b : 13, c : 20;
  U d : 40;
};
struct Node {
  Node *next;
  U key, value[3];
};

#ifdef GENERATED_PLAIN
#define SAFE
#define PURE
#define SAFE_TYPE
#define TX
#define RELAXED
#define MAY_CANCEL if (Trial trial; trial.goes_on())
#define CANCEL _exit(kCancelled)

constexpr int kCancelled = 77, kCommitted = 78;
class Trial {
 public:
  Trial() {
    child_ = fork();
    int status = 0;
    if (child_ == 0) return;
    if (child_ < 0 || waitpid(child_, &status, 0) != child_ || !WIFEXITED(status)) _exit(3);
    status = WEXITSTATUS(status);
    if (status != kCancelled && status != kCommitted) _exit(status);
    goes_on_ = status == kCommitted;
  }
  ~Trial() {
    if (child_ == 0) _exit(kCommitted);
  }
  bool goes_on() const { return goes_on_; }

 private:
  pid_t child_;
  bool goes_on_ = true;
};
#else
#define SAFE __attribute__((transaction_safe))
#define PURE __attribute__((transaction_pure))
#define SAFE_TYPE __attribute__((transaction_safe))
#define TX __transaction_atomic
#define RELAXED __transaction_relaxed
#define MAY_CANCEL __transaction_atomic
#define CANCEL __transaction_cancel
#endif
#define APART __attribute__((noinline))

struct State;
typedef U (*Function)(State *s, U x) SAFE_TYPE;

struct State {
  int me;
  U a[8];
  int i[8];
  short h[8];
  unsigned char c[64];
  double d[4];
  float f[4];
  long double e[2];
  Z z;
  Zf zf;
  V4 v[2];
  D2 w[2];
  V4h q;
  Pair p;
  Big big;
  Odd odd;
  Bits bits;
  Node *list;
  U *heap;
  Function function[4];
  std::map<long, U> map;
  std::vector<U> vector;
  std::string string;
  U caught;
};

struct Shared {
  U cells[16][2];
  int ints[16][2];
  unsigned char bytes[32][2];
  U totals[4];
  U flags[2];  // not part of the end
};

// The other thread may come.
PURE inline void pause_here(U x) {
  if (x % 8 == 0) sched_yield();
}

// Integers alone: they have one value at any level of optimization.
template <class Real>
SAFE inline U whole(Real value) {
  return value > -1e15 && value < 1e15 ? static_cast<U>(static_cast<long>(value)) : 1;
}
template <class Real>
SAFE inline Real bounded(Real value) {
  return value > -1e6 && value < 1e6 ? value : static_cast<Real>(1);
}

inline void mix(U &hash, U value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29); }

inline U hash_of(const State &s) {
  U hash = 1;
  for (U each : s.a) mix(hash, each);
  for (int each : s.i) mix(hash, static_cast<U>(each));
  for (short each : s.h) mix(hash, static_cast<U>(each));
  for (unsigned char each : s.c) mix(hash, each);
  for (double each : s.d) mix(hash, whole(each));
  for (float each : s.f) mix(hash, whole(each));
  for (long double each : s.e) mix(hash, whole(each));
  mix(hash, whole(__real__ s.z));
  mix(hash, whole(__imag__ s.zf));
  for (const V4 &each : s.v)
    for (int k = 0; k < 4; ++k) mix(hash, static_cast<U>(each[k]));
  for (const D2 &each : s.w) mix(hash, whole(each[0]) + whole(each[1]));
  for (int k = 0; k < 4; ++k) mix(hash, static_cast<U>(s.q[k]));
  mix(hash, s.p.x + 3 * s.p.y);
  mix(hash, s.big.a + 3 * s.big.b + 5 * s.big.c + 7 * s.big.d + 9 * s.big.e);
  mix(hash, static_cast<U>(s.odd.c + s.odd.s) + static_cast<U>(s.odd.i) + s.odd.u);
  for (char each : s.odd.t) mix(hash, static_cast<U>(each));
  mix(hash, s.bits.a + (U{s.bits.b} << 3) + (U{s.bits.c} << 16) + s.bits.d);
  for (const Node *node = s.list; node != nullptr; node = node->next)
    mix(hash, node->key + node->value[0] + 3 * node->value[1] + 5 * node->value[2]);
  for (int k = 0; s.heap != nullptr && k < 8; ++k) mix(hash, s.heap[k]);
  for (const auto &[key, value] : s.map) mix(hash, static_cast<U>(key) + value);
  for (U each : s.vector) mix(hash, each);
  for (char each : s.string) mix(hash, static_cast<U>(each));
  mix(hash, s.caught);
  return hash;
}

inline U hash_of(const Shared &shared) {
  U hash = 2;
  for (const auto &each : shared.cells) mix(hash, each[0] + 3 * each[1]);
  for (const auto &each : shared.ints) mix(hash, static_cast<U>(each[0] + 3 * each[1]));
  for (const auto &each : shared.bytes) mix(hash, U{each[0]} + 3 * U{each[1]});
  for (U each : shared.totals) mix(hash, each);
  return hash;
}

// Stores to the stack: what a rollback would restore below it shows.
APART inline void dirty_stack() {
  volatile unsigned char bytes[6000];
  for (unsigned k = 0; k < sizeof bytes; ++k) bytes[k] = 0x59;
}

inline void fill(State *s, int me, U seed) {
  s->me = me;
  auto next = [&seed] { return seed = seed * 6364136223846793005u + 1442695040888963407u; };
  for (U &each : s->a) each = next() >> 40;
  for (int &each : s->i) each = static_cast<int>(next() >> 44);
  for (short &each : s->h) each = static_cast<short>(next() >> 50);
  for (unsigned char &each : s->c) each = static_cast<unsigned char>(next() >> 56);
  for (double &each : s->d) each = static_cast<double>(next() >> 58);
  for (float &each : s->f) each = static_cast<float>(next() >> 58);
  for (long double &each : s->e) each = static_cast<long double>(next() >> 58);
}

// A program: a thread's work, and what both threads share.
struct Program {
  unsigned number;
  void (*run)(State *s, U round);
  Shared *shared;
  const Function *functions;  // four
};
extern const Program programs[];
extern const unsigned program_count;

}  // namespace generated
