// bench/support/sets_itm.cpp -- GCC's libitm in the sets bench: method ml_wt, as in the line bench.
#include "bench/support/sets_itm.h"

#include <cstdlib>

#include "bench/support/line_itm.h"
#include "bench/support/sets_work.h"

namespace tmh::bench {
namespace {

class ItmSetMemory {
 public:
  template <class T>
  using Field = PlainField<T>;

  class Session : public ItmSession {
   public:
    template <class Set>
    std::uint64_t sum_from(const Set &set, std::uint64_t key, std::uint64_t count) {
      return ItmSets<Set>::sum_from(set, key, count);
    }
    template <class Set>
    bool add(Set &set, std::uint64_t key, std::size_t) {
      return ItmSets<Set>::add(set, key);
    }
    template <class Set>
    bool take(Set &set, std::uint64_t key, std::size_t) {
      return ItmSets<Set>::take(set, key);
    }
  };
  [[nodiscard]] static Session session() { return {}; }
  // Nodes of sets before are left.
  std::byte *head(std::size_t bytes) { return head_.zeros(bytes); }

 private:
  SetHead head_;
};

class Itm final : public SetContestant {
 public:
  Itm() { setenv("ITM_DEFAULT_METHOD", "ml_wt", 1); }
  [[nodiscard]] const char *name() const override { return "libitm"; }
  [[nodiscard]] bool aligns() const override { return false; }
  SetOutcome run(const SetWork &work) override { return run_set_work(work, memory_); }

 private:
  ItmSetMemory memory_;
};

}  // namespace

std::unique_ptr<SetContestant> make_sets_itm() { return std::make_unique<Itm>(); }

}  // namespace tmh::bench
