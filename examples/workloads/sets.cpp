// examples/workloads/sets.cpp -- keys inserted, removed and looked up: a sorted list, a red-black
// tree, a hash set.
// Shape:     keys 1 to 2 * size, of which every second one is there at first. A key's node is its
//            own, always the same: nodes are neither allocated nor handed over, and a worker that
//            dies takes none with it.
// Invariant: the structure is whole (visit()), and its keys and their sum are those of the
//            beginning and of the tallies.
#include <algorithm>

#include "examples/structures/hash_set.hpp"
#include "examples/structures/red_black_tree.hpp"
#include "examples/structures/sorted_list.hpp"
#include "examples/workloads/workload.hpp"

namespace workloads {

namespace {

constexpr std::uint64_t kPortion = 10'000;  // keys

template <class Set>
class Keys final : public Workload {
 public:
  Keys(const tmh::Domain &domain, const Plan &plan)
      // An update reads nodes that it does not write (docs/isolation.md).
      : Workload(domain, plan, kNodesAt + (2 * plan.size + 1) * sizeof(Node),
                 tmh::Isolation::kSerializable),
        choice_(2 * plan.size, plan.skew) {}
  [[nodiscard]] std::unique_ptr<Worker> make_worker(unsigned index) override {
    return std::make_unique<User>(*this, index);
  }

 private:
  using Node = typename Set::Node;
  static constexpr std::uint64_t kNodesAt =
      (Set::kHeadBytes + tmh::kLineBytes - 1) / tmh::kLineBytes * tmh::kLineBytes;

  class User final : public Worker {
   public:
    User(Keys &keys, unsigned index)
        : Worker(keys.tally(index), keys.seed_of(index)), keys_(keys) {}
    void step() override {
      const std::uint64_t key = 1 + keys_.choice_.next(random_), dice = random_.below(200);
      Set set = keys_.set();
      if (dice < 2 * static_cast<std::uint64_t>(keys_.plan_.read_percent)) {
        (void)tmh::atomically(keys_.site_, [&](tmh::Fields) { return set.contains(key); });
        return;
      }
      const auto sum = static_cast<std::int64_t>(key);
      update(keys_.site_, [&] {
        if (dice % 2 == 0) return set.insert(keys_.node(key), key) ? Change{1, sum} : Change{};
        return set.remove(key) != nullptr ? Change{-1, -sum} : Change{};
      });
    }

   private:
    Keys &keys_;
  };

  [[nodiscard]] Set set() const { return Set(content()); }
  [[nodiscard]] Node *node(std::uint64_t key) const {
    return reinterpret_cast<Node *>(content() + kNodesAt) + key;
  }
  [[nodiscard]] std::uint64_t portions() const override {
    return (plan_.size + kPortion - 1) / kPortion;
  }
  // From the largest key down: each is then the first of the list.
  void fill(std::uint64_t portion) override {
    Set set = this->set();
    const std::uint64_t end = std::min(plan_.size, (portion + 1) * kPortion);
    for (std::uint64_t i = portion * kPortion; i < end; ++i) {
      const std::uint64_t key = 2 * (plan_.size - i) - 1;
      set.insert(node(key), key);
    }
  }
  void check(Verdict *verdict) override {
    std::uint64_t keys = 0, sum = 0;
    const bool is_whole = set().visit([&](std::uint64_t keys_here, std::uint64_t sum_here) {
      keys += keys_here;
      sum += sum_here;
    });
    const Sums changed = sums();
    const std::uint64_t keys_due = plan_.size + static_cast<std::uint64_t>(changed.grown);
    const std::uint64_t sum_due = plan_.size * plan_.size + static_cast<std::uint64_t>(changed.sum);
    verdict->text = std::string("the ") + plan_.workload->name + " is whole and has the " +
                    std::to_string(keys) + " keys that were committed";
    verdict->expect(is_whole, std::string("the ") + plan_.workload->name + " is damaged");
    verdict->expect(keys == keys_due, "it has " + std::to_string(keys) + " keys instead of " +
                                          std::to_string(keys_due));
    verdict->expect(sum == sum_due, "its keys are not those that were committed");
  }

  const ScrambledZipfian choice_;
};

}  // namespace

std::unique_ptr<Workload> make_list(const tmh::Domain &domain, const Plan &plan) {
  return std::make_unique<Keys<structures::SortedList<tmh::field>>>(domain, plan);
}
std::unique_ptr<Workload> make_tree(const tmh::Domain &domain, const Plan &plan) {
  return std::make_unique<Keys<structures::RedBlackTree<tmh::field>>>(domain, plan);
}
std::unique_ptr<Workload> make_hash(const tmh::Domain &domain, const Plan &plan) {
  return std::make_unique<Keys<structures::HashSet<tmh::field>>>(domain, plan);
}

}  // namespace workloads
