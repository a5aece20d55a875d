// rtm_emulator/decode.h -- machine code to operations: what runs natively as a thunk, and
// what the emulator does itself.
// Shape:     a block is up to kBlockOps operations from one address to the next jump. A thunk is
//            the instruction with its memory operand replaced by the scratch operand of its thread,
//            rip-relative; instructions that only use registers share one. Per thread, no locks.
// Invariant: a block is run only while the program's bytes equal those that it was made of.
// Contexts:  REQUIRES that the vector registers are saved: Zydis uses them. No heap, no locks.
// Source:    Intel SDM vol. 2; chapter 2 for what may be cut out of an encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tmh::rtm {

enum class OpKind : std::uint8_t {
  kNative,        // registers only
  kNativeMemory,  // memory operand in scratch
  kLea,
  kNop,
  kPush,
  kPop,
  kPushFlags,
  kPopFlags,
  kLeave,
  kCall,
  kReturn,
  kJump,
  kJumpIf,     // sub: condition code
  kLoop,       // sub: 0 loopne, 1 loope, 2 loop, 3 jrcxz, 4 jecxz
  kString,     // sub: StringKind
  kBitString,  // bt, bts, btr, btc with a register offset; sub: 0 to 3
  kXbegin,
  kXend,
  kXabort,
  kXtest,
  kInt3,
  kSystem,       // aborts on hardware, too
  kUnsupported,  // does not
};
enum class StringKind : std::uint8_t { kMovs, kStos, kLods, kCmps, kScas };
enum class Source : std::uint8_t { kNone, kRegister, kImmediate, kMemory };
enum class Repeat : std::uint8_t { kOnce, kRep, kRepNe };

inline constexpr std::int8_t kNoRegister = -1;
inline constexpr std::uint8_t kRsp = 4;

struct MemoryOperand {
  std::int64_t displacement;
  std::int8_t base, index;  // numbers as in encodings
  std::uint8_t scale;
  std::uint8_t segment;  // 0, or 1 fs, 2 gs
  std::uint8_t is_address32;
};

struct Op {
  OpKind kind;
  std::uint8_t sub;
  Source source;  // of jumps, calls, pushes; destination of pop
  Repeat repeat;
  std::int8_t reg;
  std::uint8_t value_bytes;   // of lea, bit strings, strings
  std::uint8_t writes;        // the memory operand is written
  std::uint8_t instructions;  // that a thunk merges
  std::uint16_t memory_bytes;
  std::uint16_t mnemonic;
  MemoryOperand memory;
  std::uint64_t next;    // address behind
  std::uint64_t target;  // of direct jumps; or an immediate
  std::uint64_t thunk;
};

inline constexpr std::size_t kBlockOps = 24;
inline constexpr std::size_t kInstructionBytesMax = 15;
inline constexpr std::size_t kBlockBytes = kBlockOps * kInstructionBytesMax;
inline constexpr std::size_t kScratchBytes = 1024;
// One instruction with its four moves of seven bytes, and the jump of five.
inline constexpr std::size_t kThunkBytesMax = 128;
static_assert(kThunkBytesMax >= kInstructionBytesMax + 4 * 7 + 5);
static_assert(kScratchBytes <= 0xFFFF, "Op::memory_bytes says how much of it is used");

struct Block {
  std::uint64_t rip;
  std::uint32_t code_bytes;
  std::uint32_t ops;
  std::uint8_t code[kBlockBytes];
  Op op[kBlockOps];
};
static_assert(std::is_trivially_default_constructible_v<Block>,
              "blocks lie in memory that the kernel has zeroed, and no constructor runs there");

// What thunks address: lies within 2 GiB of them.
struct alignas(64) Registers {
  std::uint64_t gpr[16];  // rax rcx rdx rbx rsp rbp rsi rdi r8 ... r15
  std::uint64_t flags;
  std::uint64_t host_rsp;
  std::uint64_t thunk;
  std::uint64_t spill;
  std::uint64_t faulted;
  alignas(64) std::uint8_t scratch[kScratchBytes];
};

// Room for thunks; bump allocation.
struct CodeRoom {
  std::uint8_t *at, *end;
  std::uint64_t exit;  // where thunks go on
  Registers *registers;
};

void prepare_decoder() noexcept;  // once, before everything else

// False: the room for thunks is used up; nothing was decoded then.
[[nodiscard]] bool decode_block(std::uint64_t rip, CodeRoom *room, Block *block) noexcept;

// Writes the two routines around every thunk: entry (a C function without arguments; what it runs
// is registers->thunk), and the exit. fault: where to go on after a fault inside a thunk.
void emit_entry_and_exit(CodeRoom *room, std::uint64_t *entry, std::uint64_t *fault) noexcept;

[[nodiscard]] const char *mnemonic_name(std::uint16_t mnemonic) noexcept;

}  // namespace tmh::rtm
