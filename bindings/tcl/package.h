// bindings/tcl/package.h -- `package require tp`: LIBTP's calls and dbopen() as commands of Tcl.
// Contexts:  the interpreter's thread: a transaction is the thread's.
// Source:    LIBTP 3.3 and 5: its TCL.
#pragma once

#include <tcl.h>

namespace tmh::tcl {

// is_of_server: in a safe interpreter, without the environment's own begin and end.
int make_commands(Tcl_Interp *interp, bool is_of_server);

}  // namespace tmh::tcl

extern "C" int Tp_Init(Tcl_Interp *interp);
