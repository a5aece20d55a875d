// bindings/python/src/python.h -- Python's and numpy's C interfaces, and what every file of the
// extension uses of them.
// Contexts:  everything here is called with the GIL.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <type_traits>
#include <utility>

#define PY_ARRAY_UNIQUE_SYMBOL tmh_numpy
#ifndef TMH_NUMPY_HERE
#define NO_IMPORT_ARRAY
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <numpy/arrayobject.h>

#include "platform/assert.h"
#pragma GCC diagnostic pop

namespace tmh::python {

namespace nb = nanobind;

[[nodiscard]] inline PyArrayObject *as_array(PyObject *object) noexcept {
  TMH_ASSERT(object == nullptr || PyArray_Check(object));
  return reinterpret_cast<PyArrayObject *>(object);
}

// A Python error is set. Thrown where C++ has to be left; errors.h makes it a null pointer again.
struct ErrorIsSet {};

// A reference that is owned; null is allowed.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject *object) noexcept : object_(object) {}
  Owned(Owned &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  [[nodiscard]] static Owned share(PyObject *object) noexcept { return Owned(Py_XNewRef(object)); }
  // Throws ErrorIsSet where `object` is null.
  [[nodiscard]] static Owned checked(PyObject *object) {
    if (object == nullptr) throw ErrorIsSet{};
    return Owned(object);
  }
  [[nodiscard]] PyObject *get() const noexcept { return object_; }
  [[nodiscard]] PyObject *release() noexcept { return std::exchange(object_, nullptr); }
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject *object_ = nullptr;
};

static_assert(std::is_nothrow_move_constructible_v<Owned> && !std::is_copy_constructible_v<Owned>,
              "a reference has one owner");

// What a thread does that Python ends: when the interpreter has begun to end, each thread but one
// that takes the GIL is ended by pthread_exit(). That would unwind frames of this extension and of
// the library, which may not be left so. The thread stays instead, until the process is gone.
// The handler binds a reference to nothing (tmh/detail/forced_unwinding.hpp).
template <class Call>
__attribute__((no_sanitize("undefined"))) auto staying(Call &&call) {
  try {
    return call();
  } catch (abi::__forced_unwind &) {
    for (;;) pause();
  }
}

// Lets other threads of Python run while this object lives, if it is told to.
class Unlocked {
 public:
  explicit Unlocked(bool lets_others_run) noexcept
      : state_(lets_others_run ? PyEval_SaveThread() : nullptr) {}
  Unlocked(const Unlocked &) = delete;
  Unlocked &operator=(const Unlocked &) = delete;
  ~Unlocked() {
    if (state_ != nullptr) staying([&] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState *state_;
};

// Does another thread of Python exist, which would have to wait with this one?
[[nodiscard]] inline bool has_other_threads() noexcept {
  TMH_ASSERT(PyGILState_Check() != 0);
  PyThreadState *const first =
      PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(PyThreadState_Get()));
  return PyThreadState_Next(first) != nullptr;
}

// The error that is set is put aside while this object lives, unless dropped.
class SavedError {
 public:
  SavedError() noexcept { PyErr_Fetch(&type_, &value_, &traceback_); }
  SavedError(const SavedError &) = delete;
  SavedError &operator=(const SavedError &) = delete;
  ~SavedError() { PyErr_Restore(type_, value_, traceback_); }
  void drop() noexcept {
    Py_CLEAR(type_);
    Py_CLEAR(value_);
    Py_CLEAR(traceback_);
  }
  [[nodiscard]] PyObject *type() const noexcept { return type_; }
  [[nodiscard]] PyObject *traceback() const noexcept { return traceback_; }

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

// The C++ object of a slot's argument. Throws TypeError where __init__ has not made it.
template <class T>
[[nodiscard]] T &made(PyObject *object) {
  TMH_ASSERT(object != nullptr);
  if (!nb::inst_ready(object)) [[unlikely]] {
    PyErr_Format(PyExc_TypeError, "%s: __init__ has not been called", Py_TYPE(object)->tp_name);
    throw ErrorIsSet{};
  }
  return *nb::inst_ptr<T>(object);
}

}  // namespace tmh::python
