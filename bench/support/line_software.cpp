// bench/support/line_software.cpp -- this library's level 1 in the line bench: tmh::field, software lines, nothing above.
#include <tmh/error.hpp>
#include <tmh/field.hpp>

#include "bench/support/line_work.h"
#include "levels/line/run.h"
#include "levels/storage/home.h"

namespace tmh::bench {
namespace {

void expect_ok(Errc error, const char *what) {
  if (error != Errc::kOk) throw Error(error, what);
}

class SoftwareMemory {
 public:
  template <class T>
  using Field = tmh::field<T>;

  SoftwareMemory(const std::string &folder, bool queries) : queries_(queries) {
    expect_ok(home_.open(folder + "/data", 0, kLineMemoryBytes, kLineMemoryBytes, true), "home");
    bool found = false;
    expect_ok(lines_.open(folder, &found), "line memory");
    expect_ok(lines_.add_segment({0, home_.base(), kLineMemoryBytes, kLineMemoryBytes, &home_}), "segment");
  }

  class Session : public LineOperations<Session> {
   public:
    Session(line::LineMemory &lines, line::Upper &above, bool queries)
        : thread_(std::make_unique<line::SoftwareThread>(lines, above)), queries_(queries) {
      expect_ok(thread_->attach(0, 1), "context");
    }
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
  [[nodiscard]] Session session() { return {lines_, above_, queries_}; }
  [[nodiscard]] std::byte *memory(std::size_t) const { return home_.base(); }

 private:
  bool queries_;
  storage::Home home_;
  line::LineMemory lines_;
  line::NobodyAbove above_;
};

class Software final : public LineContestant {
 public:
  Software(const std::string &folder, bool queries) : queries_(queries), memory_(folder, queries) {}
  [[nodiscard]] const char *name() const override { return queries_ ? "software" : "software-updates"; }
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
