// bench/support/line_tinystm.cpp -- TinySTM in the line bench.
// Set-up:    as its Makefile configured it, which the bench prints; 1.0.4's defaults are
//            write-back, encounter-time locks, suicide.
#include "bench/support/line_tinystm.h"

#include "bench/support/line_work.h"

namespace tmh::bench {
namespace {

class TinyMemory {
 public:
  template <class T>
  using Field = TinyField<T>;

  class Session : public TinySession<Session>, public LineOperations<Session> {};
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
