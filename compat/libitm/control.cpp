// compat/libitm/control.cpp -- the ABI's functions that begin, end and ask for transactions.
#include "compat/libitm/abi.h"
#include "compat/libitm/thread.h"
#include "platform/assert.h"

using tmh::itm::Action;
using tmh::itm::die;
using tmh::itm::Registers;
using tmh::itm::this_thread;
using tmh::itm::Thread;

extern "C" {

std::uint32_t tmh_itm_begin(std::uint32_t properties, const Registers *registers) {
  TMH_ASSERT(registers->stack > reinterpret_cast<std::uintptr_t>(registers));
  return Thread::self().begin(properties, *registers);
}

void _ITM_commitTransaction() { this_thread->commit(); }

// An exception leaves the transaction: it commits.
void _ITM_commitTransactionEH(void *) { this_thread->commit(); }

[[noreturn]] void _ITM_abortTransaction(std::uint32_t reason) {
  TMH_ASSERT(this_thread != nullptr);
  this_thread->abort(reason);
}

void _ITM_changeTransactionMode(int mode) {
  if (mode != 0) die("a transaction asks for an unknown mode");
  TMH_ASSERT(this_thread != nullptr);
  this_thread->go_irrevocable();
}

int _ITM_inTransaction() {
  const Thread *const thread = this_thread;
  if (thread == nullptr || !thread->is_inside()) return 0;
  return thread->is_irrevocable() ? 2 : 1;
}

std::uint64_t _ITM_getTransactionId() {
  return this_thread == nullptr ? tmh::itm::kNoTransactionId : this_thread->id();
}

void _ITM_addUserCommitAction(Action action, std::uint64_t resuming, void *argument) {
  if (resuming != tmh::itm::kNoTransactionId)
    die("a commit action that resumes a transaction is not supported");
  this_thread->add_commit_action(action, argument);
}

void _ITM_addUserUndoAction(Action action, void *argument) {
  this_thread->add_undo_action(action, argument);
}

// The ABI does not say what a rollback does with such memory; GCC's library ends the process, too.
void _ITM_dropReferences(void *, std::size_t) { die("_ITM_dropReferences is not supported"); }

int _ITM_versionCompatible(int version) { return version == tmh::itm::kAbiVersion ? 1 : 0; }

const char *_ITM_libraryVersion() { return "libitm of tmh, as GNU libitm 1.0"; }

[[noreturn]] void _ITM_error(const void *, int) { die("the compiled code reports an error"); }
}
