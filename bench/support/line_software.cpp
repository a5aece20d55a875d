// bench/support/line_software.cpp -- this library's level 1 in the line bench: tmh::field, software
// lines, nothing above.
#include <tmh/field.hpp>

#include "bench/support/line_work.h"
#include "bench/support/lone_lines.h"
#include "levels/line/run.h"

namespace tmh::bench {
namespace {

class SoftwareMemory {
 public:
  template <class T>
  using Field = tmh::field<T>;

  SoftwareMemory(const std::string &folder, bool queries)
      : queries_(queries), lines_(folder, kLineMemoryBytes) {}

  class Session : public LineOperations<Session> {
   public:
    Session(LoneLines &lines, bool queries) : thread_(lines.thread()), queries_(queries) {}
    template <class Body>
    [[gnu::always_inline]] auto update(const Body &body) {
      return run(body, false);
    }
    template <class Body>
    [[gnu::always_inline]] auto query(const Body &body) {
      return run(body, queries_);
    }
    [[nodiscard]] std::uint64_t aborts() const { return aborts_; }

   private:
    template <class Body>
    [[gnu::always_inline]] auto run(const Body &body, bool is_query) {
      line::Begin options;
      options.is_query = is_query;
      decltype(body()) result{};
      aborts_ += line::run(*thread_, options, [&] { result = body(); }) - 1;
      return result;
    }
    std::unique_ptr<line::SoftwareThread> thread_;
    bool queries_;
    std::uint64_t aborts_ = 0;
  };
  [[nodiscard]] Session session() { return {lines_, queries_}; }
  [[nodiscard]] std::byte *memory(std::size_t) const { return lines_.base(); }

 private:
  bool queries_;
  LoneLines lines_;
};

class Software final : public LineContestant {
 public:
  Software(const std::string &folder, bool queries) : queries_(queries), memory_(folder, queries) {}
  [[nodiscard]] const char *name() const override {
    return queries_ ? "software" : "software-updates";
  }
  LineOutcome run(const LineWork &work) override { return run_line_work(work, memory_); }

 private:
  bool queries_;
  SoftwareMemory memory_;
};

}  // namespace

std::unique_ptr<LineContestant> make_line_software(const std::string &folder, bool queries) {
  return std::make_unique<Software>(folder, queries);
}

}  // namespace tmh::bench
