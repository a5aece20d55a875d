// bindings/tcl/package.cpp -- the commands tp::open, close, dbopen, txn, lock, unlock, log.
#include "bindings/tcl/package.h"

#define TP_NO_SHORT_NAMES
#include <tp/paper.h>

#undef tp_lock

#include <climits>
#include <memory>
#include <string>

#include "bindings/tcl/database.h"
#include "bindings/tcl/values.h"
#include "platform/assert.h"

namespace tmh::tcl {

namespace {

int wrong(Tcl_Interp *interp, Tcl_Obj *const words[], const char *usage) {
  Tcl_WrongNumArgs(interp, 1, words, usage);
  return TCL_ERROR;
}

int open_home(ClientData, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  static const char *const kDurabilities[] = {"none", "strict", "buffered", nullptr};
  static const char *const kOptions[] = {"-durability", nullptr};
  if (count != 2 && count != 4)
    return wrong(interp, words, "home ?-durability none|strict|buffered?");
  int option = 0, durability = -1;
  if (count == 4 &&
      (Tcl_GetIndexFromObj(interp, words[2], kOptions, "option", 0, &option) != TCL_OK ||
       Tcl_GetIndexFromObj(interp, words[3], kDurabilities, "durability", 0, &durability) !=
           TCL_OK))
    return TCL_ERROR;
  tp_options options{};
  options.durability = durability;
  options.name = "tcl";
  return told(interp, tp_paper_open(Tcl_GetString(words[1]), &options));
}

int close_home(ClientData, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  return count == 1 ? told(interp, tp_paper_close()) : wrong(interp, words, "");
}

int transaction(ClientData, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  static const char *const kCalls[] = {"abort", "begin", "commit", nullptr};
  enum Call { kAbort, kBegin, kCommit };
  int which = 0;
  if (count != 2) return wrong(interp, words, "begin|commit|abort");
  if (Tcl_GetIndexFromObj(interp, words[1], kCalls, "call", 0, &which) != TCL_OK) return TCL_ERROR;
  if (which == kAbort) return told(interp, tp_paper_abort());
  if (which == kCommit) return told(interp, tp_paper_commit());
  const tp_id begun = tp_paper_begin();
  if (begun == 0) return told(interp, TP_EARGUMENT);
  Tcl_SetObjResult(interp, Tcl_NewWideIntObj(static_cast<Tcl_WideInt>(begun)));
  return TCL_OK;
}

// lock, unlock: an object is two numbers.
int lock(ClientData unlocks, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  static const char *const kModes[] = {"exclusive", "intend-exclusive", "intend-shared", "shared",
                                       nullptr};
  constexpr unsigned kTpModes[] = {TP_EXCLUSIVE, TP_INTEND_EXCLUSIVE, TP_INTEND_SHARED, TP_SHARED};
  if (count != 4) return wrong(interp, words, "file page mode");
  std::uint64_t file = 0, page = 0;
  int mode = 0;
  if (!get_number(interp, words[1], INT_MAX, &file) ||
      !get_number(interp, words[2], INT64_MAX, &page) ||
      Tcl_GetIndexFromObj(interp, words[3], kModes, "mode", 0, &mode) != TCL_OK)
    return TCL_ERROR;
  return told(interp, unlocks != nullptr
                          ? tp_paper_unlock(static_cast<int>(file), page, kTpModes[mode])
                          : tp_paper_lock(static_cast<int>(file), page, kTpModes[mode]));
}

int log(ClientData, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  if (count != 3) return wrong(interp, words, "type data");
  std::uint64_t type = 0;
  DBT data{};
  if (!get_number(interp, words[1], TP_TYPE_MAX, &type) || !get_bytes(interp, words[2], &data))
    return TCL_ERROR;
  const tp_lsn lsn = tp_paper_log(static_cast<std::uint32_t>(type), data.data, data.size);
  if (lsn == 0) return told(interp, TP_EARGUMENT);
  Tcl_SetObjResult(interp, Tcl_NewWideIntObj(static_cast<Tcl_WideInt>(lsn)));
  return TCL_OK;
}

void end_package(ClientData package, Tcl_Interp *) { delete static_cast<Package *>(package); }

}  // namespace

int make_commands(Tcl_Interp *interp, bool is_of_server) {
  TMH_ASSERT(interp != nullptr);
  constexpr std::uint64_t kServersNumberMax = 1u << 24;
  auto *const package = new Package;
  package->is_of_server = is_of_server;
  if (is_of_server) package->number_max = kServersNumberMax;
  Tcl_SetAssocData(interp, "tp", end_package, package);
  const auto add = [&](const char *name, Tcl_ObjCmdProc *call, ClientData about = nullptr) {
    (void)Tcl_CreateObjCommand(interp, (std::string("::tp::") + name).c_str(), call, about,
                               nullptr);
  };
  if (!is_of_server) {
    add("open", open_home);
    add("close", close_home);
  }
  add("dbopen", open_database, package);
  add("txn", transaction);
  add("lock", lock);
  static char unlocks;
  add("unlock", lock, &unlocks);
  add("log", log);
  return Tcl_Eval(interp, "namespace eval ::tp {namespace export txn lock unlock log dbopen}");
}

}  // namespace tmh::tcl

extern "C" int Tp_Init(Tcl_Interp *interp) {
  if (Tcl_InitStubs(interp, "8.6", 0) == nullptr) return TCL_ERROR;
  if (tmh::tcl::make_commands(interp, false) != TCL_OK) return TCL_ERROR;
  return Tcl_PkgProvide(interp, "tp", TMH_TCL_VERSION);
}
