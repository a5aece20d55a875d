// examples/levels.cpp -- one body at two levels: small transfers at cache lines, a yearly interest
// at pages, on the same accounts; and a small body that runs at pages, with the report that says
// why.
#include <cstdio>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

namespace {

constexpr std::size_t kAccounts = 100'000;
struct Account {
  tmh::field<long> balance;
};

}  // namespace

int main(int argc, char **argv) {
  tmh::DomainOptions options;
  options.levels = tmh::Levels::kHybrid;
  const tmh::Domain domain = tmh::Domain::open(argc > 1 ? argv[1] : "levels.tmh", options);
  tmh::SegmentOptions raw;
  raw.layout = tmh::Layout::kRaw;
  raw.size_bytes =
      (kAccounts * sizeof(Account) + tmh::kPageBytes - 1) / tmh::kPageBytes * tmh::kPageBytes;
  auto *accounts = reinterpret_cast<Account *>(domain.map("accounts.raw", raw).data());

  const tmh::Site transfer(domain, "transfer");
  // Touches every account: level 2 from the start.
  const tmh::Site interest(domain, "interest", "always");
  tmh::atomically(interest, [&](tmh::Fields) {
    for (std::size_t i = 0; i < kAccounts; ++i) accounts[i].balance = 1000;
  });

  std::vector<std::thread> tellers;
  for (std::size_t teller = 1; teller <= 2; ++teller) {
    tellers.emplace_back([&, teller] {
      for (std::size_t i = 0; i < 20'000; ++i) {
        Account &from = accounts[(i * 7919 * teller) % kAccounts],
                &to = accounts[(i * 104729 + teller) % kAccounts];
        tmh::atomically(transfer, [&](tmh::Fields) {
          from.balance -= 10;
          to.balance += 10;
        });
      }
    });
  }
  for (std::thread &teller : tellers) teller.join();
  const auto sum = [&] {
    long all = 0;
    for (std::size_t i = 0; i < kAccounts; ++i) all += accounts[i].balance;
    return all;
  };
  const long before = tmh::query(domain, sum);  // one snapshot, at level 2
  tmh::atomically(interest, [&](tmh::Fields) {
    for (std::size_t i = 0; i < kAccounts; ++i) accounts[i].balance += accounts[i].balance / 100;
  });
  // As small as a transfer. But what it does outside of memory no abort can undo, and for that it
  // needs level 2.
  const tmh::Site payout(domain, "payout", "on-capacity");  // whatever TMH_ESCALATION says
  for (std::size_t i = 0; i < 3; ++i) {
    tmh::atomically(payout, [&](tmh::Fields) {
      accounts[i].balance -= 5;
      tmh::become_irrevocable();
      std::printf("paid 5 from account %zu\n", i);
    });
  }
  for (const tmh::Site *site : {&transfer, &interest, &payout}) {
    const tmh::SiteReport report = site->report();
    std::printf("%-10s at lines %8llu  at pages %6llu  went up %llu, came down %llu\n",
                report.name.c_str(), static_cast<unsigned long long>(report.line_commits),
                static_cast<unsigned long long>(report.page_commits),
                static_cast<unsigned long long>(report.escalations_capacity +
                                                report.escalations_needs_pages +
                                                report.escalations_attempts),
                static_cast<unsigned long long>(report.de_escalations));
    // Why does it run at pages?
    for (std::size_t i = 0; i < tmh::kNeedCount; ++i)
      if (report.escalations_by_need[i] != 0)
        std::printf("  went up %llu times for %s\n",
                    static_cast<unsigned long long>(report.escalations_by_need[i]),
                    tmh::to_string(static_cast<tmh::Need>(i)));
  }
  std::printf("sum %ld, with interest %ld\n", before, tmh::query(domain, sum));
  return before == static_cast<long>(kAccounts) * 1000 ? 0 : 1;
}
