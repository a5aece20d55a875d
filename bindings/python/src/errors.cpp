#include "bindings/python/src/errors.h"

#include <exception>
#include <new>

#include <tmh/detail/line_access.hpp>
#include <tmh/domain.hpp>

#include "bindings/python/src/instance.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {
// Never given back: the interpreter's end may still raise.
PyObject *errors_module = nullptr, *abort_type = nullptr, *uncommitted_type = nullptr,
         *make_error = nullptr;
}  // namespace

void load_errors() {
  nb::object module = nb::module_::import_("tmh._errors");
  abort_type = module.attr("Abort").inc_ref().ptr();
  uncommitted_type = module.attr("UncommittedError").inc_ref().ptr();
  make_error = module.attr("make").inc_ref().ptr();
  errors_module = module.release().ptr();
}

PyObject *abort_class() noexcept {
  TMH_ASSERT(abort_type != nullptr);  // load_errors() was called, here as below
  return abort_type;
}

PyObject *uncommitted_class() noexcept { return uncommitted_type; }

void set_error(Errc code, const std::string &message) noexcept {
  TMH_ASSERT(make_error != nullptr && code != Errc::kOk);
  const Owned error(
      PyObject_CallFunction(make_error, "is", static_cast<int>(code), message.c_str()));
  if (error) PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.get())), error.get());
}

void set_error(const char *class_name, const std::string &message) noexcept {
  TMH_ASSERT(errors_module != nullptr && class_name != nullptr);
  const Owned type(PyObject_GetAttrString(errors_module, class_name));
  if (type) PyErr_SetString(type.get(), message.c_str());
}

void raise(Errc code, const std::string &message) {
  set_error(code, message);
  throw ErrorIsSet{};
}

void raise(const char *class_name, const std::string &message) {
  set_error(class_name, message);
  throw ErrorIsSet{};
}

void raise(PyObject *type, const std::string &message) {
  TMH_ASSERT(type != nullptr);
  PyErr_SetString(type, message.c_str());
  throw ErrorIsSet{};
}

void set_error_from_thrown() noexcept {
  try {
    throw;
  } catch (const ErrorIsSet &) {
  } catch (const detail::LineAbort &) {
    running().ended_by_level(Pending::kLineAbort);
    PyErr_SetNone(abort_type);
  } catch (const detail::RetryNow &why) {
    running().why = why;
    running().ended_by_level(Pending::kRetryNow);
    PyErr_SetNone(abort_type);
  } catch (const Error &error) {
    set_error(error.errc(), error.what());
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace tmh::python
