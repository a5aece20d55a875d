// bindings/python/src/module.h -- the parts of the extension; each binds its classes.
#pragma once

#include "bindings/python/src/python.h"

namespace tmh::python {

// Domain: opening, segments, durability, counters.
void bind_domain(nanobind::module_ &module);
// Transaction, AttemptLoop, QueryBlock; retry(), on_commit(), irrevocable().
void bind_instances(nanobind::module_ &module);
// Array.
void bind_arrays(nanobind::module_ &module);
// Map.
void bind_maps(nanobind::module_ &module);

}  // namespace tmh::python
