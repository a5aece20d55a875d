// tests/itm/pages/held.h -- pages that a waiter has stored to plainly, and transactions that come
// to them while it waits.
#pragma once

namespace itm::pages {

class Held {
 public:
  static constexpr int kPages = 64;

  struct alignas(4096) Page {
    long plain;                              // of the waiter
    long inside;                             // of transactions
    alignas(64) unsigned char buffer[2048];  // of the waiter's system call
  };
  static Page &page(int index);

  // A transaction that adds one to `inside`. The waiter's word. Another thread commits in each
  // attempt, between its begin and its first access to the page: what the waiter may have stored
  // since is unclear as long as it may store at all.
  static long add(int index);
  // The other thread, until the test is over.
  static void *commit_on(void *);
};

}  // namespace itm::pages
