// tests/itm/pages/bank_work.h -- what threads do with the bank until they die.
#pragma once

#include <random>

#include "tests/itm/pages/bank.h"

namespace itm::pages {

// Counts what is not as bank.h says.
void check(const Bank::Report &report);
// A transaction, counted behind its commit.
void act(int worker, std::minstd_rand *random);
// A thread that looks again and again until the test is over.
void *look_on(void *);
// It goes on.
void wait_for_a_look();

}  // namespace itm::pages
