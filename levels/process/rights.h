// levels/process/rights.h -- what the running code may touch: plain code home, a transaction
// copies.
// Shape:     two protection keys, one of copies, one of home, change that without a system call.
//            Where the processor has none, mprotect(2) changes it at each begin and end, of all
//            pages that the task has mapped.
//            A third key, or mprotect(2), guards the C library's data in a transaction: what stores
//            there, nothing undoes. User Syscall Dispatch does the same for system calls.
// Contexts:  the task's own, and its signal handlers.
// Source:    pkeys(7); Linux, Documentation/admin-guide/syscall-user-dispatch.rst.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace tmh::itm::pages {

enum class Rights : std::uint8_t {
  kPlain,
  // A system call, or a store to the C library's data, has the transaction go irrevocable first.
  kTransaction,
  // This library's code. Without keys: copies inside, home outside, never both.
  kBoth,
};

// The first task's view starts: takes the keys (keys.h). From here on rights count.
void start_rights() noexcept;
[[nodiscard]] bool are_rights_on() noexcept;
// The process has its memory for itself, and no transactions.
void end_rights() noexcept;

// Of what runs next.
void set_rights(Rights rights) noexcept;
// Of what runs when the handler returns.
void set_rights_of(ucontext_t *context, Rights rights) noexcept;
[[nodiscard]] Rights current_rights() noexcept;

// This library's code for a while, wherever it is called from.
class OwnRights {
 public:
  OwnRights() noexcept;
  ~OwnRights();
  OwnRights(const OwnRights &) = delete;
  OwnRights &operator=(const OwnRights &) = delete;

 private:
  Rights before_;
};

// Of a task, once its view is there: transactions find out what cannot be undone. Where the kernel
// cannot do that, only instrumented code says it.
void guard_effects() noexcept;
[[nodiscard]] bool finds_effects() noexcept;
// Of the running transaction. Was it on?
[[nodiscard]] bool guard_transaction(bool is_on) noexcept;
[[nodiscard]] bool is_runtime_data(std::uintptr_t address) noexcept;

}  // namespace tmh::itm::pages
