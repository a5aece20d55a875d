// compat/libitm/abi.h -- numbers and structures of the ABI between g++ -fgnu-tm and its library.
// Source:    Intel's Linux TM ABI 1.1, as GCC 12 follows it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::itm {

// What the compiler says of a transaction, to _ITM_beginTransaction.
inline constexpr std::uint32_t kHasInstrumented = 0x1;    // code with calls of barriers
inline constexpr std::uint32_t kHasUninstrumented = 0x2;  // code without them
inline constexpr std::uint32_t kHasNoAbort = 0x8;         // no __transaction_cancel ends it
inline constexpr std::uint32_t kGoesIrrevocable = 0x40;
// Code that leaves out barriers after a write, or logs what it overwrites for the library to undo.
inline constexpr std::uint32_t kOmitsAfterWrite = 0x100;
inline constexpr std::uint32_t kLogsForUndo = 0x400;

// What _ITM_beginTransaction tells the compiled code to do.
inline constexpr std::uint32_t kRunInstrumented = 0x1;
inline constexpr std::uint32_t kRunUninstrumented = 0x2;
inline constexpr std::uint32_t kSaveLive = 0x4;
inline constexpr std::uint32_t kRestoreLive = 0x8;
inline constexpr std::uint32_t kAborted = 0x10;

// Why _ITM_abortTransaction is called.
inline constexpr std::uint32_t kUserAbort = 0x1;
inline constexpr std::uint32_t kUserRetry = 0x2;
inline constexpr std::uint32_t kOuterAbort = 0x10;

inline constexpr std::uint64_t kNoTransactionId = 1;
inline constexpr int kAbiVersion = 90;  // 0.90, as GCC's

// Registers of the caller of _ITM_beginTransaction as they are behind the call: a transaction
// begins again by going back there. Written and read by begin_x86_64.S.
struct Registers {
  std::uintptr_t stack;  // rsp behind the call: frames of the transaction's calls lie below
  std::uintptr_t rbx, rbp, r12, r13, r14, r15;
  std::uintptr_t next_instruction;
};
static_assert(sizeof(Registers) == 64 && offsetof(Registers, next_instruction) == 56);

}  // namespace tmh::itm

extern "C" {
// begin_x86_64.S: goes back to where `registers` were taken, with this result. Frames below
// registers->stack are gone.
[[noreturn]] void tmh_itm_go_back(const tmh::itm::Registers *registers, std::uint32_t result);
// begin_x86_64.S: calls the function with frames below `stack`; all others are left.
[[noreturn]] void tmh_itm_call_below(std::uintptr_t stack, void (*function)(void *),
                                     void *argument);
// control.cpp: what _ITM_beginTransaction calls with its caller's registers. Its result is the
// caller's.
std::uint32_t tmh_itm_begin(std::uint32_t properties, const tmh::itm::Registers *registers);
}
