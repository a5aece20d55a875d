// examples/workloads/mixed.cpp -- small instances at one site, huge ones at another.
// Invariant: all words add up to what the tallies say that huge instances added.
#include "examples/workloads/mixed.hpp"

#include <algorithm>

#include "examples/structures/bank.hpp"
#include "examples/workloads/workload.hpp"

namespace workloads {

namespace {

// Of updates; as bench/hierarchy's mix in which both kinds take about half of the time.
constexpr std::uint64_t kHugePercent = 1;
constexpr std::uint64_t kHugePagesMax = 256;

class Mixed final : public Workload {
 public:
  Mixed(const tmh::Domain &domain, const Plan &plan)
      : Workload(domain, plan, plan.size * tmh::kPageBytes),
        huge_pages_(std::min(plan.size, kHugePagesMax)),
        choice_(word_count(), plan.skew),
        huge_site_(domain, "mixed, huge", plan.escalation) {}
  [[nodiscard]] std::unique_ptr<Worker> make_worker(unsigned index) override {
    return std::make_unique<User>(*this, index);
  }
  [[nodiscard]] std::vector<tmh::SiteReport> reports() const override {
    return {site_.report(), huge_site_.report()};
  }

 private:
  using Word = tmh::field<std::int64_t>;

  class User final : public Worker {
   public:
    User(Mixed &mixed, unsigned index)
        : Worker(mixed.tally(index), mixed.seed_of(index)), mixed_(mixed) {}
    void step() override {
      const Plan &plan = mixed_.plan_;
      if (random_.below(100) < static_cast<std::uint64_t>(plan.read_percent)) {
        (void)read_much(mixed_.huge_site_, plan,
                        [&] { return structures::sum_of(mixed_.words(), mixed_.word_count()); });
        return;
      }
      if (random_.below(100) < kHugePercent) {
        const std::uint64_t first = random_.below(plan.size - mixed_.huge_pages_ + 1);
        update(mixed_.huge_site_, [&] {
          add_one(mixed_.words(), first, mixed_.huge_pages_);
          return Change{0, static_cast<std::int64_t>(mixed_.huge_pages_)};
        });
        return;
      }
      std::uint64_t indices[kSmallWords];
      for (std::uint64_t &index : indices) index = mixed_.choice_.next(random_);
      update(mixed_.site_, [&] {
        transfer(mixed_.words(), indices);
        return Change{};
      });
    }

   private:
    Mixed &mixed_;
  };

  [[nodiscard]] Word *words() const { return reinterpret_cast<Word *>(content()); }
  [[nodiscard]] std::uint64_t word_count() const { return plan_.size * kWordsPerPage; }
  [[nodiscard]] std::uint64_t portions() const override { return 0; }  // zeros
  void fill(std::uint64_t) override {}
  void check(Verdict *verdict) override {
    const std::int64_t sum = structures::sum_of(words(), word_count()), due = sums().sum;
    verdict->text =
        "the words add up to " + std::to_string(sum) + ", which is what the huge updates added";
    verdict->expect(sum == due, "the words add up to " + std::to_string(sum) + " instead of " +
                                    std::to_string(due));
  }

  const std::uint64_t huge_pages_;
  const ScrambledZipfian choice_;
  const tmh::Site huge_site_;
};

}  // namespace

std::unique_ptr<Workload> make_mixed(const tmh::Domain &domain, const Plan &plan) {
  return std::make_unique<Mixed>(domain, plan);
}

}  // namespace workloads
