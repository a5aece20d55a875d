// tests/rtm/streams.cpp -- generating streams from random bytes that Zydis lets pass; running them.
#include "tests/rtm/streams.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <Zydis/Zydis.h>

#include <cstring>
#include <stdexcept>

// Offsets from r15 = state + 128: gpr 128, flags 256, host rsp 264, code 272, stack 280, status
// 288, ymm 320. MXCSR is made the same: the first run's exceptions would show in the second one's
// STMXCSR.
// The unwind entries are what the emulator's search goes by.
asm(R"(
  .macro tmh_vectors instruction
  .altmacro
  .set i, 0
  .rept 16
  tmh_vector \instruction, %i
  .set i, i + 1
  .endr
  .noaltmacro
  .endm
  .macro tmh_vector instruction, number
  .ifc \instruction, load
  vmovdqu 320 + 32 * \number(%r15), %ymm\number
  .else
  vmovdqu %ymm\number, 320 + 32 * \number(%r15)
  .endif
  .endm
  .text
  .type tmh_stream_enter, @function
tmh_stream_enter:
  .cfi_startproc
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  leaq 128(%rdi), %r15
  movq %rsp, 264(%r15)
  tmh_vectors load
  movq 280(%r15), %rsp
  movl $0x1f80, 400(%rsp)
  ldmxcsr 400(%rsp)
  pushq 256(%r15)
  popfq
  movq %rsi, 408(%rsp)
  movq 128(%r15), %rax
  movq 136(%r15), %rcx
  movq 144(%r15), %rdx
  movq 152(%r15), %rbx
  movq 168(%r15), %rbp
  movq 176(%r15), %rsi
  movq 184(%r15), %rdi
  movq 192(%r15), %r8
  movq 200(%r15), %r9
  movq 208(%r15), %r10
  movq 216(%r15), %r11
  movq 224(%r15), %r12
  movq 232(%r15), %r13
  movq 240(%r15), %r14
  jmp *408(%rsp)
tmh_stream_begin:
  xbegin 1f
tmh_stream_plain:
  jmp *272(%r15)
1:
  movl %eax, 288(%r15)
  .globl tmh_stream_leave
tmh_stream_leave:
  movq %rax, 128(%r15)
  movq %rcx, 136(%r15)
  movq %rdx, 144(%r15)
  movq %rbx, 152(%r15)
  movq %rsp, 160(%r15)
  movq %rbp, 168(%r15)
  movq %rsi, 176(%r15)
  movq %rdi, 184(%r15)
  movq %r8, 192(%r15)
  movq %r9, 200(%r15)
  movq %r10, 208(%r15)
  movq %r11, 216(%r15)
  movq %r12, 224(%r15)
  movq %r13, 232(%r15)
  movq %r14, 240(%r15)
  movq 264(%r15), %rcx
  xchgq %rcx, %rsp
  pushfq
  popq 256(%r15)
  cld
  tmh_vectors store
  vzeroupper
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
  .cfi_endproc
  .size tmh_stream_enter, .-tmh_stream_enter
  .globl tmh_stream_run_plain
  .type tmh_stream_run_plain, @function
tmh_stream_run_plain:
  .cfi_startproc
  leaq tmh_stream_plain(%rip), %rsi
  jmp tmh_stream_enter
  .cfi_endproc
  .globl tmh_stream_run_transaction
  .type tmh_stream_run_transaction, @function
tmh_stream_run_transaction:
  .cfi_startproc
  leaq tmh_stream_begin(%rip), %rsi
  jmp tmh_stream_enter
  .cfi_endproc
)");

extern "C" {
void tmh_stream_run_plain(tmh::test::StreamState *state);
void tmh_stream_run_transaction(tmh::test::StreamState *state);
extern const char tmh_stream_leave[];
}

namespace tmh::test {

namespace {

constexpr std::size_t kCodeBytes = 64 * 1024, kStackWords = 8192, kWordsAbove = 1024;

const ZydisDecoder &decoder() {
  static const ZydisDecoder instance = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  return instance;
}

bool is_known(ZydisISAExt extension) {
  switch (extension) {
    case ZYDIS_ISA_EXT_BASE:
    case ZYDIS_ISA_EXT_LONGMODE:
    case ZYDIS_ISA_EXT_SSE:
    case ZYDIS_ISA_EXT_SSE2:
    case ZYDIS_ISA_EXT_SSE3:
    case ZYDIS_ISA_EXT_SSSE3:
    case ZYDIS_ISA_EXT_SSE4:
      return true;
    case ZYDIS_ISA_EXT_AVX:
      return __builtin_cpu_supports("avx") != 0;
    case ZYDIS_ISA_EXT_AVX2:
      return __builtin_cpu_supports("avx2") != 0;
    case ZYDIS_ISA_EXT_FMA:
      return __builtin_cpu_supports("fma") != 0;
    case ZYDIS_ISA_EXT_BMI1:
      return __builtin_cpu_supports("bmi") != 0;
    case ZYDIS_ISA_EXT_BMI2:
      return __builtin_cpu_supports("bmi2") != 0;
    case ZYDIS_ISA_EXT_AES:
    case ZYDIS_ISA_EXT_PCLMULQDQ:
      return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
    default:
      return false;
  }
}

bool is_category_left_out(ZydisInstructionCategory category) {
  switch (category) {
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_STRINGOP:
    case ZYDIS_CATEGORY_SEGOP:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_X87_ALU:
    case ZYDIS_CATEGORY_FLAGOP:
    case ZYDIS_CATEGORY_PUSH:
    case ZYDIS_CATEGORY_POP:
    case ZYDIS_CATEGORY_XSAVE:
    case ZYDIS_CATEGORY_XSAVEOPT:
    case ZYDIS_CATEGORY_MMX:
      return true;
    default:
      return false;
  }
}

bool is_left_out(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_DIV:  // would fault nearly always
    case ZYDIS_MNEMONIC_IDIV:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_XLAT:
    case ZYDIS_MNEMONIC_ENTER:
    case ZYDIS_MNEMONIC_LEAVE:
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
    case ZYDIS_MNEMONIC_CLFLUSH:
    case ZYDIS_MNEMONIC_STD:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_BSF:  // an undefined result
    case ZYDIS_MNEMONIC_BSR:
    case ZYDIS_MNEMONIC_SHLD:
    case ZYDIS_MNEMONIC_SHRD:
      return true;
    default:
      return false;
  }
}

// Registers that carry the run itself, or parts that are not compared.
bool is_register_left_out(ZydisRegister reg) {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  const ZydisRegisterClass kind = ZydisRegisterGetClass(reg);
  return whole == ZYDIS_REGISTER_R15 || whole == ZYDIS_REGISTER_RSP ||
         kind == ZYDIS_REGCLASS_SEGMENT || kind == ZYDIS_REGCLASS_MMX ||
         kind == ZYDIS_REGCLASS_X87 || kind == ZYDIS_REGCLASS_CONTROL ||
         kind == ZYDIS_REGCLASS_DEBUG || kind == ZYDIS_REGCLASS_ZMM ||
         kind == ZYDIS_REGCLASS_MASK || kind == ZYDIS_REGCLASS_TABLE;
}

// The offset register of a bit string reaches anywhere.
bool is_wild(const ZydisDecodedInstruction &instruction, const ZydisDecodedOperand *operands) {
  const bool is_bit =
      instruction.mnemonic == ZYDIS_MNEMONIC_BT || instruction.mnemonic == ZYDIS_MNEMONIC_BTS ||
      instruction.mnemonic == ZYDIS_MNEMONIC_BTR || instruction.mnemonic == ZYDIS_MNEMONIC_BTC;
  return is_bit && operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
         operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
}

// PREFETCH of a register: Intel's processors do nothing, AMD's do not know it.
bool is_prefetch_of_register(const ZydisDecodedInstruction &instruction) {
  return instruction.opcode_map == ZYDIS_OPCODE_MAP_0F && instruction.opcode == 0x0D &&
         instruction.raw.modrm.mod == 3;
}

bool is_usable(const ZydisDecodedInstruction &instruction, const ZydisDecodedOperand *operands) {
  if (!is_known(instruction.meta.isa_ext) || is_category_left_out(instruction.meta.category) ||
      is_left_out(instruction.mnemonic) || is_wild(instruction, operands) ||
      is_prefetch_of_register(instruction))
    return false;
  for (std::size_t i = 0; i < instruction.operand_count; ++i) {
    const ZydisDecodedOperand &operand = operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.reg.value != ZYDIS_REGISTER_RFLAGS &&
        is_register_left_out(operand.reg.value))
      return false;
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    const bool is_ours =
        operand.mem.base == ZYDIS_REGISTER_R15 && operand.mem.index == ZYDIS_REGISTER_NONE &&
        operand.mem.segment == ZYDIS_REGISTER_DS &&
        operand.visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT &&
        operand.mem.type == ZYDIS_MEMOP_TYPE_MEM && instruction.address_width == 64;
    // An address that is computed only would differ between two states.
    if (!is_ours || operand.size > 256) return false;
    if (operand.mem.disp.value < -128 || operand.mem.disp.value + operand.size / 8 > 128)
      return false;
    // Alignment, where it is asked for.
    if (operand.size >= 128 && operand.mem.disp.value % 32 != 0) return false;
  }
  return true;
}

using Bytes = std::vector<std::uint8_t>;

Bytes random_candidate(std::mt19937_64 *random) {
  const auto draw = [random](unsigned below) { return static_cast<unsigned>((*random)() % below); };
  const bool has_memory = draw(2) == 0;
  Bytes bytes;
  const unsigned form = draw(10);
  if (form < 6) {  // legacy
    if (draw(8) == 0) bytes.push_back(0xF0);
    const unsigned prefix = draw(8);
    if (prefix < 3)
      bytes.push_back(static_cast<std::uint8_t>(prefix == 0 ? 0x66 : prefix == 1 ? 0xF2 : 0xF3));
    if (has_memory || draw(2) == 0)
      bytes.push_back(static_cast<std::uint8_t>(0x40 | draw(16) | (has_memory ? 1u : 0u)));
    const unsigned map = draw(4);
    if (map != 0) bytes.push_back(0x0F);
    if (map == 2) bytes.push_back(0x38);
    if (map == 3) bytes.push_back(0x3A);
  } else {  // VEX, three bytes: R X B map, W vvvv L pp; stored inverted
    bytes.push_back(0xC4);
    bytes.push_back(static_cast<std::uint8_t>(draw(2) << 7 | 1u << 6 |
                                              (has_memory ? 0u : draw(2) << 5) | (1 + draw(3))));
    bytes.push_back(static_cast<std::uint8_t>(draw(256)));
  }
  bytes.push_back(static_cast<std::uint8_t>(draw(256)));
  const unsigned field = draw(8) << 3;
  if (has_memory) {
    bytes.push_back(static_cast<std::uint8_t>(0x40 | field | 7));
    bytes.push_back(static_cast<std::uint8_t>(draw(3) == 0 ? draw(256) : draw(8) * 32));
  } else {
    bytes.push_back(static_cast<std::uint8_t>(0xC0 | field | draw(8)));
  }
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(draw(256)));
  return bytes;
}

Bytes random_instruction(std::mt19937_64 *random) {
  for (;;) {
    Bytes bytes = random_candidate(random);
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder(), bytes.data(), bytes.size(), &instruction,
                                           operands)) ||
        !is_usable(instruction, operands))
      continue;
    bytes.resize(instruction.length);
    return bytes;
  }
}

void append(Bytes *to, const Bytes &from) { to->insert(to->end(), from.begin(), from.end()); }

// What random bytes seldom are: jumps, the stack, rsp as an operand. Each leaves rsp as it was.
Bytes special(std::mt19937_64 *random, std::size_t *instructions) {
  const auto draw = [random](unsigned below) {
    return static_cast<std::uint8_t>((*random)() % below);
  };
  const auto reg = [&] {
    return static_cast<std::uint8_t>("\x00\x01\x02\x03\x05\x06\x07"[draw(7)]);
  };
  Bytes bytes;
  const Bytes inner = random_instruction(random);
  *instructions += 2;
  switch (draw(7)) {
    case 0:  // jcc over one
      bytes = {static_cast<std::uint8_t>(0x70 | draw(16)), static_cast<std::uint8_t>(inner.size())};
      append(&bytes, inner);
      break;
    case 1:  // push, pop elsewhere
      bytes = {static_cast<std::uint8_t>(0x50 | reg())};
      append(&bytes, inner);
      bytes.push_back(static_cast<std::uint8_t>(0x58 | reg()));
      break;
    case 2:  // call over one to its pop
      bytes = {0xE8, static_cast<std::uint8_t>(inner.size()), 0, 0, 0};
      append(&bytes, inner);
      // lea rsp, [rsp + 8]: the return address differs between two runs.
      append(&bytes, {0x48, 0x8D, 0x64, 0x24, 8});
      break;
    case 3:  // sub rsp, 32; mov [rsp + 8], reg; add rsp, 32
      bytes = {0x48, 0x83, 0xEC, 32, 0x48, 0x89, static_cast<std::uint8_t>(0x44 | reg() << 3),
               0x24, 8};
      append(&bytes, inner);
      append(&bytes, {0x48, 0x83, 0xC4, 32});
      break;
    case 4:  // mov reg, rsp; xor with it; pushfq; popfq
      bytes = {0x48, 0x89, static_cast<std::uint8_t>(0xE0 | reg()),
               0x48, 0x31, static_cast<std::uint8_t>(0xE0 | reg()),
               0x9C};
      append(&bytes, inner);
      append(&bytes, {0x9D});
      break;
    case 5:  // lea reg, [reg + 4 * reg + disp8]
      bytes = {0x48, 0x8D, static_cast<std::uint8_t>(0x44 | reg() << 3),
               static_cast<std::uint8_t>(0x80 | draw(4) << 3 | reg()), draw(128)};
      if ((bytes[3] & 7) == 5) bytes[3] ^= 1;
      append(&bytes, inner);
      break;
    default:  // lea rdi, [r15]; lea rsi, [r15 - 64]; mov ecx, 5; rep movsb or repe cmpsb
      bytes = {0x49, 0x8D, 0x7F, 0,    0x49,
               0x8D, 0x77, 0xC0, 0xB9, 5,
               0,    0,    0,    0xF3, static_cast<std::uint8_t>(draw(2) == 0 ? 0xA4 : 0xA6)};
      // Two states lie at two addresses: xor edi, edi; xor esi, esi.
      append(&bytes, {0x31, 0xFF, 0x31, 0xF6});
      append(&bytes, inner);
      break;
  }
  return bytes;
}

sigjmp_buf g_fault;
void on_fault(int) { ::siglongjmp(g_fault, 1); }

}  // namespace

Stream random_stream(std::mt19937_64 *random, std::size_t instructions) {
  Stream stream;
  while (stream.instructions < instructions) {
    if ((*random)() % 6 == 0) {
      append(&stream.bytes, special(random, &stream.instructions));
    } else {
      append(&stream.bytes, random_instruction(random));
      ++stream.instructions;
    }
  }
  return stream;
}

std::string disassembled(const Stream &stream) {
  ZydisFormatter formatter;
  ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
  std::string text;
  for (std::size_t at = 0; at < stream.bytes.size();) {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder(), &stream.bytes[at], stream.bytes.size() - at,
                                           &instruction, operands)))
      break;
    char line[128];
    ZydisFormatterFormatInstruction(&formatter, &instruction, operands,
                                    instruction.operand_count_visible, line, sizeof line, at,
                                    nullptr);
    text += line;
    text += "\n";
    at += instruction.length;
  }
  return text;
}

StreamRunner::StreamRunner() {
  void *code = ::mmap(nullptr, kCodeBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *stack = ::mmap(nullptr, kStackWords * 8, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (code == MAP_FAILED || stack == MAP_FAILED) throw std::runtime_error("no memory");
  code_ = static_cast<std::uint8_t *>(code);
  stack_ = static_cast<std::uint64_t *>(stack);
  top_ = stack_ + kStackWords - kWordsAbove;
}

StreamRunner::~StreamRunner() {
  ::munmap(code_, kCodeBytes);
  ::munmap(stack_, kStackWords * 8);
}

// Both kinds at the same address: return addresses are results, too.
void StreamRunner::load(const Stream &stream, End end, StreamState *state) {
  // jmp [rip].
  constexpr std::uint8_t kXend[] = {0x0F, 0x01, 0xD5}, kJump[] = {0xFF, 0x25, 0, 0, 0, 0};
  if (stream.bytes.size() + 64 > kCodeBytes) throw std::runtime_error("stream too long");
  std::uint8_t *at = code_;
  const auto append = [&at](const void *from, std::size_t count) {
    std::memcpy(at, from, count);
    at += count;
  };
  append(stream.bytes.data(), stream.bytes.size());
  if (end == End::kXend) append(kXend, sizeof kXend);
  append(kJump, sizeof kJump);
  const auto leave = reinterpret_cast<std::uint64_t>(tmh_stream_leave);
  append(&leave, sizeof leave);
  state->code = reinterpret_cast<std::uint64_t>(code_);
  state->stack = reinterpret_cast<std::uint64_t>(top_);
  state->status = ~std::uint64_t{0};
}

bool StreamRunner::run_plain(const Stream &stream, StreamState *state) {
  load(stream, End::kPlain, state);
  struct sigaction action = {}, old[4];
  action.sa_handler = on_fault;
  action.sa_flags = SA_NODEFER;
  constexpr int kSignals[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS};
  for (int i = 0; i < 4; ++i) ::sigaction(kSignals[i], &action, &old[i]);
  const bool ran = sigsetjmp(g_fault, 0) == 0;
  if (ran) tmh_stream_run_plain(state);
  for (int i = 0; i < 4; ++i) ::sigaction(kSignals[i], &old[i], nullptr);
  return ran;
}

void StreamRunner::run_transaction(const Stream &stream, StreamState *state) {
  load(stream, End::kXend, state);
  tmh_stream_run_transaction(state);
}

std::array<std::uint64_t, 16> StreamRunner::stack() const {
  std::array<std::uint64_t, 16> words;
  std::memcpy(words.data(), top_ - words.size(), sizeof words);
  return words;
}

}  // namespace tmh::test
