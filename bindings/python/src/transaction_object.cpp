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
  return run_body(core_of(core), site_, kind_, durability_, body.ptr(), args, kwargs);
}

AttemptLoop::AttemptLoop(nb::object core, Durability durability, std::shared_ptr<SiteOf> site)
    : core_(std::move(core)), site_(std::move(site)), durability_(durability) {}

AttemptLoop::~AttemptLoop() {
  if (is_open_) {
    // Dropped inside its block. Elsewhere nothing is known of its thread, which may run it still.
    if (inside_.is_here() && is_subsumed_) --running().depth;
    if (inside_.is_here() && !is_subsumed_) {
      SavedError other;
      PyErr_SetNone(PyExc_GeneratorExit);
      (void)attempts_->end(false);
      PyErr_Clear();
    } else {
      (void)attempts_.release();
    }
    return;
  }
  if (!must_go_on_) return;
  // `return` and `break` give the loop no way to raise, so the thread gets the exception behind
  // them.
  const SavedError other;
  const nb::object errors = nb::module_::import_("tmh._errors");
  const Owned type(PyObject_GetAttrString(errors.ptr(), "UncommittedError"));
  if (type)
    PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type.get());
  else
    PyErr_Clear();
}

bool AttemptLoop::next() {
  if (is_open_) raise(Errc::kNestedMisuse, "the attempt before is still running");
  must_go_on_ = false;
  return !is_done_;
}

void AttemptLoop::enter() {
  if (is_open_ || is_done_)
    raise(Errc::kNestedMisuse,
          "an attempt is entered once: for attempt in domain.attempts(): with attempt: ...");
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
  is_open_ = true;
}

bool AttemptLoop::leave(PyObject *type, PyObject *value, PyObject *traceback) {
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
      return true;
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
  scope_.emplace(core_of(core_));
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
