#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/python/src/array_view.h"
#include "bindings/python/src/errors.h"
#include "bindings/python/src/instance.h"
#include "bindings/python/src/module.h"
#include "platform/assert.h"

namespace tmh::python {

namespace {

PyObject *get_item(PyObject *self, PyObject *key) {
  return guarded<PyObject *>(nullptr, [&] { return ArrayView::of(self).get(key).release(); });
}
int set_item(PyObject *self, PyObject *key, PyObject *value) {
  return guarded<int>(-1, [&] {
    ArrayView::of(self).set(key, value);
    return 0;
  });
}
Py_ssize_t length(PyObject *self) {
  return guarded<Py_ssize_t>(-1, [&] { return PyObject_Length(ArrayView::of(self).geometry()); });
}
PyType_Slot array_slots[] = {{Py_mp_subscript, reinterpret_cast<void *>(&get_item)},
                             {Py_mp_ass_subscript, reinterpret_cast<void *>(&set_item)},
                             {Py_mp_length, reinterpret_cast<void *>(&length)},
                             {0, nullptr}};

nb::object geometry_of(nb::handle self, const char *attribute) {
  TMH_ASSERT(attribute != nullptr);
  return nb::steal(PyObject_GetAttrString(ArrayView::of(self.ptr()).geometry(), attribute));
}

}  // namespace

void bind_arrays(nb::module_ &module) {
  nb::class_<RawOwner>(module, "RawOwner");
  nb::class_<ArrayView> array(module, "Array", nb::type_slots(array_slots));
  array.def_prop_ro("name", [](const ArrayView &self) { return self.name(); })
      .def_prop_ro("shape", [](nb::handle self) { return geometry_of(self, "shape"); })
      .def_prop_ro("dtype", [](nb::handle self) { return geometry_of(self, "dtype"); })
      .def_prop_ro("ndim", [](nb::handle self) { return geometry_of(self, "ndim"); })
      .def_prop_ro("size", [](nb::handle self) { return geometry_of(self, "size"); })
      .def_prop_ro("nbytes", [](nb::handle self) { return geometry_of(self, "nbytes"); })
      .def_prop_ro("itemsize", [](nb::handle self) { return geometry_of(self, "itemsize"); })
      .def_prop_ro("strides", [](nb::handle self) { return geometry_of(self, "strides"); })
      .def("_raw", [](nb::handle self, bool for_update) {
        return nb::steal(ArrayView::of(self.ptr()).raw(for_update).release());
      });
  // geometry: numpy's array over the same memory, for its shape; the caller does not access it.
  array.def("_geometry",
            [](nb::handle self) { return nb::borrow(ArrayView::of(self.ptr()).geometry()); });
  // The part of an array that a numpy array shows; None: it shows other memory.
  module.def("part_shown_by", [](nb::handle view) {
    Owned shown = ArrayView::part_shown_by(view.ptr());
    return shown ? nb::steal(shown.release()) : nb::none();
  });
  module.def("set_array_class", &ArrayView::set_class);
  module.def("make_array",
             [](nb::object core, const std::string &file, const std::string &name,
                bool reads_outside, std::uintptr_t address, nb::handle dtype, nb::handle shape) {
               if (!nb::isinstance<DomainCore>(core)) raise(PyExc_TypeError, "not a domain");
               auto origin = std::make_shared<Origin>();
               origin->segment = nb::inst_ptr<DomainCore>(core)->segment(file);
               origin->core = std::move(core);
               origin->name = name;
               origin->reads_outside = reads_outside;
               return nb::steal(
                   ArrayView::make(std::move(origin), address, dtype.ptr(), shape.ptr()).release());
             });
}

}  // namespace tmh::python
