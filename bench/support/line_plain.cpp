// bench/support/line_plain.cpp -- the line bench's baselines: plain serial code, and the same under
// one mutex.
#include <mutex>

#include "bench/support/line_work.h"

namespace tmh::bench {
namespace {

class PlainMemory {
 public:
  template <class T>
  using Field = PlainField<T>;

  class Session : public PlainSession, public LineOperations<Session> {
   public:
    [[nodiscard]] static std::uint64_t aborts() { return 0; }
  };
  [[nodiscard]] static Session session() { return {}; }
  std::byte *memory(std::size_t bytes) { return memory_.get(bytes); }

 private:
  LineMemory memory_;
};

class MutexMemory : public PlainMemory {
 public:
  class Session : public LineOperations<Session> {
   public:
    explicit Session(std::mutex &mutex) : mutex_(mutex) {}
    template <class Body>
    auto update(const Body &body) {
      const std::scoped_lock lock(mutex_);
      return body();
    }
    template <class Body>
    auto query(const Body &body) {
      return update(body);
    }
    [[nodiscard]] static std::uint64_t aborts() { return 0; }

   private:
    std::mutex &mutex_;
  };
  [[nodiscard]] Session session() { return Session(mutex_); }

 private:
  std::mutex mutex_;
};

class Plain final : public LineContestant {
 public:
  [[nodiscard]] const char *name() const override { return "plain"; }
  [[nodiscard]] unsigned threads_max() const override { return 1; }
  LineOutcome run(const LineWork &work) override { return run_line_work(work, memory_); }

 private:
  PlainMemory memory_;
};

class Mutex final : public LineContestant {
 public:
  [[nodiscard]] const char *name() const override { return "mutex"; }
  LineOutcome run(const LineWork &work) override { return run_line_work(work, memory_); }

 private:
  MutexMemory memory_;
};

}  // namespace

std::unique_ptr<LineContestant> make_line_plain() { return std::make_unique<Plain>(); }
std::unique_ptr<LineContestant> make_line_mutex() { return std::make_unique<Mutex>(); }

}  // namespace tmh::bench
