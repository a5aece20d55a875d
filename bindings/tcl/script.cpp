// bindings/tcl/script.cpp -- safe interpreters with a limit of time.
#include "bindings/tcl/script.h"

#include <dlfcn.h>
#include <tcl.h>

#include <climits>
#include <mutex>
#include <string_view>

#include "bindings/tcl/package.h"
#include "platform/assert.h"

namespace {

// Not among the stubs, which an interpreter has.
using MakeInterpreter = Tcl_Interp *(*)();

[[nodiscard]] MakeInterpreter load_tcl() {
  static const MakeInterpreter made = [] {
    void *const tcl = ::dlopen("libtcl8.6.so.0", RTLD_NOW | RTLD_GLOBAL);
    void *const at = tcl != nullptr ? tcl : ::dlopen("libtcl8.6.so", RTLD_NOW | RTLD_GLOBAL);
    if (at == nullptr) return static_cast<MakeInterpreter>(nullptr);
    const auto begin = reinterpret_cast<void (*)(const char *)>(::dlsym(at, "Tcl_FindExecutable"));
    if (begin != nullptr) begin(nullptr);
    return reinterpret_cast<MakeInterpreter>(::dlsym(at, "Tcl_CreateInterp"));
  }();
  return made;
}

[[nodiscard]] bool has_stubs(Tcl_Interp *interp) {
  static std::mutex mutex;
  const std::scoped_lock guard(mutex);
  return Tcl_InitStubs(interp, "8.6", 0) != nullptr;
}

}  // namespace

extern "C" {

void *tp_tcl_make(void) {
  const MakeInterpreter make = load_tcl();
  if (make == nullptr) return nullptr;
  Tcl_Interp *const made = make();
  if (!has_stubs(made)) return nullptr;
  (void)Tcl_MakeSafe(made);
  if (tmh::tcl::make_commands(made, true) == TCL_OK) return made;
  Tcl_DeleteInterp(made);
  return nullptr;
}

int tp_tcl_run(void *interpreter, const char *script, std::size_t bytes, std::uint64_t ms,
               const char **result, std::size_t *result_bytes) {
  TMH_ASSERT(interpreter != nullptr && result != nullptr && result_bytes != nullptr);
  auto *const interp = static_cast<Tcl_Interp *>(interpreter);
  int made = TCL_ERROR;
  if (bytes <= INT_MAX) {
    Tcl_Time end{};
    Tcl_GetTime(&end);
    const std::uint64_t us = static_cast<std::uint64_t>(end.usec) + ms % 1000 * 1000;
    end.sec += static_cast<long>(ms / 1000 + us / 1'000'000);
    end.usec = static_cast<long>(us % 1'000'000);
    Tcl_LimitSetTime(interp, &end);
    Tcl_LimitTypeSet(interp, TCL_LIMIT_TIME);
    made = Tcl_EvalEx(interp, script, static_cast<int>(bytes), TCL_EVAL_GLOBAL);
    Tcl_LimitTypeReset(interp, TCL_LIMIT_TIME);
  }
  int count = 0;
  Tcl_Obj *const told = Tcl_GetObjResult(interp);
  const bool is_bytes =
      told->typePtr != nullptr && std::string_view(told->typePtr->name) == "bytearray";
  *result = is_bytes ? reinterpret_cast<const char *>(Tcl_GetByteArrayFromObj(told, &count))
                     : Tcl_GetStringFromObj(told, &count);
  *result_bytes = static_cast<std::size_t>(count);
  return made == TCL_OK || made == TCL_RETURN ? 0 : 1;
}

void tp_tcl_end(void *interpreter) {
  auto *const interp = static_cast<Tcl_Interp *>(interpreter);
  Tcl_DeleteInterp(interp);
  Tcl_FinalizeThread();
}

}  // extern "C"
