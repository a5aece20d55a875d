#include "bindings/python/src/transaction_object.h"

#include <utility>

#include "bindings/python/src/errors.h"

namespace tmh::python {

namespace {
DomainCore &core_of(const nb::object &core) noexcept { return *nb::inst_ptr<DomainCore>(core); }
}  // namespace

Transaction::Transaction(nb::object core, nb::object body, Kind kind, Durability durability,
                         const std::string &site)
    : core(std::move(core)),
      body(std::move(body)),
      kind_(kind),
      durability_(durability),
      site_(site) {}

PyObject *Transaction::call(PyObject *args, PyObject *kwargs) noexcept {
  if (!core.is_valid()) {
    PyErr_SetString(PyExc_ReferenceError, "the transaction is being collected");
    return nullptr;
  }
  return run_body(core_of(core), site_, kind_, durability_, body.ptr(), args, kwargs);
}

LoopedInstance::LoopedInstance(nb::object core, Durability durability, std::shared_ptr<SiteOf> site)
    : core_(std::move(core)), site_(std::move(site)), durability_(durability) {}

// Inside its block, if it is open. Elsewhere nothing is known of its thread: it may run it still.
LoopedInstance::~LoopedInstance() {
  if (!is_open_) return;
  if (!inside_.is_here()) {
    (void)attempts_.release();
    (void)core_.release();
  } else if (is_subsumed_) {
    --running().depth;
  } else {
    const SavedError other;
    PyErr_SetNone(PyExc_GeneratorExit);
    (void)attempts_->end(false);
    PyErr_Clear();
  }
}

// `return` and `break` give the loop no way to raise, so the thread gets the exception behind them.
// Not where another exception leaves the loop: that says why.
void LoopedInstance::left() {
  has_loop_ = false;
  const bool is_by_exception = PyErr_Occurred() != nullptr;
  if (!must_go_on_ || is_by_exception || thread_ != PyThread_get_thread_ident()) return;
  if (PyObject *const type = uncommitted_class(); type != nullptr)
    PyThreadState_SetAsyncExc(thread_, type);
}

bool LoopedInstance::next() {
  if (is_open_) raise(Errc::kNestedMisuse, "the attempt before is still running");
  if (is_handed_out_)
    raise(
        Errc::kNestedMisuse,
        "the attempt before was not entered: for attempt in domain.attempts(): with attempt: ...");
  must_go_on_ = false;
  is_handed_out_ = !is_done_;
  return is_handed_out_;
}

void LoopedInstance::enter() {
  if (is_open_ || is_done_)
    raise(Errc::kNestedMisuse,
          "an attempt is entered once: for attempt in domain.attempts(): with attempt: ...");
  is_handed_out_ = false;
  if (running().core != nullptr && !attempts_) {
    require_nestable(domain_core(), Kind::kUpdate);
    ++running().depth;
    inside_ = Inside::here();
    is_subsumed_ = is_open_ = true;
    return;
  }
  if (!attempts_) {
    attempts_ = std::make_unique<BodyAttempts>(domain_core(), site_->get(domain_core()),
                                               Kind::kUpdate, durability_);
  } else if (PyErr_CheckSignals() != 0) {
    throw ErrorIsSet{};
  }
  attempts_->begin();
  inside_ = Inside::here();
  thread_ = PyThread_get_thread_ident();
  is_open_ = true;
}

bool LoopedInstance::leave(PyObject *type, PyObject *value, PyObject *traceback) {
  if (!is_open_) raise(Errc::kEndWithoutBegin, "the attempt is not running");
  inside_.require_here("an attempt's block");
  is_open_ = false;
  const bool has_returned = type == Py_None;
  if (is_subsumed_) {
    --running().depth;
    is_done_ = true;
    return false;
  }
  if (!has_returned) PyErr_Restore(Py_NewRef(type), Py_NewRef(value), Py_NewRef(traceback));
  switch (attempts_->end(has_returned)) {
    case BodyAttempts::Outcome::kCommitted:
      is_done_ = true;
      return false;
    case BodyAttempts::Outcome::kAgain:
      must_go_on_ = true;
      if (has_loop_) return true;
      raise("UncommittedError", "the attempt did not commit, and no loop tries again");
    case BodyAttempts::Outcome::kRaised:
      break;
  }
  is_done_ = true;
  // The interpreter goes on with its own exception; another one is raised here.
  PyObject *new_type = nullptr, *new_value = nullptr, *new_traceback = nullptr;
  PyErr_Fetch(&new_type, &new_value, &new_traceback);
  const bool is_the_same = new_value == value;
  if (!is_the_same) {
    PyErr_Restore(new_type, new_value, new_traceback);
    throw ErrorIsSet{};
  }
  Py_XDECREF(new_type);
  Py_XDECREF(new_value);
  Py_XDECREF(new_traceback);
  return false;
}

QueryBlock::~QueryBlock() {
  if (!scope_ || !scope_->is_here()) return;
  const SavedError other;
  if (!guarded<bool>(false, [&] {
        scope_->leave(false);
        return true;
      }))
    PyErr_Clear();
}

void QueryBlock::enter() {
  if (scope_) raise(Errc::kNestedMisuse, "a query's block is entered once");
  scope_.emplace(core_of(core_), moment_ ? &*moment_ : nullptr);
  try {
    scope_->enter();
  } catch (...) {
    scope_.reset();
    throw;
  }
}

void QueryBlock::leave(bool has_returned) {
  if (!scope_) raise(Errc::kEndWithoutBegin, "the query is not running");
  QueryScope scope = *scope_;
  scope_.reset();
  scope.leave(has_returned);
}

}  // namespace tmh::python
