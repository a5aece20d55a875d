// tests/itm/programs/control.cpp -- what the library tells of itself and of the thread.
#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"

namespace {

long word;

}  // namespace

ITM_PROGRAM(control_outside_is_outside, "0 1") {
  return itm::say(_ITM_inTransaction(), _ITM_getTransactionId());
}

ITM_PROGRAM(control_inside_is_inside, "inside") {
  int state = 0;
  __transaction_atomic {
    word = 1;
    state = _ITM_inTransaction();
  }
  return state == inRetryableTransaction || state == inIrrevocableTransaction ? "inside"
                                                                              : itm::say(state);
}

ITM_PROGRAM(control_irrevocable_is_told, "2 0") {
  int state = 0;
  __transaction_relaxed {
    _ITM_changeTransactionMode(modeSerialIrrevocable);
    state = _ITM_inTransaction();
    word = 1;
  }
  return itm::say(state, _ITM_inTransaction());
}

ITM_PROGRAM(control_ids_differ, "differ outside") {
  _ITM_transactionId_t first = 0;
  _ITM_transactionId_t second = 0;
  __transaction_atomic {
    word = 1;
    first = _ITM_getTransactionId();
  }
  __transaction_atomic {
    word = 2;
    second = _ITM_getTransactionId();
  }
  return itm::say(first != second ? "differ" : "same",
                  _ITM_getTransactionId() == _ITM_noTransactionId ? "outside" : "none");
}

ITM_PROGRAM(control_version_of_gcc, "1 0") {
  return itm::say(_ITM_versionCompatible(_ITM_VERSION_NO), _ITM_versionCompatible(12345));
}

ITM_PROGRAM(control_library_has_a_name, "named") {
  const char *const name = _ITM_libraryVersion();
  return name != nullptr && name[0] != '\0' ? "named" : "nameless";
}

ITM_PROGRAM(control_after_a_cancel_is_outside, "0 1") {
  __transaction_atomic {
    word = 1;
    __transaction_cancel;
  }
  return itm::say(_ITM_inTransaction(), _ITM_getTransactionId());
}

ITM_PROGRAM(control_of_another_thread, "inside 0") {
  int state = 0;
  int other_state = 0;
  __transaction_atomic {
    word = 1;
    state = _ITM_inTransaction();
  }
  std::thread other([&other_state] { other_state = _ITM_inTransaction(); });
  other.join();
  return itm::say(state != outsideTransaction ? "inside" : "outside", other_state);
}
