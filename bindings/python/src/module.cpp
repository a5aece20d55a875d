// bindings/python/src/module.cpp -- the extension tmh._tmh: what the package's Python files build
// upon. Its users call those; tmh/_tmh.pyi has the types.
#define TMH_NUMPY_HERE
#include "bindings/python/src/module.h"

#include "bindings/python/src/domain_core.h"
#include "bindings/python/src/errors.h"

namespace nb = nanobind;

namespace {

void import_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

}  // namespace

NB_MODULE(_tmh, module) {
  namespace python = tmh::python;
  nb::set_leak_warnings(false);  // the interpreter's end may leave some
  import_numpy();
  python::load_errors();
  nb::register_exception_translator(
      [](const std::exception_ptr &thrown, void *) {
        try {
          std::rethrow_exception(thrown);
        } catch (const nb::python_error &) {
          throw;  // nanobind's own
        } catch (...) {
          python::set_error_from_thrown();
        }
      },
      nullptr);
  python::bind_domain(module);
  python::bind_instances(module);
  python::bind_arrays(module);
  python::bind_maps(module);
  module.def("after_fork_in_child", &python::count_fork,
             "Python calls it in each child that os.fork() makes.");
}
