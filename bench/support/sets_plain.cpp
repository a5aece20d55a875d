// bench/support/sets_plain.cpp -- baseline of the sets bench: plain serial code, malloc(), free().
#include <bit>
#include <cstdlib>
#include <cstring>

#include "bench/support/sets_work.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

class PlainSets {
 public:
  template <class T>
  using Field = PlainField<T>;

  class Session : public PlainSession, public SetOperations<Session> {
   public:
    static void *allocate(std::size_t bytes, std::size_t alignment) {
      TMH_ASSERT(bytes > 0 && std::has_single_bit(alignment));
      return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    }
    static void deallocate(void *block, std::size_t, std::size_t) { std::free(block); }
  };
  [[nodiscard]] static Session session() { return {}; }
  // Nodes of sets before are left.
  std::byte *head(std::size_t bytes) { return head_.zeros(bytes); }

 private:
  SetHead head_;
};

class Plain final : public SetContestant {
 public:
  [[nodiscard]] const char *name() const override { return "plain"; }
  [[nodiscard]] unsigned threads_max() const override { return 1; }
  SetOutcome run(const SetWork &work) override { return run_set_work(work, memory_); }

 private:
  PlainSets memory_;
};

}  // namespace

std::unique_ptr<SetContestant> make_sets_plain() { return std::make_unique<Plain>(); }

}  // namespace tmh::bench
