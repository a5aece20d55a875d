// bindings/tcl/values.cpp -- conversions, and errorCode.
#include "bindings/tcl/values.h"

#include <tp.h>

#include <cerrno>
#include <cstring>

#include "platform/assert.h"

namespace tmh::tcl {

bool get_bytes(Tcl_Interp *interp, Tcl_Obj *from, DBT *to) {
  TMH_ASSERT(from != nullptr && to != nullptr);
  const bool is_bytes =
      from->typePtr != nullptr && std::strcmp(from->typePtr->name, "bytearray") == 0;
  if (!is_bytes) {
    // Tcl 8.6 would keep the low byte of each.
    const int count = Tcl_GetCharLength(from);
    for (int i = 0; i < count; ++i)
      if (Tcl_GetUniChar(from, i) > 0xff) {
        (void)fail(interp, "EINVAL", "a character is no byte: encode the text");
        return false;
      }
  }
  int count = 0;
  to->data = Tcl_GetByteArrayFromObj(from, &count);
  to->size = static_cast<std::size_t>(count);
  return true;
}

Tcl_Obj *new_bytes(const DBT &from) {
  return Tcl_NewByteArrayObj(static_cast<const unsigned char *>(from.data),
                             static_cast<int>(from.size));
}

bool get_number(Tcl_Interp *interp, Tcl_Obj *from, std::uint64_t max, std::uint64_t *to) {
  TMH_ASSERT(to != nullptr);
  Tcl_WideInt number = 0;
  if (Tcl_GetWideIntFromObj(interp, from, &number) != TCL_OK) return false;
  if (number < 0 || static_cast<std::uint64_t>(number) > max) {
    (void)fail(interp, "EINVAL", "a number is out of range");
    return false;
  }
  *to = static_cast<std::uint64_t>(number);
  return true;
}

int fail(Tcl_Interp *interp, const char *code, const char *why) {
  Tcl_SetErrorCode(interp, "TP", code, static_cast<const char *>(nullptr));
  Tcl_SetObjResult(interp, Tcl_NewStringObj(why, -1));
  return TCL_ERROR;
}

int fail_errno(Tcl_Interp *interp) {
  const int error = errno;
  const char *const name = ::strerrorname_np(error);
  return fail(interp, name != nullptr ? name : "EIO", std::strerror(error));
}

int told(Tcl_Interp *interp, int error) {
  if (error == TP_OK) return TCL_OK;
  const char *const code = error == TP_EDEADLOCK    ? "EDEADLK"
                           : error == TP_ETIMEOUT   ? "ETIMEDOUT"
                           : error == TP_EBUSY      ? "EBUSY"
                           : error == TP_ENOTLOCKED ? "ENOTLOCKED"
                           : error == TP_EARGUMENT  ? "EINVAL"
                                                    : "EIO";
  return fail(interp, code, tp_last_error());
}

}  // namespace tmh::tcl
