// tests/itm/compiled/passed_by_value.cpp -- structs that a callee has stored to are then passed by
// value, returned, and copied: g++ loads what it passes by value without a barrier.
// Methods:   lines rtm serial pages pages-serializable
// Says:      0 wrong
#include <cstdio>
#include <cstdlib>

namespace {

struct Small {
  long a, b;
};
struct Large {
  long a, b, c, d, e;
};

#define SAFE __attribute__((transaction_safe, noinline))
SAFE void set(Small *to, long v) {
  to->a = v;
  to->b = 2 * v;
}
SAFE void set(Large *to, long v) { *to = {v, 2 * v, 3, 4, v}; }
SAFE long sum(Small s) { return s.a + s.b; }
SAFE long sum(Large s) { return s.a + s.b + s.c + s.d + s.e; }
SAFE Small small(long v) {
  Small s;
  set(&s, v);
  return s;
}
SAFE Large large(long v) {
  Large s;
  set(&s, v);
  return s;
}
SAFE long inside(long v) {
  Small s;
  Large l;
  set(&s, v);
  set(&l, v);
  const long before = sum(s) + sum(l);
  s = small(v + 1);
  l = large(v + 1);
  return before + sum(s) + sum(l) + s.a + l.e;
}

Small global_small, *heap_small;
Large global_large, *heap_large;
long results[12];

#define RUN(NUMBER, ...)                                \
  __attribute__((noinline)) void run_##NUMBER(long v) { \
    Small s = {};                                       \
    Large l = {};                                       \
    __transaction_atomic { __VA_ARGS__ }                \
    static_cast<void>(s);                               \
    static_cast<void>(l);                               \
  }
RUN(0, set(&s, v); results[0] = sum(s);)
RUN(1, set(&l, v); results[1] = sum(l);)
RUN(2, set(&global_small, v); results[2] = sum(global_small);)
RUN(3, set(&global_large, v); results[3] = sum(global_large);)
RUN(4, set(heap_small, v); results[4] = sum(*heap_small);)
RUN(5, set(heap_large, v); results[5] = sum(*heap_large);)
RUN(6, s = small(v); results[6] = s.a + s.b;)
RUN(7, l = large(v); results[7] = l.a + l.b + l.c + l.d + l.e;)
RUN(8, results[8] = sum(small(v)) + sum(large(v));)
RUN(9, results[9] = inside(v);)
RUN(10, global_large = large(v); global_small = small(v);
    results[10] = global_large.e + global_small.b + sum(global_large) + sum(global_small);)
RUN(11, set(&global_large, v); l = global_large; results[11] = sum(l) + l.c;)

}  // namespace

int main() {
  heap_small = static_cast<Small *>(std::calloc(1, sizeof *heap_small));
  heap_large = static_cast<Large *>(std::calloc(1, sizeof *heap_large));
  int wrong = 0;
  for (long v = 1; v < 50; ++v) {
    run_0(v), run_1(v), run_2(v), run_3(v), run_4(v), run_5(v);
    run_6(v), run_7(v), run_8(v), run_9(v), run_10(v), run_11(v);
    const long s = 3 * v, l = 4 * v + 7, next = v + 1;
    const long right[12] = {
        s,    l, s, l, s, l, s, l, s + l, s + l + 3 * next + 4 * next + 7 + 2 * next, 3 * v + s + l,
        l + 3};
    for (int i = 0; i < 12; ++i) wrong += results[i] != right[i];
  }
  std::printf("%d wrong\n", wrong);
}
