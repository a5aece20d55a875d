#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <string>

#include <tmh/transaction.hpp>

#include "bindings/python/src/errors.h"
#include "bindings/python/src/module.h"
#include "bindings/python/src/transaction_object.h"

namespace tmh::python {

namespace {

Durability durability_of(const std::string &spec) {
  Durability durability{};
  if (!spec.empty() && parse(std::string_view(spec), &durability) != Errc::kOk)
    raise(PyExc_ValueError, "durability='" + spec + "': one of " + durability_values());
  return durability;
}

[[noreturn]] void raise_no_domain() {
  raise(PyExc_TypeError,
        "not a domain: domain.atomically(), domain.attempts() and domain.query() make instances");
}

PyObject *call_transaction(PyObject *self, PyObject *args, PyObject *kwargs) {
  return guarded<PyObject *>(nullptr, [&] { return made<Transaction>(self).call(args, kwargs); });
}
// As a function's: found in a class it is a method.
PyObject *bind_method(PyObject *self, PyObject *object, PyObject *) {
  if (nb::inst_ready(self)) nb::inst_ptr<Transaction>(self)->is_used();
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}
int traverse_transaction(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (PyObject **const attributes = _PyObject_GetDictPtr(self); attributes != nullptr)
    Py_VISIT(*attributes);
  if (!nb::inst_ready(self)) return 0;
  const auto *transaction = nb::inst_ptr<Transaction>(self);
  Py_VISIT(transaction->core.ptr());
  Py_VISIT(transaction->body.ptr());
  return 0;
}
int clear_transaction(PyObject *self) {
  if (PyObject **const attributes = _PyObject_GetDictPtr(self); attributes != nullptr)
    Py_CLEAR(*attributes);
  if (!nb::inst_ready(self)) return 0;
  auto *transaction = nb::inst_ptr<Transaction>(self);
  transaction->core.reset();
  transaction->body.reset();
  return 0;
}
PyType_Slot transaction_slots[] = {
    {Py_tp_call, reinterpret_cast<void *>(&call_transaction)},
    {Py_tp_descr_get, reinterpret_cast<void *>(&bind_method)},
    {Py_tp_traverse, reinterpret_cast<void *>(&traverse_transaction)},
    {Py_tp_clear, reinterpret_cast<void *>(&clear_transaction)},
    {0, nullptr}};

// A sleep is cut short so often, for signals of Python; the body then runs again.
constexpr std::chrono::milliseconds kSleepMax{250};

// until_s: of time.monotonic(); below 0: none.
void retry_in_body(double until_s) {
  Running &here = running();
  if (here.core == nullptr) raise(Errc::kEndWithoutBegin, "retry() outside of an instance");
  if (here.pending != Pending::kNone) throw detail::LineAbort{};
  if (here.is_block)
    raise(Errc::kNestedMisuse,
          "retry() in a `with domain.query():` block, which cannot run again: use @domain.query");
  const auto now = std::chrono::steady_clock::now();
  const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
  const double sleep_s = std::chrono::duration<double>(kSleepMax).count();
  const double left_s = until_s < 0 ? sleep_s : std::clamp(until_s - now_s, 0.0, sleep_s);
  const auto deadline = now + std::chrono::nanoseconds(static_cast<std::int64_t>(left_s * 1e9));
  retry_until(deadline);
}

void irrevocable_in_body() {
  Running &here = running();
  if (here.core == nullptr) raise(Errc::kEndWithoutBegin, "irrevocable() outside of an instance");
  require_update(*here.core, "irrevocable()");
  if (here.pending != Pending::kNone) throw detail::LineAbort{};
  need_plain();
  const Unlocked others(true);
  become_irrevocable();
}

void on_commit_in_body(nb::handle action) {
  Running &here = running();
  if (here.core == nullptr) raise(Errc::kEndWithoutBegin, "on_commit() outside of an instance");
  if (PyCallable_Check(action.ptr()) == 0) raise(PyExc_TypeError, "on_commit() takes a callable");
  here.on_commit.push_back(action.inc_ref().ptr());
}

}  // namespace

void bind_instances(nb::module_ &module) {
  nb::class_<SiteOf>(module, "Site").def(nb::init<std::string>());
  nb::class_<Transaction> transaction(module, "Transaction", nb::dynamic_attr(),
                                      nb::type_slots(transaction_slots));
  transaction
      .def("__init__",
           [](Transaction *self, nb::object core, nb::object body, bool is_query,
              const std::string &durability, std::shared_ptr<SiteOf> site) {
             if (!nb::isinstance<DomainCore>(core)) raise_no_domain();
             if (PyCallable_Check(body.ptr()) == 0)
               raise(PyExc_TypeError, "the body of a transaction is a function");
             new (self) Transaction(std::move(core), std::move(body),
                                    is_query ? Kind::kQuery : Kind::kUpdate,
                                    durability_of(durability), std::move(site));
           })
      .def("_watch", [](Transaction &self, nb::handle frame,
                        const std::string &name) { self.watch(frame.ptr(), name); })
      // By its name, as a function, so that a reader of the message may call it.
      .def("__reduce__", [](nb::handle self) {
        made<Transaction>(self.ptr()).is_used();
        return self.attr("__qualname__");
      });
  nb::class_<AttemptLoop> loop(module, "AttemptLoop");
  loop.def("__init__",
           [](AttemptLoop *self, nb::object core, const std::string &durability,
              std::shared_ptr<SiteOf> site) {
             if (!nb::isinstance<DomainCore>(core)) raise_no_domain();
             new (self) AttemptLoop(std::make_shared<LoopedInstance>(
                 std::move(core), durability_of(durability), std::move(site)));
           })
      .def("__iter__", [](nb::object self) { return self; })
      .def("__next__", [](AttemptLoop &self) {
        if (!self.instance->next()) throw nb::stop_iteration();
        return Attempt{self.instance};
      });
  otherwise(loop, "__init__", "Attempts: domain.attempts() makes them; the class");
  otherwise(loop, "__iter__", "()");
  otherwise(loop, "__next__", "()");
  nb::class_<Attempt> attempt(module, "Attempt");
  attempt.def("__enter__", [](Attempt &self) { self.instance->enter(); })
      .def(
          "__exit__",
          [](Attempt &self, nb::handle type, nb::handle value, nb::handle traceback) {
            return self.instance->leave(type.ptr(), value.ptr(), traceback.ptr());
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
  otherwise(attempt, "__enter__", "()");
  otherwise(attempt, "__exit__", "(type, value, traceback)");
  nb::class_<QueryBlock> block(module, "QueryBlock");
  block
      .def("__init__",
           [](QueryBlock *self, nb::object core) {
             if (!nb::isinstance<DomainCore>(core)) raise_no_domain();
             new (self) QueryBlock(std::move(core), {});
           })
      .def("__init__",
           [](QueryBlock *self, nb::object core, const std::string &kind, std::uint64_t number,
              const std::string &name) {
             if (!nb::isinstance<DomainCore>(core)) raise_no_domain();
             PastMoment moment{Moment::Kind::kClock, number, name};
             if (kind == "name") moment.kind = Moment::Kind::kName;
             if (kind == "time") moment.kind = Moment::Kind::kTime;
             new (self) QueryBlock(std::move(core), std::move(moment));
           })
      .def("__enter__", [](QueryBlock &self) { self.enter(); })
      .def(
          "__exit__",
          [](QueryBlock &self, nb::handle type, nb::handle, nb::handle) {
            self.leave(type.is_none());
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
  otherwise(block, "__init__", "Query: domain.query() makes it; the class");
  otherwise(block, "__enter__", "()");
  otherwise(block, "__exit__", "(type, value, traceback)");
  module.def("before_fork", &note_fork, "Python calls it before each os.fork().");
  module.def("retry", &retry_in_body);
  module.def("irrevocable", &irrevocable_in_body);
  module.def("on_commit", &on_commit_in_body, nb::arg().none());
  module.def("in_instance", [](const DomainCore &core) { return running().core == &core; });
}

}  // namespace tmh::python
