// bindings/python/src/module.h -- the parts of the extension; each binds its classes.
#pragma once

#include <string>
#include <type_traits>

#include "bindings/python/src/errors.h"
#include "bindings/python/src/python.h"
#include "platform/assert.h"

namespace tmh::python {

// Throws TypeError: these arguments are none of `call`, "get(key, default=None)" say.
[[noreturn]] inline void raise_misfit(const std::string &call, nb::handle args, nb::handle kwargs) {
  std::string got;
  const auto add = [&](const std::string &one) { got += (got.empty() ? "" : ", ") + one; };
  const auto type_of = [](nb::handle one) { return std::string(Py_TYPE(one.ptr())->tp_name); };
  for (const nb::handle each : nb::borrow<nb::tuple>(args)) add(type_of(each));
  for (const auto &[name, each] : nb::borrow<nb::dict>(kwargs))
    add(std::string(nb::str(name).c_str()) + "=" + type_of(each));
  raise(PyExc_TypeError, call + " does not take (" + got + ")");
}

// Binds last what a call gets whose arguments fit no overload: our words, instead of the binding
// library's. parameters: "(key, default=None)".
template <class Bound>
void otherwise(Bound &to, const char *name, const char *parameters) {
  TMH_ASSERT(name != nullptr && parameters != nullptr);
  const std::string call = std::string(name) + parameters;
  if constexpr (std::is_base_of_v<nb::module_, Bound>) {
    to.def(name, [call](const nb::args &args, const nb::kwargs &kwargs) -> nb::object {
      raise_misfit(call, args, kwargs);
    });
  } else if (call.starts_with("__init__")) {
    using Made = typename Bound::Type;
    to.def(name, [call = std::string(parameters)](Made *, const nb::args &args,
                                                  const nb::kwargs &kwargs) {
      raise_misfit(call, args, kwargs);
    });
  } else {
    to.def(name, [call](nb::handle, const nb::args &args, const nb::kwargs &kwargs) -> nb::object {
      raise_misfit(call, args, kwargs);
    });
  }
}

// Domain: opening, segments, durability, counters.
void bind_domain(nanobind::module_ &module);
// Transaction, AttemptLoop, QueryBlock; retry(), on_commit(), irrevocable().
void bind_instances(nanobind::module_ &module);
// Array.
void bind_arrays(nanobind::module_ &module);
// Map.
void bind_maps(nanobind::module_ &module);

}  // namespace tmh::python
