// bindings/python/src/instance.h -- instances whose bodies are Python code.
// Shape:     a body is an instrumented one of a site: what the package's own types do goes through
//            tmh::field, so it may run at level 1. Code that needs plain memory (numpy's) asks for
//            it by need_plain(), which sends the instance to level 2 once.
//            Running says what this thread runs; BodyAttempts is its outermost instance.
// Ends:      an attempt that a level ends in the middle of its body raises tmh.Abort in Python, and
//            stays noted here. So a body that swallows the exception does not commit either.
// The GIL:   is let go where another thread of this process may be waited for, and while a commit
//            waits for the disk. A thread that holds a lock of the library needs no GIL to go on.
// Fork:      the child's Running is empty. An instance of the parent's that the child's code leaves
//            ends with ClosedError there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tmh/detail/attempts.hpp>
#include <tmh/past.hpp>
#include <tmh/site.hpp>

#include "bindings/python/src/domain_core.h"
#include "bindings/python/src/python.h"
#include "bindings/python/src/raw_views.h"

namespace tmh::python {

// What has ended the running attempt in the middle of its body.
enum class Pending : std::uint8_t { kNone, kLineAbort, kRetryNow };

// Of this thread.
struct Running {
  // Null: no instance.
  DomainCore *core = nullptr;
  bool is_query = false;
  // A `with domain.query()`, which cannot run again.
  bool is_block = false;
  // Any code may load and store: level 2, in the process's view.
  bool is_plain = false;
  Pending pending = Pending::kNone;
  detail::RetryNow why;
  // Instances inside it.
  std::uint32_t depth = 0;
  // Another one for each attempt.
  std::uint64_t serial = 0;
  // Raw arrays that the body got.
  std::vector<Lent> lent;
  // Owned.
  std::vector<PyObject *> on_commit;
  // In a child that was forked in a body: the domain of that. For messages.
  const DomainCore *forked_in = nullptr;

  Running() = default;
  // The thread ends, perhaps inside.
  ~Running();
  Running(const Running &) = delete;
  Running &operator=(const Running &) = delete;
  // A forked child has none.
  void forget() noexcept;

  void ended_by_level(Pending how) noexcept {
    if (core != nullptr && pending == Pending::kNone) pending = how;
  }
};
[[nodiscard]] Running &running() noexcept;

// Which instance of which thread a block was entered in. It has to be left there.
class Inside {
 public:
  Inside() = default;
  // That of this thread now.
  [[nodiscard]] static Inside here() noexcept;
  [[nodiscard]] bool is_here() const noexcept;
  // Throws NestingError where it is not.
  void require_here(const char *block) const;

 private:
  std::uint64_t serial_ = 0;
  std::uint32_t forks_ = 0;
};

// REQUIRES an instance of the domain in this thread, else throws OutsideError: `what` needs one.
void require_inside(const DomainCore &core, const char *what);
[[noreturn]] void raise_outside(const DomainCore &core, const char *what);
// As require_inside(), and no query.
void require_update(const DomainCore &core, const char *what);
// REQUIRES an instance. Throws detail::LineAbort where the attempt has to begin again for it.
void need_plain();

using Kind = detail::Attempts::Kind;

// The attempts of one outermost instance.
class BodyAttempts {
 public:
  enum class Outcome : std::uint8_t {
    kCommitted,
    // The next attempt is due.
    kAgain,
    // A Python error is set, and the instance is undone.
    kRaised,
  };
  BodyAttempts(DomainCore &core, const Site &site, Kind kind, Durability durability) noexcept
      : core_(core),
        kind_(kind),
        durability_(durability),
        attempts_(site, kind, detail::BodyKind::kInstrumented, durability) {}

  // Throws what Domain::begin() throws.
  void begin();
  // has_returned: the body has; else it has left by the Python error that is set. result: what it
  // has returned, if the caller holds that; dropped where it does not commit for its own fault.
  [[nodiscard]] Outcome end(bool has_returned, Owned *result = nullptr) noexcept;

 private:
  [[nodiscard]] bool lets_others_run_at_end() const noexcept {
    return has_other_threads() || core_.waits_for_disk(durability_);
  }
  void leave() noexcept;
  [[nodiscard]] Outcome end_undone();

  DomainCore &core_;
  const Kind kind_;
  const Durability durability_;
  bool is_first_ = true;
  std::uint32_t forks_ = 0;
  detail::Attempts attempts_;
};

// Calls body with args and kwargs (may be null) as an instance until it commits, and returns what
// it returns. Null: a Python error is set.
[[nodiscard]] PyObject *run_body(DomainCore &core, SiteOf &site, Kind kind, Durability durability,
                                 PyObject *body, PyObject *args, PyObject *kwargs) noexcept;

// The same for a subsumed one. REQUIRES an instance in this thread; throws NestingError where it
// cannot be subsumed.
void require_nestable(const DomainCore &core, Kind kind);

// Runs a body of the extension's own, which calls no Python, in the running instance or in one of
// its own.
template <class Body>
auto run_own(DomainCore &core, SiteOf &site, Kind kind, Body &&body) {
  if (running().core != nullptr) {
    require_nestable(core, kind);
    return body();
  }
  const Site &own = site.get(core);
  const auto instrumented = [&](Fields) { return body(); };
  const Unlocked others(has_other_threads() || (kind == Kind::kUpdate && core.waits_for_disk({})));
  return kind == Kind::kQuery ? query(own, instrumented) : atomically(own, instrumented);
}

// A Moment that owns its name.
struct PastMoment {
  Moment::Kind kind = Moment::Kind::kClock;
  std::uint64_t number = 0;
  std::string name;
  [[nodiscard]] Moment value() const noexcept;
};

// `with domain.query()`: one snapshot at level 2, which never aborts; `with domain.query_at()`: one
// of the past.
class QueryScope {
 public:
  // moment: null: the present. Outlives enter().
  explicit QueryScope(DomainCore &core, const PastMoment *moment = nullptr) noexcept
      : core_(core), moment_(moment) {}
  void enter();
  // has_returned: as BodyAttempts::end().
  void leave(bool has_returned);
  [[nodiscard]] bool is_here() const noexcept { return inside_.is_here(); }

 private:
  DomainCore &core_;
  const PastMoment *moment_;
  bool is_subsumed_ = false;
  Inside inside_;
};

}  // namespace tmh::python
