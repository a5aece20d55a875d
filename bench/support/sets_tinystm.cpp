// bench/support/sets_tinystm.cpp -- TinySTM in the sets bench, as in the line bench
// (line_tinystm.h). Nodes: stm_malloc() and stm_free() of its mod_mem.
#include "bench/support/line_tinystm.h"

#include <mod_mem.h>

#include <cstdlib>

#include "bench/support/sets_work.h"

namespace tmh::bench {
namespace {

class TinySets {
 public:
  template <class T>
  using Field = TinyField<T>;

  class Session : public TinySession<Session>, public SetOperations<Session> {
   public:
    static void *allocate(std::size_t bytes, std::size_t) { return stm_malloc(bytes); }
    static void deallocate(void *block, std::size_t bytes, std::size_t) { stm_free(block, bytes); }
  };
  [[nodiscard]] static Session session() { return {}; }
  // Nodes of sets before are left.
  std::byte *head(std::size_t bytes) { return head_.zeros(bytes); }
  template <class Body>
  void alone(const Body &body) {
    session().query([&] { return body(), true; });
  }

 private:
  SetHead head_;
};

class Tiny final : public SetContestant {
 public:
  Tiny() {
    stm_init();
    mod_mem_init(0);
  }
  Tiny(const Tiny &) = delete;
  Tiny &operator=(const Tiny &) = delete;
  ~Tiny() override { stm_exit(); }
  [[nodiscard]] const char *name() const override { return "tinystm"; }
  [[nodiscard]] bool aligns() const override { return false; }
  SetOutcome run(const SetWork &work) override { return run_set_work(work, memory_); }

 private:
  TinySets memory_;
};

}  // namespace

std::unique_ptr<SetContestant> make_sets_tinystm() { return std::make_unique<Tiny>(); }

}  // namespace tmh::bench
