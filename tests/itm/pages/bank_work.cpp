#include "tests/itm/pages/bank_work.h"

#include "tests/itm/pages/told.h"

namespace itm::pages {

void check(const Bank::Report &report) {
  expect(report.sum == Bank::kSum, "sum of accounts", report.sum, Bank::kSum);
  expect(report.nodes == report.counted, "nodes in lists", report.nodes, report.counted);
  expect(report.torn == 0, "torn nodes", report.torn, 0);
}

void act(int worker, std::minstd_rand *random) {
  if (below(random, 2) == 0) {
    const int from = below(random, Bank::kAccounts), to = below(random, Bank::kAccounts);
    Bank::transfer(worker, from, to, 1 + below(random, 9));
  } else {
    const long number = 1 + below(random, 1'000'000);
    const long result = Bank::change_list(worker, below(random, Bank::kLists), number);
    expect(result != 0, "a node that was taken", result, number);
  }
  told().workers[worker].commits.fetch_add(1);
}

void *look_on(void *) {
  while (told().is_over == 0) {
    check(Bank::look());
    told().looks.fetch_add(1);
  }
  return nullptr;
}

void wait_for_a_look() {
  const long looks = told().looks;
  wait_until("a look", [looks] { return told().looks > looks + 1; });
}

}  // namespace itm::pages
