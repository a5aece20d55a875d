// bench/support/sets_2plsf.cpp -- 2PLSF in the sets bench, through its own interface: two-phase
// locking with starvation-free readers, in one header. Nodes: its tmNew() and tmDelete().
// Limits:    a lookup is its readTx(), which takes read locks as its updateTx() does: 65,536 at
//            most, of which it counts no further. So what nobody disturbs is read outside
//            transactions.
#include <stms/2PLSF.hpp>

#include "bench/support/sets_work.h"

namespace tmh::bench {
namespace {

template <class T>
class PlsfField {
 public:
  PlsfField() = default;
  PlsfField(const PlsfField &) = delete;
  PlsfField &operator=(const PlsfField &) = delete;
  explicit(false) operator T() const { return word_.pload(); }
  PlsfField &operator=(T value) {
    word_.pstore(value);
    return *this;
  }
  [[nodiscard]] T operator->() const requires std::is_pointer_v<T> { return word_.pload(); }

 private:
  twoplsf::tmtype<T> word_;
};

class PlsfSets {
 public:
  template <class T>
  using Field = PlsfField<T>;

  class Session : public SetOperations<Session> {
   public:
    template <class Body>
    auto update(const Body &body) {
      return twoplsf::updateTx<decltype(body())>([&] { return body(); });
    }
    template <class Body>
    auto query(const Body &body) {
      return twoplsf::readTx<decltype(body())>([&] { return body(); });
    }
    static void *allocate(std::size_t bytes, std::size_t) { return twoplsf::tmMalloc(bytes); }
    static void deallocate(void *block, std::size_t, std::size_t) { twoplsf::tmFree(block); }
  };
  [[nodiscard]] static Session session() { return {}; }
  // Nodes of sets before are left.
  std::byte *head(std::size_t bytes) { return head_.zeros(bytes); }

 private:
  SetHead head_;
};

class Plsf final : public SetContestant {
 public:
  [[nodiscard]] const char *name() const override { return "2plsf"; }
  [[nodiscard]] bool aligns() const override { return false; }
  SetOutcome run(const SetWork &work) override { return run_set_work(work, memory_); }

 private:
  PlsfSets memory_;
};

}  // namespace

std::unique_ptr<SetContestant> make_sets_2plsf() { return std::make_unique<Plsf>(); }

}  // namespace tmh::bench
