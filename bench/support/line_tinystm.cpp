// bench/support/line_tinystm.cpp -- TinySTM in the line bench, through its own interface (stm.h of
// 1.0.4, the first with these calls).
// Set-up:    as its Makefile configured it, which the bench prints; 1.0.4's defaults are
//            write-back, encounter-time locks, suicide. A lookup or sum is told to be read-only: it
//            keeps no read set then, and begins again where an update transaction would extend its
//            snapshot.
// Invariant: a word's loads and stores are calls, inside a transaction, of a thread that has a
//            Session. One Session per thread at a time.
// Aborts:    siglongjmp back into Session::run(). So bodies and what they call hold nothing that
//            needs a destructor, and attempts share no local variable. They are counted here:
//            TinySTM counts them only when configured to.
#include <stm.h>

#include <bit>
#include <csetjmp>

#include "bench/support/line_work.h"

namespace tmh::bench {
namespace {

template <class T>
class TinyField {
  static_assert(sizeof(T) == sizeof(stm_word_t));

 public:
  TinyField(const TinyField &) = delete;
  TinyField &operator=(const TinyField &) = delete;
  explicit(false) operator T() const {
    return std::bit_cast<T>(stm_load(const_cast<stm_word_t *>(&word_)));
  }
  TinyField &operator=(T value) {
    stm_store(&word_, std::bit_cast<stm_word_t>(value));
    return *this;
  }
  TinyField &operator+=(T value) { return *this = *this + value; }
  TinyField &operator-=(T value) { return *this = *this - value; }

 private:
  stm_word_t word_;
};

class TinyMemory {
 public:
  template <class T>
  using Field = TinyField<T>;

  class Session : public LineOperations<Session> {
   public:
    Session() { stm_init_thread(); }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    ~Session() { stm_exit_thread(); }
    template <class Body>
    auto update(const Body &body) {
      return run(body, stm_tx_attr_t{});
    }
    template <class Body>
    auto query(const Body &body) {
      stm_tx_attr_t read_only{};
      read_only.read_only = 1;
      return run(body, read_only);
    }
    [[nodiscard]] std::uint64_t aborts() const { return aborts_; }

   private:
    // Not inlined: between sigsetjmp and the commit nothing of a caller changes that an abort would
    // not put back.
    template <class Body>
    [[gnu::noinline]] auto run(const Body &body, stm_tx_attr_t attributes) {
      if (sigsetjmp(*stm_start(attributes), 0) != 0) ++aborts_;
      const auto result = body();
      stm_commit();
      return result;
    }
    std::uint64_t aborts_ = 0;
  };
  [[nodiscard]] static Session session() { return {}; }
  std::byte *memory(std::size_t bytes) { return memory_.get(bytes); }
  // Between instances fields are read by one that nobody disturbs.
  template <class Body>
  void alone(const Body &body) {
    session().query([&] { return body(), true; });
  }

 private:
  LineMemory memory_;
};

class Tiny final : public LineContestant {
 public:
  Tiny() { stm_init(); }
  Tiny(const Tiny &) = delete;
  Tiny &operator=(const Tiny &) = delete;
  ~Tiny() override { stm_exit(); }
  [[nodiscard]] const char *name() const override { return "tinystm"; }
  [[nodiscard]] std::string setup() const override {
    std::string text = "TinySTM " STM_VERSION;
    for (const char *const parameter : {"design", "contention_manager"}) {
      const char *value = nullptr;
      if (stm_get_parameter(parameter, static_cast<void *>(&value)) != 0)
        text += std::string(", ") + value;
    }
    return text;
  }
  LineOutcome run(const LineWork &work) override { return run_line_work(work, memory_); }

 private:
  TinyMemory memory_;
};

}  // namespace

std::unique_ptr<LineContestant> make_line_tinystm() { return std::make_unique<Tiny>(); }

}  // namespace tmh::bench
