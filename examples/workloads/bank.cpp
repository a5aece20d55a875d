// examples/workloads/bank.cpp -- transfers between accounts.
// Invariant: the accounts' sum is what it was at first, in every read of all of them too.
#include "examples/structures/bank.hpp"

#include <algorithm>

#include "examples/workloads/workload.hpp"

namespace workloads {

namespace {

constexpr std::int64_t kBalance = 1000;
constexpr std::uint64_t kPortion = 100'000;  // accounts: 200 pages

class Bank final : public Workload {
 public:
  Bank(const tmh::Domain &domain, const Plan &plan)
      : Workload(domain, plan, plan.size * sizeof(Balance)), choice_(plan.size, plan.skew) {}
  [[nodiscard]] std::unique_ptr<Worker> make_worker(unsigned index) override {
    return std::make_unique<Teller>(*this, index);
  }

 private:
  using Balance = tmh::field<std::int64_t>;

  class Teller final : public Worker {
   public:
    Teller(Bank &bank, unsigned index)
        : Worker(bank.tally(index), bank.seed_of(index)), bank_(bank) {}
    void step() override {
      const Plan &plan = bank_.plan_;
      if (random_.below(100) < static_cast<std::uint64_t>(plan.read_percent)) {
        const std::int64_t sum = read_much(
            bank_.site_, plan, [&] { return structures::sum_of(bank_.accounts(), plan.size); });
        if (sum != bank_.expected())
          throw Broken("bank: a read saw the sum " + std::to_string(sum));
        return;
      }
      Balance &from = bank_.accounts()[bank_.choice_.next(random_)],
              &to = bank_.accounts()[bank_.choice_.next(random_)];
      const auto amount = static_cast<std::int64_t>(1 + random_.below(20));
      update(bank_.site_, [&] {
        structures::move(from, to, amount);
        return Change{};
      });
    }

   private:
    Bank &bank_;
  };

  [[nodiscard]] Balance *accounts() const { return reinterpret_cast<Balance *>(content()); }
  [[nodiscard]] std::int64_t expected() const {
    return static_cast<std::int64_t>(plan_.size) * kBalance;
  }
  [[nodiscard]] std::uint64_t portions() const override {
    return (plan_.size + kPortion - 1) / kPortion;
  }
  void fill(std::uint64_t portion) override {
    const std::uint64_t end = std::min(plan_.size, (portion + 1) * kPortion);
    for (std::uint64_t i = portion * kPortion; i < end; ++i) accounts()[i] = kBalance;
  }
  void check(Verdict *verdict) override {
    const std::int64_t sum = structures::sum_of(accounts(), plan_.size);
    verdict->text =
        std::to_string(plan_.size) + " accounts hold " + std::to_string(sum) + ", as at first";
    verdict->expect(sum == expected(), "the accounts hold " + std::to_string(sum) + " instead of " +
                                           std::to_string(expected()));
  }

  const ScrambledZipfian choice_;
};

}  // namespace

std::unique_ptr<Workload> make_bank(const tmh::Domain &domain, const Plan &plan) {
  return std::make_unique<Bank>(domain, plan);
}

}  // namespace workloads
