// bindings/python/src/transaction_object.h -- what Python code holds of an instance: a decorated
// function, the attempts of a `for` loop, a query's `with` block.
// Sharing:   the GIL's; an AttemptLoop and a QueryBlock are one thread's.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bindings/python/src/instance.h"
#include "bindings/python/src/python.h"
#include "platform/assert.h"

namespace tmh::python {

// @domain.atomically, and domain.query(function): a callable, which as a member of a class is a
// method.
class Transaction {
 public:
  Transaction(nb::object core, nb::object body, Kind kind, Durability durability,
              std::shared_ptr<SiteOf> site);
  // Warns where the program lets it go without a call: domain.atomically(move), say.
  ~Transaction();
  Transaction(const Transaction &) = delete;
  Transaction &operator=(const Transaction &) = delete;
  [[nodiscard]] PyObject *call(PyObject *args, PyObject *kwargs) noexcept;
  // From here on. frame: of the code that has asked for it.
  void watch(PyObject *frame, std::string name);
  // It lives in a class, or has been called.
  void is_used() noexcept { made_.reset(); }

  nb::object core, body;

 private:
  // Where it was made, and as what.
  struct Made {
    std::string name, file, module;
    int line;
    // Of a module or a class, which keep what they define: then only a drop in that very line
    // counts. Else null.
    nb::object code;
    std::uint32_t forks;
  };
  void warn() const noexcept;

  Kind kind_;
  Durability durability_;
  std::shared_ptr<SiteOf> site_;
  // Null: nothing to warn of.
  std::unique_ptr<Made> made_;
};

// Python calls it before each os.fork(): a child may call what its parent does not.
void note_fork() noexcept;

// One instance of `for attempt in domain.attempts(): with attempt: ...`, which its loop and its
// attempts share.
class LoopedInstance {
 public:
  LoopedInstance(nb::object core, Durability durability, std::shared_ptr<SiteOf> site);
  ~LoopedInstance();
  LoopedInstance(const LoopedInstance &) = delete;
  LoopedInstance &operator=(const LoopedInstance &) = delete;

  // False: it has committed, and the loop ends.
  [[nodiscard]] bool next();
  // The loop is gone.
  void left();
  void enter();
  // Returns whether the exception is one that the loop handles.
  [[nodiscard]] bool leave(PyObject *type, PyObject *value, PyObject *traceback);

 private:
  [[nodiscard]] DomainCore &domain_core() const noexcept {
    return *nb::inst_ptr<DomainCore>(core_);
  }

  nb::object core_;
  std::shared_ptr<SiteOf> site_;
  Durability durability_;
  std::unique_ptr<BodyAttempts> attempts_;
  Inside inside_;
  // The thread of the last attempt.
  unsigned long thread_ = 0;
  bool has_loop_ = true, is_handed_out_ = false, is_open_ = false, is_subsumed_ = false,
       is_done_ = false;
  // The attempt did not commit, and the next one has not begun.
  bool must_go_on_ = false;
};

// The loop. No variable of the program holds it, so it goes at once when the loop is left.
class AttemptLoop {
 public:
  explicit AttemptLoop(std::shared_ptr<LoopedInstance> made) : instance(std::move(made)) {
    TMH_ASSERT(instance != nullptr);
  }
  ~AttemptLoop() { instance->left(); }
  AttemptLoop(const AttemptLoop &) = delete;
  AttemptLoop &operator=(const AttemptLoop &) = delete;

  const std::shared_ptr<LoopedInstance> instance;
};

// What the loop gives: `with attempt:`.
struct Attempt {
  std::shared_ptr<LoopedInstance> instance;
};

class QueryBlock {
 public:
  // moment: unset: the present.
  QueryBlock(nb::object core, std::optional<PastMoment> moment)
      : core_(std::move(core)), moment_(std::move(moment)) {}
  ~QueryBlock();
  QueryBlock(const QueryBlock &) = delete;
  QueryBlock &operator=(const QueryBlock &) = delete;
  void enter();
  void leave(bool has_returned);

 private:
  nb::object core_;
  std::optional<PastMoment> moment_;
  std::optional<QueryScope> scope_;
};

}  // namespace tmh::python
