// bindings/tcl/values.h -- bytes, numbers and errors between Tcl and the library.
// Errors:    TCL_ERROR: the interpreter has a text, and errorCode is {TP <name of errno>}.
// Contexts:  the interpreter's thread.
#pragma once

#include <tcl.h>
#include <tp/db.h>

#include <cstddef>
#include <cstdint>

namespace tmh::tcl {

// False: a character of it is no byte; the interpreter says so.
[[nodiscard]] bool get_bytes(Tcl_Interp *interp, Tcl_Obj *from, DBT *to);
[[nodiscard]] Tcl_Obj *new_bytes(const DBT &from);
// 0 to max.
[[nodiscard]] bool get_number(Tcl_Interp *interp, Tcl_Obj *from, std::uint64_t max,
                              std::uint64_t *to);
int fail(Tcl_Interp *interp, const char *code, const char *why);
// Of a call of db.h.
int fail_errno(Tcl_Interp *interp);
// A number of tp.h; TCL_OK for none.
int told(Tcl_Interp *interp, int error);

}  // namespace tmh::tcl
