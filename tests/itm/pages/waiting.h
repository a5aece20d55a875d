// tests/itm/pages/waiting.h -- what happens inside of a transaction, without system calls: one that
// makes one runs alone.
#pragma once

namespace itm::pages {

// Time passes: others commit.
[[gnu::transaction_pure]] void wait(long ns);
// The thread dies of SIGILL.
[[gnu::transaction_pure]] void trap();
// Of SIGABRT, in two other ways than abort().
[[gnu::transaction_pure]] void raise_abort();
[[gnu::transaction_pure]] void fail_assertion();

}  // namespace itm::pages
