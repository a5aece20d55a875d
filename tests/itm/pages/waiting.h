// tests/itm/pages/waiting.h -- what happens inside of a transaction, without system calls: one that
// makes one runs alone.
#pragma once

namespace itm::pages {

// Time passes: others commit.
[[gnu::transaction_pure]] void wait(long ns);
// Counts the attempt, asks another thread to commit, and waits until it has; not for ever, since it
// cannot while this one is alone.
[[gnu::transaction_pure]] void wait_for_a_commit();
// The other thread's, outside. False: the test is over.
[[gnu::transaction_pure]] bool await_question();
[[gnu::transaction_pure]] void answer();
// The thread dies of SIGILL.
[[gnu::transaction_pure]] void trap();
// Of SIGABRT, in two other ways than abort().
[[gnu::transaction_pure]] void raise_abort();
[[gnu::transaction_pure]] void fail_assertion();

}  // namespace itm::pages
