// rtm_emulator/decode.cpp -- Zydis's view of an instruction to an operation.
#include "rtm_emulator/decode.h"

#include <Zydis/Zydis.h>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/emit.h"
#include "rtm_emulator/patch.h"
#include "rtm_emulator/system.h"

namespace tmh::rtm {

namespace {

static_assert(kInstructionBytesMax == ZYDIS_MAX_INSTRUCTION_LENGTH);
static_assert(ZYDIS_REGISTER_R15 - ZYDIS_REGISTER_RAX == 15 &&
                  ZYDIS_REGISTER_RSP - ZYDIS_REGISTER_RAX == kRsp,
              "Zydis numbers registers as encodings do");

struct Decoded {
  std::uint8_t found[kInstructionBytesMax];  // in memory
  std::uint8_t bytes[kInstructionBytesMax];  // with XBEGIN where that was replaced
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

ZydisDecoder g_decoder;

// The number of the 64-bit register that `reg` is part of; kNoRegister for all others.
std::int8_t gpr_number(ZydisRegister reg) noexcept {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15) return kNoRegister;
  return static_cast<std::int8_t>(whole - ZYDIS_REGISTER_RAX);
}

bool mentions(const Decoded &decoded, std::int8_t gpr) noexcept {
  for (std::size_t i = 0; i < decoded.instruction.operand_count; ++i) {
    const ZydisDecodedOperand &operand = decoded.operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && gpr_number(operand.reg.value) == gpr)
      return true;
  }
  return false;
}

const ZydisDecodedOperand *memory_operand(const Decoded &decoded) noexcept {
  for (std::size_t i = 0; i < decoded.instruction.operand_count; ++i)
    if (decoded.operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY) return &decoded.operands[i];
  return nullptr;
}

// False: an address that the emulator does not compute (vectors of addresses, say).
bool set_memory(const Decoded &decoded, const ZydisDecodedOperand &operand, Op *op) noexcept {
  const ZydisDecodedOperandMem &memory = operand.mem;
  if (memory.type == ZYDIS_MEMOP_TYPE_VSIB || memory.type == ZYDIS_MEMOP_TYPE_MIB) return false;
  op->memory = {memory.disp.has_displacement != 0 ? memory.disp.value : 0,
                kNoRegister,
                kNoRegister,
                memory.scale,
                0,
                decoded.instruction.address_width == 32};
  if (memory.base == ZYDIS_REGISTER_RIP || memory.base == ZYDIS_REGISTER_EIP)
    op->memory.displacement += static_cast<std::int64_t>(op->next);
  else if (memory.base != ZYDIS_REGISTER_NONE)
    op->memory.base = gpr_number(memory.base);
  if (memory.index != ZYDIS_REGISTER_NONE) op->memory.index = gpr_number(memory.index);
  op->memory.segment = memory.segment == ZYDIS_REGISTER_FS   ? 1
                       : memory.segment == ZYDIS_REGISTER_GS ? 2
                                                             : 0;
  op->memory_bytes = static_cast<std::uint16_t>(operand.size / 8);
  op->writes = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  return op->memory.segment != 2 && op->memory_bytes <= kScratchBytes;
}

// Says nothing about what the instruction does to its operands: how to find memory (which lies in
// scratch), a REX that no opcode follows, a prefix that comes once more.
bool is_idle_prefix(const ZydisDecodedInstruction &instruction, const std::uint8_t *bytes,
                    std::size_t at) noexcept {
  const std::uint8_t byte = bytes[at];
  const std::size_t count = instruction.raw.prefix_count;
  if (byte == 0x64 || byte == 0x65 || byte == 0x67 || byte == 0x2E || byte == 0x36 ||
      byte == 0x3E || byte == 0x26)
    return true;
  if ((byte & 0xF0u) == 0x40 && at + 1 < count) return true;
  for (std::size_t i = at + 1; i < count; ++i)
    if (bytes[i] == byte) return true;
  return false;
}

// The instruction again, with its memory operand in scratch; the bytes behind the operand, an
// immediate, stay. A displacement of four bytes makes it longer: idle prefixes are left out, so
// that it stays within the 15 bytes that a processor takes.
// With a base that is rip, X and B of REX, VEX and EVEX mean nothing.
void emit_with_scratch(const ZydisDecodedInstruction &instruction, const std::uint8_t *bytes,
                       const void *scratch, Emitter *emit) noexcept {
  const std::size_t modrm = instruction.raw.modrm.offset;
  for (std::size_t i = 0; i < modrm; ++i)
    if (i >= instruction.raw.prefix_count || !is_idle_prefix(instruction, bytes, i))
      emit->byte(bytes[i]);
  emit->byte((bytes[modrm] & 0x38u) | 0x05u);
  const bool has_sib = (bytes[modrm] & 7) == 4;
  const std::size_t behind = modrm + 1 + (has_sib ? 1 : 0) + instruction.raw.disp.size / 8;
  TMH_ASSERT(modrm != 0 && behind <= instruction.length);
  emit->relative(scratch, static_cast<std::uint32_t>(instruction.length - behind));
  emit->bytes(bytes + behind, instruction.length - behind);
}

// A register that the instruction leaves alone; there is one, because none names more than eight.
std::int8_t free_register(const Decoded &decoded) noexcept {
  // Without REX first: it would change what AH to BH mean.
  constexpr std::int8_t kCandidates[] = {7, 6, 3, 5, 2, 1, 0};
  for (const std::int8_t candidate : kCandidates)
    if (!mentions(decoded, candidate)) return candidate;
  return kNoRegister;
}

ZydisRegister renamed(ZydisRegister reg, std::int8_t to) noexcept {
  TMH_ASSERT(to >= 0 && to < 8 && to != kRsp);  // free_register() gave it
  const ZydisRegisterClass kind = ZydisRegisterGetClass(reg);
  // Class GPR8 numbers AH to BH between BL and SPL.
  if (kind == ZYDIS_REGCLASS_GPR8)
    return to < 4 ? static_cast<ZydisRegister>(ZYDIS_REGISTER_AL + to)
                  : static_cast<ZydisRegister>(ZYDIS_REGISTER_SPL + (to - 4));
  return ZydisRegisterEncode(kind, static_cast<ZyanU8>(to));
}

// rsp never holds the program's value: the instruction works on another register meanwhile. mov
// keeps the flags.
bool emit_without_rsp(const Decoded &decoded, const Op &op, Registers *registers,
                      Emitter *emit) noexcept {
  const std::int8_t other = free_register(decoded);
  ZydisEncoderRequest request;
  if (other == kNoRegister || ZYAN_FAILED(ZydisEncoderDecodedInstructionToEncoderRequest(
                                  &decoded.instruction, decoded.operands,
                                  decoded.instruction.operand_count_visible, &request)))
    return false;
  for (std::size_t i = 0; i < request.operand_count; ++i) {
    ZydisEncoderOperand &operand = request.operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && gpr_number(operand.reg.value) == kRsp)
      operand.reg.value = renamed(operand.reg.value, other);
    // A form that decodes again whatever the original was; the operand is replaced by scratch
    // anyway.
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      operand.mem.base = ZYDIS_REGISTER_R12;
      operand.mem.index = ZYDIS_REGISTER_NONE;
      operand.mem.scale = 0;
      operand.mem.displacement = 0;
    }
  }
  std::uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
  ZyanUSize length = sizeof bytes;
  ZydisDecodedInstruction again;
  if (ZYAN_FAILED(ZydisEncoderEncodeInstruction(&request, bytes, &length)) ||
      ZYAN_FAILED(ZydisDecoderDecodeInstruction(&g_decoder, nullptr, bytes, length, &again)) ||
      again.mnemonic != decoded.instruction.mnemonic)
    return false;
  const auto number = static_cast<unsigned>(other);
  emit->store(&registers->spill, number);
  emit->load(number, &registers->gpr[kRsp]);
  if (op.kind == OpKind::kNativeMemory)
    emit_with_scratch(again, bytes, registers->scratch, emit);
  else
    emit->bytes(bytes, length);
  emit->store(&registers->gpr[kRsp], number);
  emit->load(number, &registers->spill);
  return true;
}

bool emit_native(const Decoded &decoded, const Op &op, Registers *registers,
                 Emitter *emit) noexcept {
  if (mentions(decoded, kRsp)) return emit_without_rsp(decoded, op, registers, emit);
  if (op.kind == OpKind::kNativeMemory)
    emit_with_scratch(decoded.instruction, decoded.bytes, registers->scratch, emit);
  else
    emit->bytes(decoded.bytes, decoded.instruction.length);
  return true;
}

// --- what is not run as it is ---

bool is_no_operation(ZydisMnemonic mnemonic) noexcept {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_ENDBR64:
    case ZYDIS_MNEMONIC_ENDBR32:
    case ZYDIS_MNEMONIC_PREFETCH:
    case ZYDIS_MNEMONIC_PREFETCHNTA:
    case ZYDIS_MNEMONIC_PREFETCHT0:
    case ZYDIS_MNEMONIC_PREFETCHT1:
    case ZYDIS_MNEMONIC_PREFETCHT2:
    case ZYDIS_MNEMONIC_PREFETCHW:
    case ZYDIS_MNEMONIC_PREFETCHWT1:
    case ZYDIS_MNEMONIC_CLDEMOTE:
      return true;
    default:
      return false;
  }
}

// SDM vol. 1, 16.3.8.1: abort on hardware always, or on the machines that were looked at.
bool aborts_on_hardware(const ZydisDecodedInstruction &instruction) noexcept {
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_XSAVE:
    case ZYDIS_CATEGORY_XSAVEOPT:
    case ZYDIS_CATEGORY_CLFLUSHOPT:
    case ZYDIS_CATEGORY_CLWB:
    case ZYDIS_CATEGORY_CLZERO:
    case ZYDIS_CATEGORY_WAITPKG:
    case ZYDIS_CATEGORY_PKU:
    case ZYDIS_CATEGORY_RDWRFSGS:
      return instruction.mnemonic != ZYDIS_MNEMONIC_RDTSC &&
             instruction.mnemonic != ZYDIS_MNEMONIC_RDTSCP &&
             instruction.mnemonic != ZYDIS_MNEMONIC_XGETBV;
    default:
      break;
  }
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
    case ZYDIS_MNEMONIC_CLFLUSH:
    case ZYDIS_MNEMONIC_MONITOR:
    case ZYDIS_MNEMONIC_MWAIT:
    case ZYDIS_MNEMONIC_SERIALIZE:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
      return true;
    default:
      return false;
  }
}

bool is_unsupported(const Decoded &decoded) noexcept {
  switch (decoded.instruction.mnemonic) {
    case ZYDIS_MNEMONIC_ENTER:
    case ZYDIS_MNEMONIC_XLAT:
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
    case ZYDIS_MNEMONIC_MASKMOVQ:
    case ZYDIS_MNEMONIC_MOVDIR64B:
    case ZYDIS_MNEMONIC_ENQCMD:
    case ZYDIS_MNEMONIC_ENQCMDS:
      return true;
    default:
      break;
  }
  switch (decoded.instruction.meta.isa_ext) {
    case ZYDIS_ISA_EXT_AMX_TILE:
    case ZYDIS_ISA_EXT_AMX_INT8:
    case ZYDIS_ISA_EXT_AMX_BF16:
      return true;
    default:
      break;
  }
  for (std::size_t i = 0; i < decoded.instruction.operand_count; ++i) {
    const ZydisDecodedOperand &operand = decoded.operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY &&
        operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN)
      return true;
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ZydisRegisterGetClass(operand.reg.value) == ZYDIS_REGCLASS_SEGMENT &&
        operand.visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN)
      return true;
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
        operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
        gpr_number(operand.reg.value) == kRsp)
      return true;
  }
  return false;
}

// Jumps, calls and pushes: where the value comes from.
bool set_source(const Decoded &decoded, Op *op) noexcept {
  const ZydisDecodedOperand &operand = decoded.operands[0];
  op->value_bytes = 8;
  switch (operand.type) {
    case ZYDIS_OPERAND_TYPE_REGISTER:
      op->source = Source::kRegister;
      op->reg = gpr_number(operand.reg.value);
      return op->reg != kNoRegister &&
             ZydisRegisterGetClass(operand.reg.value) == ZYDIS_REGCLASS_GPR64;
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
      op->source = Source::kImmediate;
      op->target =
          operand.imm.is_relative != 0 ? op->next + operand.imm.value.u : operand.imm.value.u;
      return true;
    case ZYDIS_OPERAND_TYPE_MEMORY:
      op->source = Source::kMemory;
      return operand.size == 64 && set_memory(decoded, operand, op);
    default:
      return false;
  }
}

bool set_string(const Decoded &decoded, StringKind kind, Op *op) noexcept {
  const ZydisDecodedInstruction &instruction = decoded.instruction;
  op->kind = OpKind::kString;
  op->sub = static_cast<std::uint8_t>(kind);
  const ZydisDecodedOperand *memory = memory_operand(decoded);
  op->value_bytes = static_cast<std::uint8_t>(memory == nullptr ? 0 : memory->size / 8);
  constexpr ZydisInstructionAttributes kAnyRep = ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE;
  op->repeat = (instruction.attributes & ZYDIS_ATTRIB_HAS_REPNE) != 0 ? Repeat::kRepNe
               : (instruction.attributes & kAnyRep) != 0              ? Repeat::kRep
                                                                      : Repeat::kOnce;
  return memory != nullptr && instruction.address_width == 64 &&
         (instruction.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS) == 0 &&
         (instruction.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS) == 0;
}

// Only when the offset is a register does it choose the byte, too.
bool is_bit_string(const Decoded &decoded) noexcept {
  return decoded.operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
         decoded.operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
}
bool set_bit_string(const Decoded &decoded, std::uint8_t sub, Op *op) noexcept {
  TMH_ASSERT(sub <= 3 && is_bit_string(decoded));
  op->kind = OpKind::kBitString;
  op->sub = sub;
  op->reg = gpr_number(decoded.operands[1].reg.value);
  op->value_bytes = static_cast<std::uint8_t>(decoded.operands[1].size / 8);
  return set_memory(decoded, decoded.operands[0], op);
}

std::uint8_t condition_of(const Decoded &decoded) noexcept {
  return decoded.instruction.opcode & 0xF;
}

// False: this form is not supported.
bool classify(const Decoded &decoded, Op *op) noexcept {
  const auto as = [op](OpKind kind, std::uint8_t sub = 0) {
    op->kind = kind;
    op->sub = sub;
    return true;
  };
  const ZydisDecodedInstruction &instruction = decoded.instruction;
  const bool is_wide = instruction.operand_width == 64;
  if (is_no_operation(instruction.mnemonic)) return as(OpKind::kNop);
  if (aborts_on_hardware(instruction))
    return as(instruction.mnemonic == ZYDIS_MNEMONIC_INT3 ? OpKind::kInt3 : OpKind::kSystem);
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_INT3:
      return as(OpKind::kInt3);
    case ZYDIS_MNEMONIC_XBEGIN:
      op->target = op->next + decoded.operands[0].imm.value.u;
      return as(OpKind::kXbegin) && instruction.length == 6;
    case ZYDIS_MNEMONIC_XEND:
      return as(OpKind::kXend);
    case ZYDIS_MNEMONIC_XABORT:
      op->target = decoded.operands[0].imm.value.u;
      return as(OpKind::kXabort);
    case ZYDIS_MNEMONIC_XTEST:
      return as(OpKind::kXtest);
    case ZYDIS_MNEMONIC_PUSH:
      return as(OpKind::kPush) && is_wide && set_source(decoded, op);
    case ZYDIS_MNEMONIC_POP:
      return as(OpKind::kPop) && is_wide && set_source(decoded, op);
    case ZYDIS_MNEMONIC_PUSHFQ:
      return as(OpKind::kPushFlags);
    case ZYDIS_MNEMONIC_POPFQ:
      return as(OpKind::kPopFlags);
    case ZYDIS_MNEMONIC_LEAVE:
      return as(OpKind::kLeave) && is_wide;
    case ZYDIS_MNEMONIC_CALL:
      return as(OpKind::kCall) && set_source(decoded, op);
    case ZYDIS_MNEMONIC_JMP:
      return as(OpKind::kJump) && set_source(decoded, op);
    case ZYDIS_MNEMONIC_RET:
      op->target = decoded.operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE
                       ? decoded.operands[0].imm.value.u
                       : 0;
      return as(OpKind::kReturn) && instruction.meta.branch_type == ZYDIS_BRANCH_TYPE_NEAR;
    case ZYDIS_MNEMONIC_LOOPNE:
      return as(OpKind::kLoop, 0) && set_source(decoded, op) && instruction.address_width == 64;
    case ZYDIS_MNEMONIC_LOOPE:
      return as(OpKind::kLoop, 1) && set_source(decoded, op) && instruction.address_width == 64;
    case ZYDIS_MNEMONIC_LOOP:
      return as(OpKind::kLoop, 2) && set_source(decoded, op) && instruction.address_width == 64;
    case ZYDIS_MNEMONIC_JRCXZ:
      return as(OpKind::kLoop, 3) && set_source(decoded, op);
    case ZYDIS_MNEMONIC_JECXZ:
      return as(OpKind::kLoop, 4) && set_source(decoded, op);
    case ZYDIS_MNEMONIC_LEA:
      op->reg = gpr_number(decoded.operands[0].reg.value);
      op->value_bytes = static_cast<std::uint8_t>(decoded.operands[0].size / 8);
      if (!set_memory(decoded, decoded.operands[1], op)) return false;
      op->memory.segment = 0;  // an address within its segment
      return as(OpKind::kLea);
    case ZYDIS_MNEMONIC_BT:
      if (is_bit_string(decoded)) return set_bit_string(decoded, 0, op);
      break;
    case ZYDIS_MNEMONIC_BTS:
      if (is_bit_string(decoded)) return set_bit_string(decoded, 1, op);
      break;
    case ZYDIS_MNEMONIC_BTR:
      if (is_bit_string(decoded)) return set_bit_string(decoded, 2, op);
      break;
    case ZYDIS_MNEMONIC_BTC:
      if (is_bit_string(decoded)) return set_bit_string(decoded, 3, op);
      break;
    case ZYDIS_MNEMONIC_MOVSB:
    case ZYDIS_MNEMONIC_MOVSW:
    case ZYDIS_MNEMONIC_MOVSQ:
      return set_string(decoded, StringKind::kMovs, op);
    case ZYDIS_MNEMONIC_STOSB:
    case ZYDIS_MNEMONIC_STOSW:
    case ZYDIS_MNEMONIC_STOSD:
    case ZYDIS_MNEMONIC_STOSQ:
      return set_string(decoded, StringKind::kStos, op);
    case ZYDIS_MNEMONIC_LODSB:
    case ZYDIS_MNEMONIC_LODSW:
    case ZYDIS_MNEMONIC_LODSD:
    case ZYDIS_MNEMONIC_LODSQ:
      return set_string(decoded, StringKind::kLods, op);
    case ZYDIS_MNEMONIC_CMPSB:
    case ZYDIS_MNEMONIC_CMPSW:
    case ZYDIS_MNEMONIC_CMPSQ:
      return set_string(decoded, StringKind::kCmps, op);
    case ZYDIS_MNEMONIC_SCASB:
    case ZYDIS_MNEMONIC_SCASW:
    case ZYDIS_MNEMONIC_SCASD:
    case ZYDIS_MNEMONIC_SCASQ:
      return set_string(decoded, StringKind::kScas, op);
    case ZYDIS_MNEMONIC_MOVSD:  // also a vector instruction's name
      if (instruction.meta.category == ZYDIS_CATEGORY_STRINGOP)
        return set_string(decoded, StringKind::kMovs, op);
      break;
    case ZYDIS_MNEMONIC_CMPSD:
      if (instruction.meta.category == ZYDIS_CATEGORY_STRINGOP)
        return set_string(decoded, StringKind::kCmps, op);
      break;
    default:
      break;
  }
  if (instruction.meta.category == ZYDIS_CATEGORY_COND_BR)
    return as(OpKind::kJumpIf, condition_of(decoded)) && set_source(decoded, op);
  if (is_unsupported(decoded)) return false;
  const ZydisDecodedOperand *memory = memory_operand(decoded);
  if (memory == nullptr) return as(OpKind::kNative);
  return as(OpKind::kNativeMemory) && memory->mem.type == ZYDIS_MEMOP_TYPE_MEM &&
         instruction.raw.modrm.offset != 0 && set_memory(decoded, *memory, op) &&
         op->memory_bytes != 0;
}

// False: the bytes cannot be read, or are no instruction.
bool fetch(std::uint64_t rip, Decoded *decoded) noexcept {
  std::size_t count = kInstructionBytesMax;
  if (!try_copy_bytes(decoded->found, reinterpret_cast<const void *>(rip), count)) {
    count = kPageBytes - rip % kPageBytes;  // the next page may not be there
    if (count > kInstructionBytesMax ||
        !try_copy_bytes(decoded->found, reinterpret_cast<const void *>(rip), count))
      return false;
  }
  copy_bytes(decoded->bytes, decoded->found, count);
  if (decoded->found[0] == kHlt && is_patched(rip)) decoded->bytes[0] = kXbeginBytes[0];
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&g_decoder, decoded->bytes, count,
                                             &decoded->instruction, decoded->operands));
}

bool ends_block(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::kCall:
    case OpKind::kReturn:
    case OpKind::kJump:
    case OpKind::kJumpIf:
    case OpKind::kLoop:
    case OpKind::kXend:
    case OpKind::kXabort:
    case OpKind::kInt3:
    case OpKind::kSystem:
    case OpKind::kUnsupported:
      return true;
    default:
      return false;
  }
}

}  // namespace

void prepare_decoder() noexcept {
  ZydisDecoderInit(&g_decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

bool decode_block(std::uint64_t rip, CodeRoom *room, Block *block) noexcept {
  TMH_ASSERT(block != nullptr && room->at <= room->end && room->exit != 0);
  if (static_cast<std::size_t>(room->end - room->at) < kBlockOps * kThunkBytesMax) return false;
  Emitter emit(room->at);
  block->rip = rip;
  block->code_bytes = 0;
  block->ops = 0;
  Op *open = nullptr;  // a thunk of registers only, not yet closed by its jump
  for (std::size_t count = 0; count < kBlockOps; ++count) {
    Decoded decoded;
    Op op{};
    op.instructions = 1;
    op.reg = kNoRegister;
    std::size_t length = 0;
    if (fetch(rip, &decoded)) {
      length = decoded.instruction.length;
      op.next = rip + length;
      op.mnemonic = static_cast<std::uint16_t>(decoded.instruction.mnemonic);
      if (!classify(decoded, &op)) op.kind = OpKind::kUnsupported;
    } else {
      op.kind = OpKind::kSystem;  // an invalid opcode faults on hardware
    }
    const bool is_native = op.kind == OpKind::kNative || op.kind == OpKind::kNativeMemory;
    if (open != nullptr && op.kind != OpKind::kNative) {
      emit.jump(room->exit);
      open = nullptr;
    }
    if (is_native) {
      const std::uint64_t thunk = emit.address();
      if (!emit_native(decoded, op, room->registers, &emit)) {
        op.kind = OpKind::kUnsupported;
        if (open != nullptr) emit.jump(room->exit);
        open = nullptr;
      } else if (open != nullptr) {
        open->next = op.next;
        ++open->instructions;
      } else {
        op.thunk = thunk;
      }
    }
    TMH_ASSERT(block->code_bytes + length <= kBlockBytes && block->ops < kBlockOps);
    copy_bytes(block->code + block->code_bytes, decoded.found, length);
    block->code_bytes += static_cast<std::uint32_t>(length);
    if (op.kind == OpKind::kNative && open != nullptr) {
      rip = op.next;
      continue;
    }
    block->op[block->ops++] = op;
    if (op.kind == OpKind::kNative) open = &block->op[block->ops - 1];
    if (op.kind == OpKind::kNativeMemory) emit.jump(room->exit);
    rip = op.next;
    if (ends_block(op.kind)) break;
  }
  if (open != nullptr) emit.jump(room->exit);
  TMH_ASSERT(block->ops != 0 && emit.at() <= room->end);
  room->at = emit.at();
  return true;
}

void emit_entry_and_exit(CodeRoom *room, std::uint64_t *entry, std::uint64_t *fault) noexcept {
  TMH_ASSERT(entry != nullptr && fault != nullptr && room->registers != nullptr);
  Registers &registers = *room->registers;
  Emitter emit(room->at);
  constexpr std::uint8_t kPushCalleeSaved[] = {0x53, 0x55, 0x41, 0x54, 0x41,
                                               0x55, 0x41, 0x56, 0x41, 0x57};
  constexpr std::uint8_t kPopCalleeSaved[] = {0x41, 0x5F, 0x41, 0x5E, 0x41,
                                              0x5D, 0x41, 0x5C, 0x5D, 0x5B};
  *entry = emit.address();
  emit.bytes(kPushCalleeSaved, sizeof kPushCalleeSaved);
  emit.store(&registers.host_rsp, kRsp);
  emit.byte(0xFF), emit.byte(0x35), emit.relative(&registers.flags);  // push
  emit.byte(0x9D);                                                    // popfq
  for (unsigned reg = 0; reg < 16; ++reg)
    if (reg != kRsp) emit.load(reg, &registers.gpr[reg]);
  emit.byte(0xFF), emit.byte(0x25), emit.relative(&registers.thunk);  // jmp
  room->exit = emit.address();
  for (unsigned reg = 0; reg < 16; ++reg)
    if (reg != kRsp) emit.store(&registers.gpr[reg], reg);
  emit.byte(0x9C);                                                    // pushfq
  emit.byte(0x8F), emit.byte(0x05), emit.relative(&registers.flags);  // pop
  emit.byte(0xFC);                                                    // cld
  emit.bytes(kPopCalleeSaved, sizeof kPopCalleeSaved);
  emit.byte(0xC3);
  *fault = emit.address();
  emit.load(kRsp, &registers.host_rsp);
  emit.byte(0xFC);
  emit.bytes(kPopCalleeSaved, sizeof kPopCalleeSaved);
  emit.byte(0xC3);
  room->at = emit.at();
}

const char *mnemonic_name(std::uint16_t mnemonic) noexcept {
  const char *name = ZydisMnemonicGetString(static_cast<ZydisMnemonic>(mnemonic));
  return name == nullptr ? "invalid" : name;
}

}  // namespace tmh::rtm
