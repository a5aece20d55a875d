// bindings/tcl/database.h -- a database as a command: tp::dbopen makes it.
// Contexts:  the interpreter's thread.
#pragma once

#include <tcl.h>

#include <cstdint>

namespace tmh::tcl {

// What the commands of an interpreter share.
struct Package {
  bool is_of_server = false;
  // Of what recno's puts make.
  std::uint64_t number_max = 0xffff'ffff;
  unsigned databases = 0;
};

// tp::dbopen FILE FLAGS MODE TYPE ?-shared? ?-tp? ?-dup? ?-psize N? ?-cachesize N? ?-reclen N?
// package: a Package.
int open_database(ClientData package, Tcl_Interp *interp, int count, Tcl_Obj *const words[]);

}  // namespace tmh::tcl
