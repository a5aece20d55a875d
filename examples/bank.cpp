// examples/bank.cpp -- two processes move money between accounts while a third one adds up all of
// them.
// Invariant: every sum that a query sees is the same: it reads one consistent snapshot and never
//            aborts.
// Run:       bank [folder], default ./bank.domain.
#include <array>
#include <cstdio>
#include <exception>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <tmh/tmh.hpp>

namespace {

// 4 bytes each: 8 pages, so that two transfers often touch different ones
constexpr int kAccounts = 8192;
constexpr int kDeposit = 100;
constexpr int kTransfers = 2000;
using Bank = std::array<int, kAccounts>;

void transfer(const char *folder, unsigned seed) {
  const tmh::Domain domain = tmh::Domain::open(folder);
  const tmh::Segment accounts = domain.map("accounts");
  Bank &bank = *accounts.root<Bank>();
  std::mt19937 random(seed);
  for (int i = 0; i < kTransfers; ++i) {
    const std::size_t from = random() % kAccounts, to = random() % kAccounts;
    tmh::atomically(domain, [&] {
      --bank[from];
      ++bank[to];
    });
  }
}

void audit(const char *folder) {
  const tmh::Domain domain = tmh::Domain::open(folder);
  const tmh::Segment accounts = domain.map("accounts");
  const Bank &bank = *accounts.root<Bank>();
  for (int i = 0; i < 200; ++i) {
    const int sum =
        tmh::query(domain, [&] { return std::accumulate(bank.begin(), bank.end(), 0); });
    if (sum != kAccounts * kDeposit)
      throw std::runtime_error("money was made or lost: " + std::to_string(sum));
  }
}

template <class Work>
void start(Work &&work) {
  if (fork() != 0) return;
  try {
    work();
    _exit(0);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
}

}  // namespace

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "bank.domain";
  // The accounts are opened by a process of its own, so that this one has no domain when it forks.
  start([&] {
    const tmh::Domain domain = tmh::Domain::open(folder);
    const tmh::Segment accounts = domain.map("accounts");
    Bank &bank = *accounts.root<Bank>();
    tmh::atomically(domain, [&] { bank.fill(kDeposit); });
  });
  int status = 0, failed = 0;
  if (wait(&status) < 0 || status != 0) return 1;

  start([&] { transfer(folder, 1); });
  start([&] { transfer(folder, 2); });
  start([&] { audit(folder); });
  while (wait(&status) > 0) failed += status != 0;
  if (failed == 0)
    std::printf("%d transfers, every audit saw %d\n", 2 * kTransfers, kAccounts * kDeposit);
  return failed == 0 ? 0 : 1;
}
