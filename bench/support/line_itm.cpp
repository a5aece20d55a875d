// bench/support/line_itm.cpp -- GCC's libitm in the line bench.
// Set-up:    method ml_wt (multiple locks, write-through), its best for these structures;
//            ITM_DEFAULT_METHOD is read at the first transaction, hence set before.
#include "bench/support/line_itm.h"

#include <cstdlib>

#include "bench/support/line_work.h"

namespace tmh::bench {
namespace {

class ItmMemory {
 public:
  template <class T>
  using Field = PlainField<T>;

  class Session : public ItmSession {
   public:
    static std::int64_t sum(const std::int64_t *accounts, std::uint64_t count) {
      return itm_sum(accounts, count);
    }
    static void transfer(std::int64_t &from, std::int64_t &to, std::int64_t amount) {
      itm_transfer(from, to, amount);
    }
    // No other thread is there yet.
    static void put(std::int64_t &account, std::int64_t amount) { account = amount; }
    [[nodiscard]] static std::uint64_t aborts() { return 0; }
  };
  [[nodiscard]] static Session session() { return {}; }
  std::byte *memory(std::size_t bytes) { return memory_.get(bytes); }

 private:
  LineMemory memory_;
};

class Itm final : public LineContestant {
 public:
  Itm() { setenv("ITM_DEFAULT_METHOD", "ml_wt", 1); }
  [[nodiscard]] const char *name() const override { return "libitm"; }
  LineOutcome run(const LineWork &work) override { return run_line_work(work, memory_); }

 private:
  ItmMemory memory_;
};

}  // namespace

std::unique_ptr<LineContestant> make_line_itm() { return std::make_unique<Itm>(); }

}  // namespace tmh::bench
