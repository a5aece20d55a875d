// rtm_emulator/exec.cpp -- the dispatcher, and the instructions that are not run
// natively.
#include "rtm_emulator/exec.h"

#include "rtm_emulator/assert.h"
#include "rtm_emulator/flags.h"

namespace tmh::rtm {

namespace {

// Thunks write there; apart from code, or the processor drops its pipeline each time.
constexpr std::size_t kDataBytes = 2 * kPageBytes;
constexpr std::size_t kCodeBytes = 1 << 20;
constexpr std::uint32_t kBlocks = 2048;
constexpr std::uint32_t kBlockEntries = 8192;
// Standard form, AVX-512 and PKRU; AMX is not saved here.
constexpr std::size_t kVectorBytes = 16 * 1024;
static_assert(sizeof(Registers) <= kDataBytes);
static_assert(kCodeBytes >= 2 * kBlockOps * kThunkBytesMax,
              "an empty room holds entry, exit and any block, or find_block() would never end");

constexpr std::uint8_t kRax = 0, kRcx = 1, kRsi = 6, kRdi = 7;

std::uint32_t entry_of(std::uint64_t rip) noexcept {
  return static_cast<std::uint32_t>(rip * 0x9E37'79B9'7F4A'7C15u >> 51);
}
static_assert(kBlockEntries == 1 << (64 - 51));

std::uint64_t truncated(std::uint64_t value, std::uint32_t bytes) noexcept {
  TMH_ASSERT(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  return bytes >= 8 ? value : value & ((std::uint64_t{1} << 8 * bytes) - 1);
}

// A result in a register: 32 bits clear the upper half, 8 and 16 keep the rest.
void set_register(std::uint64_t *reg, std::uint64_t value, std::uint32_t bytes) noexcept {
  if (bytes >= 4)
    *reg = truncated(value, bytes);
  else
    *reg = (*reg & ~((std::uint64_t{1} << 8 * bytes) - 1)) | truncated(value, bytes);
}

std::uint64_t fs_base() noexcept {
  std::uint64_t base = 0;
  asm volatile("movq %%fs:0, %0" : "=r"(base));  // glibc's thread block begins with its own address
  return base;
}

}  // namespace

bool Executor::allocate() noexcept {
  auto *arena =
      static_cast<std::uint8_t *>(map_memory(kDataBytes + kCodeBytes, Sharing::kPrivate, true));
  blocks_ = static_cast<Block *>(map_memory(kBlocks * sizeof(Block), Sharing::kPrivate));
  block_of_ = static_cast<std::uint32_t *>(
      map_memory(kBlockEntries * sizeof *block_of_, Sharing::kPrivate));
  vectors_ = static_cast<std::uint8_t *>(map_memory(kVectorBytes, Sharing::kPrivate));
  if (arena == nullptr || blocks_ == nullptr || block_of_ == nullptr || vectors_ == nullptr)
    return false;
  registers_ = reinterpret_cast<Registers *>(arena);
  code_ = arena + kDataBytes;
  room_ = {code_, code_ + kCodeBytes, 0, registers_};
  emit_entry_and_exit(&room_, &entry_, &fault_);
  first_thunk_ = room_.at;
  return memory_.allocate();
}

std::uint64_t Executor::recover_thunk(std::uint64_t rip, std::uint64_t *rsp) noexcept {
  TMH_ASSERT(rsp != nullptr && code_ != nullptr);
  const std::uint64_t begin = address_of(code_);
  if (rip < begin || rip >= begin + kCodeBytes) return 0;
  registers_->faulted = 1;
  *rsp = registers_->host_rsp;
  return fault_;
}

const Block *Executor::find_block(std::uint64_t rip) noexcept {
  const std::uint32_t entry = entry_of(rip);
  TMH_ASSERT(block_of_[entry] <= blocks_used_);
  if (block_of_[entry] != 0) {
    const Block &block = blocks_[block_of_[entry] - 1];
    bool equal = false;
    if (block.rip == rip &&
        try_compare_bytes(block.code, reinterpret_cast<const void *>(rip), block.code_bytes,
                          &equal) &&
        equal)
      return &block;
  }
  save_vectors(vectors_, vector_mask_);
  for (;;) {
    if (blocks_used_ < kBlocks && decode_block(rip, &room_, &blocks_[blocks_used_])) break;
    // Full: everything anew. Nothing runs in a thunk now.
    clear_bytes(block_of_, kBlockEntries * sizeof *block_of_);
    blocks_used_ = 0;
    room_.at = first_thunk_;
  }
  restore_vectors(vectors_, vector_mask_);
  block_of_[entry] = ++blocks_used_;
  return &blocks_[blocks_used_ - 1];
}

void Executor::begin(std::uint64_t rip, const Knobs &knobs, std::uint32_t slot,
                     std::uint64_t vector_mask) noexcept {
  TMH_ASSERT(registers_ != nullptr && slot < kSlots && knobs.nesting >= 1);
  knobs_ = knobs;
  if (!dice_seeded_ || seed_ != knobs.seed) dice_.seed(knobs.seed + slot + 1);
  dice_seeded_ = true;
  seed_ = knobs.seed;
  vector_mask_ = vector_mask;
  rip_ = rip;
  depth_ = 1;
  executed_ = 0;
  until_yield_ = knobs_.yield_every;
  memory_.begin(knobs, slot, &dice_);
}

Executor::Outcome Executor::run() noexcept {
  Step step = Step::kLeft;
  while (step == Step::kLeft) {
    if (memory_.is_doomed())
      step = abort(Cause::kConflict);
    else
      step = run_block(*find_block(rip_));
  }
  memory_.end();
  count(shared().counters.instructions, executed_);
  if (step == Step::kCommitted) count(shared().counters.commits);
  return {step == Step::kCommitted, status_, rip_};
}

Executor::Step Executor::run_block(const Block &block) noexcept {
  TMH_ASSERT(block.ops >= 1 && block.ops <= kBlockOps);
  for (std::uint32_t i = 0; i < block.ops; ++i) {
    const Op &op = block.op[i];
    if (!pass_time(op.instructions)) return abort(Cause::kBudget);
    rip_ = op.next;
    const Step step = execute(op);
    if (step != Step::kNext) {
      if (step == Step::kAborted && (op.kind == OpKind::kUnsupported || op.kind == OpKind::kSystem))
        shared().counters.refused[op.mnemonic % kMnemonics].fetch_add(
            1, std::memory_order_relaxed);  // relaxed: statistics
      return step;
    }
  }
  return Step::kLeft;
}

bool Executor::pass_time(std::uint32_t instructions) noexcept {
  executed_ += instructions;
  if (knobs_.yield_every != 0) {
    if (until_yield_ <= instructions) {
      (void)system_call(Call::kSchedYield);
      until_yield_ = knobs_.yield_every;
    } else {
      until_yield_ -= instructions;
    }
  }
  return executed_ <= knobs_.instructions;
}

Executor::Step Executor::abort(Cause cause, std::uint8_t code) noexcept {
  TMH_ASSERT(depth_ >= 1 && (code == 0 || cause == Cause::kExplicit));
  // What a snapshot led to that others have overwritten in the middle, is their fault.
  if (cause != Cause::kConflict && cause != Cause::kSpurious) cause = memory_.settled(cause);
  status_ = status_of(cause, code);
  Counters &counters = shared().counters;
  count(counters.by_cause[static_cast<std::size_t>(cause)]);
  if (cause == Cause::kExplicit) count(counters.by_code[code]);
  if (depth_ > 1) {
    status_ |= kStatusNested;
    count(counters.nested);
  }
  return Step::kAborted;
}

Executor::Step Executor::execute(const Op &op) noexcept {
  switch (op.kind) {
    case OpKind::kNative:
      return run_thunk(op);
    case OpKind::kNativeMemory:
      return run_thunk_with_memory(op);
    case OpKind::kLea:
      TMH_ASSERT(op.reg >= 0 && op.reg < 16);
      set_register(&registers_->gpr[op.reg], effective(op), op.value_bytes);
      return Step::kNext;
    case OpKind::kNop:
      return Step::kNext;
    case OpKind::kPush:
    case OpKind::kPop:
    case OpKind::kPushFlags:
    case OpKind::kPopFlags:
    case OpKind::kLeave:
      return stack(op);
    case OpKind::kCall:
    case OpKind::kReturn:
    case OpKind::kJump:
    case OpKind::kJumpIf:
    case OpKind::kLoop:
      return transfer(op);
    case OpKind::kString:
      return string(op);
    case OpKind::kBitString:
      return bit_string(op);
    case OpKind::kXbegin:
    case OpKind::kXend:
      return nest(op);
    case OpKind::kXabort:
      return abort(Cause::kExplicit, static_cast<std::uint8_t>(op.target));
    case OpKind::kXtest:
      registers_->flags &= ~kArithmeticFlags;
      return Step::kNext;
    case OpKind::kInt3:
      return abort(Cause::kDebug);
    case OpKind::kSystem:
      return abort(Cause::kSystem);
    case OpKind::kUnsupported:
      break;
  }
  return abort(Cause::kUnsupported);
}

Executor::Step Executor::run_thunk(const Op &op) noexcept {
  TMH_ASSERT(op.thunk >= address_of(first_thunk_) && op.thunk < address_of(room_.at));
  registers_->thunk = op.thunk;
  reinterpret_cast<void (*)()>(entry_)();
  if (registers_->faulted != 0) {
    registers_->faulted = 0;
    return abort(Cause::kFault);
  }
  return Step::kNext;
}

Executor::Step Executor::run_thunk_with_memory(const Op &op) noexcept {
  const std::uint64_t address = effective(op);
  TMH_ASSERT(op.memory_bytes != 0 && op.memory_bytes <= kScratchBytes);
  // A store reads first, too: it may leave bytes alone (masks).
  if (!memory_.read(address, registers_->scratch, op.memory_bytes)) return memory_failed();
  const Step step = run_thunk(op);
  if (step != Step::kNext || op.writes == 0) return step;
  return memory_.write(address, registers_->scratch, op.memory_bytes) ? Step::kNext
                                                                      : memory_failed();
}

std::uint64_t Executor::effective(const Op &op) const noexcept {
  TMH_ASSERT(op.memory.base < 16 && op.memory.index < 16 && op.memory.segment < 2);
  auto address = static_cast<std::uint64_t>(op.memory.displacement);
  if (op.memory.base != kNoRegister) address += registers_->gpr[op.memory.base];
  if (op.memory.index != kNoRegister) address += registers_->gpr[op.memory.index] * op.memory.scale;
  if (op.memory.is_address32 != 0) address &= 0xFFFF'FFFF;
  return op.memory.segment == 1 ? address + fs_base() : address;
}

bool Executor::push(std::uint64_t value) noexcept {
  if (!memory_.write(registers_->gpr[kRsp] - 8, &value, 8)) return false;
  registers_->gpr[kRsp] -= 8;
  return true;
}

bool Executor::pop(std::uint64_t *value) noexcept {
  if (!memory_.read(registers_->gpr[kRsp], value, 8)) return false;
  registers_->gpr[kRsp] += 8;
  return true;
}

bool Executor::value_of(const Op &op, std::uint64_t *value) noexcept {
  TMH_ASSERT(op.source != Source::kNone && (op.source != Source::kRegister || op.reg >= 0));
  if (op.source == Source::kMemory) return memory_.read(effective(op), value, 8);
  *value = op.source == Source::kRegister ? registers_->gpr[op.reg] : op.target;
  return true;
}

Executor::Step Executor::stack(const Op &op) noexcept {
  std::uint64_t value = 0;
  bool done = false;
  switch (op.kind) {
    case OpKind::kPush:
      done = value_of(op, &value) && push(value);
      break;
    case OpKind::kPop:
      // The address of a destination in memory is computed with the new rsp (SDM, POP).
      done = pop(&value) &&
             (op.source == Source::kRegister || memory_.write(effective(op), &value, 8));
      if (done && op.source == Source::kRegister) registers_->gpr[op.reg] = value;
      break;
    case OpKind::kPushFlags:
      done = push(registers_->flags);
      break;
    case OpKind::kPopFlags:
      done = pop(&value);
      if (done) registers_->flags = (registers_->flags & ~kUserFlags) | (value & kUserFlags);
      break;
    default:  // kLeave
      value = registers_->gpr[kRsp];
      registers_->gpr[kRsp] = registers_->gpr[5];
      done = pop(&registers_->gpr[5]);
      break;
  }
  return done ? Step::kNext : memory_failed();
}

Executor::Step Executor::transfer(const Op &op) noexcept {
  std::uint64_t target = 0;
  bool taken = true;
  switch (op.kind) {
    case OpKind::kCall:
      if (!value_of(op, &target) || !push(op.next)) return memory_failed();
      break;
    case OpKind::kReturn:
      if (!pop(&target)) return memory_failed();
      registers_->gpr[kRsp] += op.target;
      break;
    case OpKind::kJump:
      if (!value_of(op, &target)) return memory_failed();
      break;
    case OpKind::kJumpIf:
      taken = is_met(op.sub, registers_->flags);
      target = op.target;
      break;
    default: {  // kLoop
      std::uint64_t &counter = registers_->gpr[kRcx];
      const bool zero_flag = (registers_->flags & kZeroFlag) != 0;
      target = op.target;
      if (op.sub <= 2) taken = --counter != 0 && (op.sub == 2 || zero_flag == (op.sub == 1));
      if (op.sub == 3) taken = counter == 0;
      if (op.sub == 4) taken = (counter & 0xFFFF'FFFF) == 0;
      break;
    }
  }
  rip_ = taken ? target : op.next;
  return Step::kLeft;
}

Executor::Step Executor::string(const Op &op) noexcept {
  bool stop = false;
  if (op.repeat == Repeat::kOnce) return string_once(op, &stop);
  while (registers_->gpr[kRcx] != 0 && !stop) {
    const Step step = string_once(op, &stop);
    if (step != Step::kNext) return step;
    --registers_->gpr[kRcx];
    if (!pass_time(1)) return abort(Cause::kBudget);
  }
  return Step::kNext;
}

Executor::Step Executor::string_once(const Op &op, bool *stop) noexcept {
  std::uint64_t &rsi = registers_->gpr[kRsi], &rdi = registers_->gpr[kRdi],
                &rax = registers_->gpr[kRax];
  const std::uint32_t bytes = op.value_bytes;
  const std::uint64_t by =
      (registers_->flags & kDirectionFlag) != 0 ? std::uint64_t{0} - bytes : bytes;
  std::uint64_t left = rax, right = 0;
  const auto kind = static_cast<StringKind>(op.sub);
  const bool loads =
      kind == StringKind::kMovs || kind == StringKind::kLods || kind == StringKind::kCmps;
  if (loads) {
    left = 0;
    if (!memory_.read(rsi, &left, bytes)) return memory_failed();
  }
  switch (kind) {
    case StringKind::kMovs:
    case StringKind::kStos:
      if (!memory_.write(rdi, &left, bytes)) return memory_failed();
      break;
    case StringKind::kLods:
      set_register(&rax, left, bytes);
      break;
    case StringKind::kCmps:
    case StringKind::kScas:
      if (!memory_.read(rdi, &right, bytes)) return memory_failed();
      registers_->flags = (registers_->flags & ~kArithmeticFlags) |
                          flags_of_comparison(truncated(left, bytes), right, bytes);
      *stop = ((registers_->flags & kZeroFlag) != 0) == (op.repeat == Repeat::kRepNe);
      break;
  }
  if (loads) rsi += by;
  if (kind != StringKind::kLods) rdi += by;
  return Step::kNext;
}

Executor::Step Executor::bit_string(const Op &op) noexcept {
  TMH_ASSERT(op.reg >= 0 && op.value_bytes >= 2 && op.value_bytes <= 8);
  const std::uint32_t bits = op.value_bytes * 8u;
  // Signed: the offset chooses a word before or behind the operand's address.
  std::int64_t offset =
      static_cast<std::int64_t>(registers_->gpr[op.reg] << (64 - bits)) >> (64 - bits);
  const auto bit = static_cast<std::uint64_t>(offset) & (bits - 1);
  const std::uint64_t address =
      effective(op) + static_cast<std::uint64_t>((offset >> (bits == 64   ? 6
                                                             : bits == 32 ? 5
                                                                          : 4)) *
                                                 op.value_bytes);
  std::uint64_t value = 0;
  if (!memory_.read(address, &value, op.value_bytes)) return memory_failed();
  const std::uint64_t mask = std::uint64_t{1} << bit;
  registers_->flags =
      (value & mask) != 0 ? registers_->flags | kCarryFlag : registers_->flags & ~kCarryFlag;
  if (op.sub == 0) return Step::kNext;
  value = op.sub == 1 ? value | mask : op.sub == 2 ? value & ~mask : value ^ mask;
  return memory_.write(address, &value, op.value_bytes) ? Step::kNext : memory_failed();
}

Executor::Step Executor::nest(const Op &op) noexcept {
  if (op.kind == OpKind::kXbegin) {
    if (depth_ >= knobs_.nesting) return abort(Cause::kNesting);
    ++depth_;
    return Step::kNext;
  }
  TMH_ASSERT(depth_ >= 1);
  if (--depth_ != 0) return Step::kLeft;
  if (memory_.commit()) return Step::kCommitted;
  depth_ = 1;
  return memory_failed();
}

}  // namespace tmh::rtm
