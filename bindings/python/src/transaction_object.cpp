#include "bindings/python/src/transaction_object.h"

#include <nanobind/stl/string.h>

#include <utility>

#include "bindings/python/src/errors.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {
DomainCore &core_of(const nb::object &core) noexcept {
  TMH_ASSERT(core.is_valid());
  return *nb::inst_ptr<DomainCore>(core);
}

// That this process and its parents have made.
std::uint32_t forks_made = 0;

bool is_interpreter_ending() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

Owned code_of(PyObject *frame) noexcept {
  TMH_ASSERT(frame != nullptr && PyFrame_Check(frame));
  return Owned(
      reinterpret_cast<PyObject *>(PyFrame_GetCode(reinterpret_cast<PyFrameObject *>(frame))));
}
int line_of(PyObject *frame) noexcept {
  TMH_ASSERT(frame != nullptr && PyFrame_Check(frame));
  return PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject *>(frame));
}
}  // namespace

void note_fork() noexcept { ++forks_made; }

Transaction::Transaction(nb::object core, nb::object body, Kind kind, Durability durability,
                         std::shared_ptr<SiteOf> site)
    : core(std::move(core)),
      body(std::move(body)),
      kind_(kind),
      durability_(durability),
      site_(std::move(site)) {
  TMH_ASSERT(site_ != nullptr && PyCallable_Check(this->body.ptr()) != 0);
}

Transaction::~Transaction() {
  if (made_ == nullptr || made_->forks != forks_made || is_interpreter_ending()) return;
  const SavedError other;
  if (made_->code.is_valid()) {
    PyObject *const frame = reinterpret_cast<PyObject *>(PyEval_GetFrame());
    if (frame == nullptr || code_of(frame).get() != made_->code.ptr() ||
        line_of(frame) != made_->line)
      return;
  }
  warn();
}

void Transaction::warn() const noexcept {
  TMH_ASSERT(made_ != nullptr);
  const Owned message(PyUnicode_FromFormat(
      "transaction '%s' was never called: domain.atomically(function) and domain.query(function) "
      "make functions; call what they return, or domain.run(function, ...)",
      made_->name.c_str()));
  const Owned file(PyUnicode_FromString(made_->file.c_str()));
  const Owned module(PyUnicode_FromString(made_->module.c_str()));
  if (!message || !file || !module) return PyErr_Clear();
  if (PyErr_WarnExplicitObject(PyExc_RuntimeWarning, message.get(), file.get(), made_->line,
                               module.get(), nullptr) != 0)
    PyErr_WriteUnraisable(message.get());
}

void Transaction::watch(PyObject *frame, std::string name) {
  if (!PyFrame_Check(frame)) raise(PyExc_TypeError, "not a frame");
  Owned code = code_of(frame);
  const nb::object globals = nb::handle(frame).attr("f_globals");
  auto made = std::make_unique<Made>();
  made->name = std::move(name);
  made->file = nb::cast<std::string>(nb::handle(code.get()).attr("co_filename"));
  made->line = line_of(frame);
  PyObject *const module = PyDict_GetItemString(globals.ptr(), "__name__");  // borrowed
  if (module != nullptr && PyUnicode_Check(module))
    made->module = nb::cast<std::string>(nb::handle(module));
  constexpr int kOptimized = 1;  // inspect.CO_OPTIMIZED: the code of a function
  if ((nb::cast<int>(nb::handle(code.get()).attr("co_flags")) & kOptimized) == 0)
    made->code = nb::steal(code.release());
  made->forks = forks_made;
  made_ = std::move(made);
}

PyObject *Transaction::call(PyObject *args, PyObject *kwargs) noexcept {
  if (!core.is_valid()) {
    PyErr_SetString(PyExc_ReferenceError, "the transaction is being collected");
    return nullptr;
  }
  is_used();
  return run_body(core_of(core), *site_, kind_, durability_, body.ptr(), args, kwargs);
}

LoopedInstance::LoopedInstance(nb::object core, Durability durability, std::shared_ptr<SiteOf> site)
    : core_(std::move(core)), site_(std::move(site)), durability_(durability) {
  TMH_ASSERT(core_.is_valid() && site_ != nullptr);
}

// Inside its block, if it is open. Elsewhere nothing is known of its thread: it may run it still.
LoopedInstance::~LoopedInstance() {
  if (!is_open_) return;
  if (!inside_.is_here()) {
    (void)attempts_.release();
    (void)core_.release();
  } else if (is_subsumed_) {
    TMH_ASSERT(running().depth > 0);
    --running().depth;
  } else {
    TMH_ASSERT(attempts_ != nullptr);
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
  TMH_ASSERT(is_subsumed_ || attempts_ != nullptr);
  if (is_subsumed_) {
    TMH_ASSERT(running().depth > 0);
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
