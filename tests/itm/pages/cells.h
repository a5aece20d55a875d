// tests/itm/pages/cells.h -- lines in static data and in the heap, each with words of transactions
// and words of plain code.
// Invariant: (1) `equal` is the same in all lines, in each snapshot.
//            (2) the plain words and bytes of a thread are stored to by that thread only.
#pragma once

namespace itm::pages {

struct alignas(64) Line {
  long equal;       // of transactions
  long counted[2];  // of a writer's transactions
  long plain[3];    // a thread's
  long constant;
  // Plain: 0, 2, 4 of threads 0, 1, 2. Transactions': 1, 3 of writers 0, 1.
  unsigned char bytes[8];
};

class Cells {
 public:
  static constexpr int kPageLines = 64, kLines = 6 * kPageLines;
  // In pages of which no plain code uses anything; one each.
  static constexpr int kCalm = 8;

  static void open();  // before there are threads
  static Line &line(int index);

  // All `equal` go up by one, and `counted` and a byte of these two lines. The new value.
  static long step(int writer, int line, int other_line);

  struct Seen {
    long value, different, later_value, calm_value;
  };
  // In one transaction: looks, waits, looks again; then, for the first time, at the calm pages.
  static Seen look(long wait_ns);
};

}  // namespace itm::pages
