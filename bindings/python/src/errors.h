// bindings/python/src/errors.h -- what is thrown in C++ as Python's exceptions.
// Shape:     the classes are tmh._errors'. An attempt that ends in the middle of its body is
//            tmh.Abort in Python; instance.h keeps what ended it.
#pragma once

#include <string>

#include <tmh/error.hpp>

#include "bindings/python/src/python.h"

namespace tmh::python {

// Looks up tmh._errors. Throws nb::python_error.
void load_errors();
// tmh.Abort. Borrowed.
[[nodiscard]] PyObject *abort_class() noexcept;
// tmh.UncommittedError. Borrowed.
[[nodiscard]] PyObject *uncommitted_class() noexcept;
// Sets the exception of `code`, or of the class of this name in tmh._errors.
void set_error(Errc code, const std::string &message) noexcept;
void set_error(const char *class_name, const std::string &message) noexcept;
[[noreturn]] void raise(Errc code, const std::string &message);
[[noreturn]] void raise(const char *class_name, const std::string &message);
// Of a Python class.
[[noreturn]] void raise(PyObject *type, const std::string &message);
// In a catch (...): the Python error for what is thrown. An end of the attempt stays with the
// running instance.
void set_error_from_thrown() noexcept;

// Calls body(); `failed` and a Python error where it throws.
template <class Result, class Body>
[[nodiscard]] Result guarded(Result failed, Body &&body) noexcept {
  try {
    return staying(body);
  } catch (...) {
    set_error_from_thrown();
    return failed;
  }
}

}  // namespace tmh::python
