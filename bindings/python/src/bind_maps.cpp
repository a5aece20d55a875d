#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bindings/python/src/codec.h"
#include "bindings/python/src/errors.h"
#include "bindings/python/src/map_object.h"
#include "bindings/python/src/module.h"

namespace tmh::python {

namespace {

MapObject &map_of(PyObject *self) { return made<MapObject>(self); }

PyObject *get_value(PyObject *self, PyObject *key) {
  return guarded<PyObject *>(nullptr, [&] { return map_of(self).get(key, nullptr).release(); });
}
int set_value(PyObject *self, PyObject *key, PyObject *value) {
  return guarded<int>(-1, [&] {
    value == nullptr ? map_of(self).erase(key) : map_of(self).set(key, value);
    return 0;
  });
}
Py_ssize_t count_keys(PyObject *self) {
  return guarded<Py_ssize_t>(-1, [&] { return static_cast<Py_ssize_t>(map_of(self).size()); });
}
int contains(PyObject *self, PyObject *key) {
  return guarded<int>(-1, [&] { return map_of(self).contains(key) ? 1 : 0; });
}
PyType_Slot map_slots[] = {{Py_mp_subscript, reinterpret_cast<void *>(&get_value)},
                           {Py_mp_ass_subscript, reinterpret_cast<void *>(&set_value)},
                           {Py_mp_length, reinterpret_cast<void *>(&count_keys)},
                           {Py_sq_contains, reinterpret_cast<void *>(&contains)},
                           {0, nullptr}};

nb::object taken(Owned object) { return nb::steal(object.release()); }

Owned bound(nb::handle key) { return key.is_none() ? Owned() : Owned::share(key.ptr()); }

}  // namespace

void bind_maps(nb::module_ &module) {
  nb::class_<MapObject> map(module, "Map", nb::type_slots(map_slots));
  map.def("__init__",
          [](MapObject *self, nb::object core, const std::string &file,
             std::optional<std::uintptr_t> address, bool pickles) {
            if (!nb::isinstance<DomainCore>(core)) raise(PyExc_TypeError, "not a domain");
            new (self) MapObject(std::move(core), file, address, pickles);
          })
      .def(
          "get",
          [](MapObject &self, nb::handle key, nb::handle missing) {
            return taken(self.get(key.ptr(), missing.ptr()));
          },
          nb::arg("key").none(), nb::arg("default") = nb::none())
      .def(
          "pop",
          [](MapObject &self, nb::handle key) { return taken(self.pop(key.ptr(), nullptr)); },
          nb::arg("key").none())
      .def(
          "pop",
          [](MapObject &self, nb::handle key, nb::handle missing) {
            return taken(self.pop(key.ptr(), missing.ptr()));
          },
          nb::arg("key").none(), nb::arg("default").none())
      .def(
          "setdefault",
          [](MapObject &self, nb::handle key, nb::handle value) {
            return taken(self.set_default(key.ptr(), value.ptr()));
          },
          nb::arg("key").none(), nb::arg("default") = nb::none())
      .def("clear", &MapObject::clear)
      .def(
          "_scan",
          [](MapObject &self, nb::handle first, bool has_first, nb::handle last, bool has_last,
             std::size_t limit, bool is_backward, bool with_values) {
            Range range;
            range.first = bound(first);
            range.last = bound(last);
            range.has_first = has_first;
            range.has_last = has_last;
            range.limit = limit;
            range.is_backward = is_backward;
            return taken(self.scan(range, with_values));
          },
          nb::arg("first").none(), nb::arg("has_first"), nb::arg("last").none(),
          nb::arg("has_last"), nb::arg("limit"), nb::arg("is_backward"), nb::arg("with_values"));
  otherwise(map, "get", "(key, default=None)");
  otherwise(map, "pop", "(key) or (key, default)");
  otherwise(map, "setdefault", "(key, default=None)");
  otherwise(map, "clear", "()");
  otherwise(map, "_scan", "(first, has_first, last, has_last, limit, is_backward, with_values)");
  module.def("make_map", &make_tree);
  module.def("decode_key", [](nb::bytes bytes) {
    return taken(decode_key({static_cast<const char *>(bytes.data()), bytes.size()}));
  });
  module.def("decode_value", [](nb::bytes bytes, bool pickles) {
    return taken(decode_value({static_cast<const char *>(bytes.data()), bytes.size()}, pickles));
  });
}

}  // namespace tmh::python
